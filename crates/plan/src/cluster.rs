//! A cluster and what a step sends over it: from the cluster file, and from a trace where it names one. Says which of the
//! file's numbers do not go together; the model asks it for the place of a message.

use std::collections::BTreeMap;
use std::path::Path;

use airamp_settings::Settings;
use airamp_telemetry::{Datatype, Kind};
use airamp_trace::{Call, read_file};

use crate::file::{Among, ClusterFile};
use crate::measured::element_bytes;
use crate::place::{GBPS, Place};

pub struct Cluster {
    pub file: ClusterFile,
    pub(crate) min_bytes: usize,
    pub min_speedup: f64,
    pub(crate) arena_bytes: usize,
    pub messages: Vec<Message>,
    /// What a trace has that is not in the prediction, or is there only roughly.
    pub left_out: Vec<String>,
}

/// Calls of a step that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub(crate) kind: Collective,
    pub datatype: String,
    pub(crate) element_bytes: usize,
    /// Of the whole tensor.
    pub bytes: usize,
    pub per_step: f64,
    pub among: Among,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Collective {
    AllReduce,
    /// AllGather, ReduceScatter, Broadcast, Reduce: one way round the ring.
    OneWay(&'static str),
}

impl Collective {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::OneWay(name) => name,
        }
    }

    /// An AllReduce goes round the ring twice.
    pub(crate) fn halves(self) -> u32 {
        if self == Self::AllReduce { 2 } else { 1 }
    }
}

impl Cluster {
    /// As a file describes it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let described = ClusterFile::read(path).and_then(Self::of);
        described.map_err(|why| format!("{}: {why}", path.display()))
    }

    pub fn of(file: ClusterFile) -> Result<Self, String> {
        check(&file)?;
        let usual = Settings::default();
        let (mut messages, mut left_out) = (Vec::new(), Vec::new());
        for entry in &file.messages {
            messages.push(Message {
                kind: Collective::AllReduce,
                datatype: entry.datatype.clone(),
                element_bytes: element_bytes(&entry.datatype).unwrap_or(1),
                bytes: entry.bytes,
                per_step: entry.per_step,
                among: entry.among,
            });
        }
        if let Some(path) = &file.trace {
            (messages, left_out) = of_trace(path, &file)?;
        }
        if file.is_rdma && file.step_us.is_none() {
            left_out.push("the latency of RDMA (step_us): steps cost what they cost over sockets".into());
        }
        Ok(Self {
            min_bytes: file.min_bytes.unwrap_or(usual.min_bytes as usize),
            min_speedup: file.min_speedup.unwrap_or(usual.min_speedup),
            arena_bytes: file.arena_bytes.unwrap_or(usual.arena_bytes as usize),
            messages,
            left_out,
            file,
        })
    }

    /// How many such a communicator has.
    pub fn ranks(&self, among: Among) -> usize {
        self.place(among, None).ranks()
    }

    /// Where the ranks of such a communicator stand. `gbps` replaces the speed that `axis` names.
    pub(crate) fn place(&self, among: Among, gbps: Option<f64>) -> Place {
        let file = &self.file;
        let (nodes, per_node, side_by_side) = match among {
            Among::All => (file.nodes, file.gpus_per_node, 1),
            Among::Nodes => (file.nodes, 1, file.gpus_per_node),
            Among::Node => (1, file.gpus_per_node, 1),
        };
        let inside = nodes == 1;
        let nic = gbps.filter(|_| !inside).or(file.nic_gbps);
        let gpu_link = gbps.filter(|_| inside).or(file.gpu_link_gbps);
        Place {
            nodes,
            per_node,
            side_by_side,
            nics: nic.map(|gbps| gbps * GBPS * file.nics_per_node as f64),
            gpu_link: gpu_link.map(|gbps| gbps * GBPS),
            one_wire: None,
            burst_us: 0.0,
            // What stays inside a node does not pass through the processors.
            ranks_per_host: if file.is_rdma || inside { 0 } else { file.gpus_per_node },
            ranks_per_device: 1,
        }
    }

    /// The link that a message's break-even is about, and its speed here.
    pub fn axis(&self, among: Among) -> (&'static str, f64) {
        let inside = self.place(among, None).nodes == 1;
        let (name, speed) =
            if inside { ("gpu_link", self.file.gpu_link_gbps) } else { ("nic", self.file.nic_gbps) };
        (name, speed.unwrap_or(0.0))
    }
}

fn check(file: &ClusterFile) -> Result<(), String> {
    if file.nodes * file.gpus_per_node < 2 {
        return Err("nodes, gpus_per_node: a single GPU has nobody to exchange with".into());
    }
    if file.nodes > 1 && file.nic_gbps.is_none() {
        return Err("nic_gbps is missing: several nodes are connected by NICs".into());
    }
    if file.gpus_per_node > 1 && file.gpu_link_gbps.is_none() {
        return Err("gpu_link_gbps is missing: several GPUs of a node are connected by links".into());
    }
    match (file.messages.is_empty(), &file.trace) {
        (true, None) => return Err("neither [[message]] nor trace: nothing is sent".into()),
        (false, Some(_)) => return Err("both [[message]] and trace: give one of them".into()),
        _ => {}
    }
    if file.trace_steps.is_some() && file.trace.is_none() {
        return Err("trace_steps: there is no trace".into());
    }
    for message in &file.messages {
        let ranks = match message.among {
            Among::All => file.nodes * file.gpus_per_node,
            Among::Nodes => file.nodes,
            Among::Node => file.gpus_per_node,
        };
        if ranks < 2 {
            return Err(format!("message: among = \"{}\" is a single GPU here", message.among.name()));
        }
    }
    Ok(())
}

/// The calls of a trace, those that are alike together.
#[derive(Default)]
struct Counted {
    known: BTreeMap<(Collective, u8, u64), u64>,
    /// By name, those that the model does not know.
    others: BTreeMap<&'static str, u64>,
    captured: u64,
}

impl Counted {
    fn take(&mut self, call: &Call, ranks: u64) {
        let kind = Kind::from_number(call.kind.into());
        // Of an AllGather and a ReduceScatter the call names one rank's part.
        let found = match kind {
            Some(Kind::AllReduce) => Some((Collective::AllReduce, 1)),
            Some(Kind::AllGather) => Some((Collective::OneWay("all_gather"), ranks)),
            Some(Kind::ReduceScatter) => Some((Collective::OneWay("reduce_scatter"), ranks)),
            Some(Kind::Broadcast) => Some((Collective::OneWay("broadcast"), 1)),
            Some(Kind::Reduce) => Some((Collective::OneWay("reduce"), 1)),
            _ => None,
        };
        match found {
            _ if call.captured => self.captured += 1,
            Some((kind, parts)) => {
                let bytes = call.bytes.saturating_mul(parts);
                *self.known.entry((kind, call.datatype, bytes)).or_default() += 1;
            }
            None => *self.others.entry(kind.map_or("unknown", Kind::name)).or_default() += 1,
        }
    }

    fn messages(&self, steps: f64) -> Vec<Message> {
        let message = |(&(kind, datatype, bytes), &calls): (&(Collective, u8, u64), &u64)| Message {
            kind,
            datatype: Datatype::of(datatype.into()).name().into(),
            element_bytes: airamp_trace::bytes_of(datatype, 1) as usize,
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            per_step: calls as f64 / steps,
            among: Among::All,
        };
        self.known.iter().map(message).collect()
    }
}

fn of_trace(path: &Path, file: &ClusterFile) -> Result<(Vec<Message>, Vec<String>), String> {
    let trace = read_file(path).map_err(|error| format!("trace: {}: {error}", path.display()))?;
    let mut counted = Counted::default();
    let ranks = (file.nodes * file.gpus_per_node) as u64;
    trace.calls.iter().filter(|call| call.bytes > 0).for_each(|call| counted.take(call, ranks));
    if counted.known.is_empty() {
        return Err(format!("trace: {}: no call that the model knows", path.display()));
    }
    let mut left_out: Vec<String> =
        counted.others.iter().map(|(name, calls)| format!("{calls} calls of {name} in the trace")).collect();
    if counted.captured > 0 {
        left_out.push(format!("{} calls that were captured in a graph, and its replays", counted.captured));
    }
    if trace.lost > 0 {
        left_out.push(format!("{} calls that the recording lost", trace.lost));
    }
    if file.trace_steps.is_none() {
        left_out.push("how many steps the trace holds (trace_steps): all of it counts as one".into());
    }
    Ok((counted.messages(file.trace_steps.unwrap_or(1) as f64), left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(text: &str) -> Result<Cluster, String> {
        Cluster::of(ClusterFile::parse(text).expect("well-formed"))
    }

    const MESSAGE: &str = "\n[[message]]\ndatatype = \"float32\"\nsize = \"4MiB\"\n";

    #[test]
    fn what_does_not_go_together_is_refused() {
        let refused = |text: &str| cluster(&format!("{text}{MESSAGE}")).err().expect(text);
        assert!(refused("nodes = 1").contains("single GPU"));
        assert!(refused("nodes = 2").contains("nic_gbps is missing"));
        assert!(refused("nodes = 1\ngpus_per_node = 8").contains("gpu_link_gbps is missing"));
        assert!(refused("nodes = 2\nnic_gbps = 1\ntrace = \"x\"").contains("both [[message]] and trace"));
        assert!(refused("nodes = 2\nnic_gbps = 1\ntrace_steps = 3").contains("there is no trace"));
        assert!(cluster("nodes = 2\nnic_gbps = 1").is_err_and(|error| error.contains("nothing is sent")));
        let among = format!("nodes = 2\nnic_gbps = 1{MESSAGE}among = \"node\"\n");
        assert!(cluster(&among).is_err_and(|error| error.contains("a single GPU here")));
    }

    #[test]
    fn groups_of_one_gpu_per_node_share_the_nics_of_their_nodes() {
        let text = format!("nodes = 4\ngpus_per_node = 8\nnic_gbps = 10\ngpu_link_gbps = 100{MESSAGE}");
        let cluster = cluster(&text).unwrap();
        let place = cluster.place(Among::Nodes, None);
        assert_eq!((place.ranks(), place.per_node, place.side_by_side), (4, 1, 8));
        let place = cluster.place(Among::Node, Some(200.0));
        assert_eq!((place.ranks(), place.gpu_link, place.ranks_per_host), (8, Some(200.0 * GBPS), 0));
        assert_eq!(
            (cluster.axis(Among::All), cluster.axis(Among::Node)),
            (("nic", 10.0), ("gpu_link", 100.0))
        );
    }
}
