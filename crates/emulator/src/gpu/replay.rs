//! Executable graphs: instantiation, update and launch.
//!
//! A launch puts the nodes into the device's queues, branch by branch, with their
//! dependencies and nothing else between them. Launches of one executable follow each
//! other, as in CUDA.

use std::sync::{Arc, Mutex};

use airamp_vendor_abi::cuda::CudaError;

use super::clock::Clock;
use super::completion::{Completion, lock};
use super::graph::{self, Body};
use super::handles::Handles;
use super::order::Lane;
use super::queue::Slot;
use super::stream::{self, Stream};
use super::work::Work;
use super::{Answer, capture};

/// Why a graph cannot take the place of the one that was instantiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("the number of nodes or their dependencies differ")]
    Topology,
    #[error("a node is of another kind")]
    NodeKind,
}

pub struct Executable {
    state: Mutex<State>,
}

struct State {
    plan: Arc<Body>,
    lanes: Vec<Lane>,
    /// The end of the launch before.
    last: Option<Arc<Completion>>,
    clock: Clock,
}

static EXECUTABLES: Handles<Executable> = Handles::new();

pub fn instantiate(graph: usize) -> Answer<usize> {
    let plan = Arc::new(graph::body(graph)?);
    let state = State { lanes: lanes(&plan), plan, last: None, clock: Clock::default() };
    Ok(EXECUTABLES.insert(Executable { state: Mutex::new(state) }))
}

/// Destroys an executable at once; a launch that is under way still ends.
pub fn destroy(executable: usize) -> Answer<()> {
    EXECUTABLES.remove(executable).map(drop)
}

/// Replaces what the nodes do by what those of `graph` do, if both have the same shape.
pub fn update(executable: usize, graph: usize) -> Answer<Result<(), Mismatch>> {
    let executable = EXECUTABLES.get(executable)?;
    let plan = Arc::new(graph::body(graph)?);
    let mut state = lock(&executable.state);
    if let Some(mismatch) = compare(&state.plan, &plan) {
        return Ok(Err(mismatch));
    }
    state.lanes = lanes(&plan);
    state.plan = plan;
    Ok(Ok(()))
}

fn compare(old: &Body, new: &Body) -> Option<Mismatch> {
    if old.nodes.len() != new.nodes.len() {
        return Some(Mismatch::Topology);
    }
    let pairs = || old.nodes.iter().zip(&new.nodes);
    if pairs().any(|(a, b)| a.work.kind() != b.work.kind()) {
        return Some(Mismatch::NodeKind);
    }
    pairs().any(|(a, b)| sorted(&a.after) != sorted(&b.after)).then_some(Mismatch::Topology)
}

fn sorted(nodes: &[usize]) -> Vec<usize> {
    let mut nodes = nodes.to_vec();
    nodes.sort_unstable();
    nodes
}

/// A lane per branch. Which queue it has is decided at each launch.
fn lanes(plan: &Body) -> Vec<Lane> {
    (0..plan.lanes.len()).map(|index| Lane::new(format!("graph branch {index}"), 0)).collect()
}

/// Launches all nodes behind what is on the stream.
pub fn launch(executable: usize, stream: usize) -> Answer<()> {
    let executable = EXECUTABLES.get(executable)?;
    let stream = stream::find(stream)?;
    stream.device.check()?;
    if capture::status(stream.handle).is_some() {
        return Err(CudaError::NOT_SUPPORTED);
    }
    let mut state = lock(&executable.state);
    state.start_queues(&stream)?;
    stream.enqueue(|lane, after, slot| state.put(&stream, slot, lane, after))
}

/// The first branch runs in the launching stream's queue, the others beside it.
fn branch_queue(stream: &Stream, index: usize) -> usize {
    (stream.queue + index) % stream.device.queues.len()
}

impl State {
    /// All that a launch will use, since it cannot be stopped half-way.
    fn start_queues(&self, stream: &Stream) -> Answer<()> {
        let mut devices = self.plan.lanes.iter().enumerate();
        devices.try_for_each(|(index, device)| device.queues[branch_queue(stream, index)].start())
    }

    fn put(&mut self, stream: &Stream, slot: Slot, lane: &mut Lane, mut after: Vec<Arc<Completion>>) {
        after.extend(self.last.take());
        lane.clock.join(&self.clock);
        let start = lane.enqueue(stream.device, after, Work::Nothing, None);
        for (index, branch) in self.lanes.iter_mut().enumerate() {
            branch.queue = branch_queue(stream, index);
            branch.clock.join(&lane.clock);
        }
        let ends = self.put_nodes(&start);
        let mut joined = Vec::new();
        for leaf in self.plan.leaves() {
            joined.push(Arc::clone(&ends[leaf].0));
            lane.clock.join(&ends[leaf].1);
        }
        let keep = Work::Keep(Arc::clone(&self.plan));
        self.last = Some(lane.enqueue(stream.device, joined, keep, Some(slot)));
        self.clock = lane.clock.clone();
    }

    fn put_nodes(&mut self, start: &Arc<Completion>) -> Vec<(Arc<Completion>, Clock)> {
        let mut ends: Vec<(Arc<Completion>, Clock)> = Vec::new();
        // A wait for an external event is for what was recorded before the launch: a recording of the
        // same launch has no edge to it.
        let seen: Vec<_> = self
            .plan
            .nodes
            .iter()
            .map(|node| match &node.work {
                Work::Wait(event) => event.latest(),
                _ => None,
            })
            .collect();
        for (node, seen) in self.plan.nodes.iter().zip(seen) {
            let lane = &mut self.lanes[node.lane];
            let mut after = vec![Arc::clone(start)];
            for before in &node.after {
                after.push(Arc::clone(&ends[*before].0));
                lane.clock.join(&ends[*before].1);
            }
            let device = self.plan.lanes[node.lane];
            if let Some(record) = &seen {
                lane.clock.join(&record.clock);
                after.push(Arc::clone(&record.completion));
            }
            let is_wait = matches!(node.work, Work::Wait(_));
            let work = if is_wait { Work::Nothing } else { node.work.clone() };
            let end = lane.enqueue(device, after, work, None);
            ends.push((end, lane.clock.clone()));
        }
        ends
    }
}
