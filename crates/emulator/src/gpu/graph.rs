//! Graphs: what a capture has recorded, as nodes with what they depend on.

use std::sync::{Arc, Mutex};

use airamp_vendor_abi::cuda::CudaError;

use super::completion::lock;
use super::device::Device;
use super::handles::Handles;
use super::user_object::Held;
use super::work::Work;
use super::{Answer, process};

#[derive(Clone)]
pub(super) struct Node {
    pub(super) work: Work,
    pub(super) after: Vec<usize>,
    pub(super) lane: usize,
}

/// What a graph holds. Lanes are the captured streams: nodes of one follow each other.
#[derive(Clone, Default)]
pub(super) struct Body {
    pub(super) nodes: Vec<Node>,
    pub(super) lanes: Vec<&'static Device>,
    pub(super) held: Vec<Held>,
}

#[derive(Default)]
pub struct Graph {
    body: Mutex<Body>,
}

static GRAPHS: Handles<Graph> = Handles::new();

/// An empty graph.
pub fn create() -> Answer<usize> {
    process::init()?;
    Ok(GRAPHS.insert(Graph::default()))
}

pub(super) fn create_captured() -> (usize, Arc<Graph>) {
    let graph = Arc::<Graph>::default();
    let handle = super::handles::fresh();
    GRAPHS.insert_as(handle, Arc::clone(&graph));
    (handle, graph)
}

pub fn destroy(graph: usize) -> Answer<()> {
    GRAPHS.remove(graph).map(drop)
}

pub fn node_count(graph: usize) -> Answer<usize> {
    Ok(lock(&GRAPHS.get(graph)?.body).nodes.len())
}

/// Ties references of a user object to the graph and to what is made from it.
pub fn retain_user_object(graph: usize, object: usize, count: u32, take_over: bool) -> Answer<()> {
    if count == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let graph = GRAPHS.get(graph)?;
    lock(&graph.body).held.push(Held::new(object, count, take_over)?);
    Ok(())
}

pub fn release_user_object(graph: usize, object: usize, count: u32) -> Answer<()> {
    let graph = GRAPHS.get(graph)?;
    let mut body = lock(&graph.body);
    let held = body.held.iter_mut().find(|held| held.is_of(object));
    let held = held.ok_or(CudaError::INVALID_VALUE)?;
    if !held.reduce(count) {
        return Err(CudaError::INVALID_VALUE);
    }
    body.held.retain(|held| held.count() > 0);
    Ok(())
}

/// A copy of what the graph holds now.
pub(super) fn body(graph: usize) -> Answer<Body> {
    let graph = GRAPHS.get(graph)?;
    Ok(lock(&graph.body).clone())
}

impl Graph {
    pub(super) fn add(&self, work: Work, after: Vec<usize>, lane: usize) -> usize {
        let mut body = lock(&self.body);
        body.nodes.push(Node { work, after, lane });
        body.nodes.len() - 1
    }

    pub(super) fn add_lane(&self, device: &'static Device) -> usize {
        let mut body = lock(&self.body);
        body.lanes.push(device);
        body.lanes.len() - 1
    }

    /// Whether every node without a successor is among `ends`: otherwise a stream
    /// that was forked off was not joined again.
    pub(super) fn all_lead_to(&self, ends: &[usize]) -> bool {
        let body = lock(&self.body);
        let leaves = body.leaves();
        leaves.iter().all(|leaf| ends.contains(leaf))
    }
}

impl Body {
    pub(super) fn leaves(&self) -> Vec<usize> {
        let mut is_leaf = vec![true; self.nodes.len()];
        for before in self.nodes.iter().flat_map(|node| &node.after) {
            is_leaf[*before] = false;
        }
        let found = is_leaf.iter().enumerate().filter(|(_, leaf)| **leaf);
        found.map(|(index, _)| index).collect()
    }
}
