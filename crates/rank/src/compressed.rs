//! `airamp-rank compressed`: the compressed AllReduce beside the vendor's own, called directly and
//! not through the interposer: times of both, the error against the exact sum, and the digest by
//! which runs and ranks are compared. Prints one JSON line per measurement.

use airamp_codec::{Element, Format, packet_bytes};
use airamp_fast_path::all_reduce::{self, Call};
use airamp_fast_path::arena::StreamArena;
use airamp_fast_path::plan::Plan;
use airamp_fast_path::wire::Wire;
use airamp_kernels::Loader;
use airamp_vendor::gpu::Kind;
use airamp_vendor_abi::nccl::{DataType, RedOp};
use serde::Serialize;

use crate::collective::{self, Collective, Form};
use crate::digest::Digest;
use crate::error::RankError;
use crate::numbers::{decode, encode};
use crate::session::Session;
use crate::watchdog::Watchdog;

const LIMIT: std::time::Duration = std::time::Duration::from_secs(300);
/// Inputs repeat after this many elements, a prime, so that blocks do not.
const PERIOD: usize = 262_147;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Bytes of the tensor.
    #[arg(long, value_delimiter = ',', default_value = "4194304")]
    sizes: Vec<usize>,
    #[arg(long, value_delimiter = ',', default_value = "float16,bfloat16,float32")]
    datatypes: Vec<String>,
    /// e4m3, e5m2, int8 or auto.
    #[arg(long, value_delimiter = ',', default_value = "auto")]
    formats: Vec<String>,
    #[arg(long, default_value_t = 5)]
    iterations: usize,
    /// Device memory for scratch.
    #[arg(long, default_value_t = 16 << 20)]
    arena_bytes: usize,
    #[arg(long)]
    average: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    rank: usize,
    ranks: usize,
    datatype: &'a str,
    format: &'a str,
    bytes: usize,
    steps: usize,
    vendor_us: f64,
    compressed_us: f64,
    wire_bytes_per_element: f64,
    vnmse: f64,
    digest: String,
    /// Device memory that the arena and the first compressed call took.
    added_bytes: usize,
}

pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    let watchdog = Watchdog::start(LIMIT);
    let largest = arguments.sizes.iter().copied().max().unwrap_or(0);
    let session = Session::start(kind, largest + 64)?;
    let kernels =
        Loader::new(None).load(&session.gpu).map_err(|error| RankError::Arguments(error.to_string()))?;
    let mut bench = Bench { session, kernels, arena: None, added: 0, arguments };
    for datatype in &arguments.datatypes {
        for format in &arguments.formats {
            for bytes in &arguments.sizes {
                watchdog.enter(datatype);
                let line = bench.measure(datatype, format, *bytes)?;
                println!("{}", serde_json::to_string(&line).unwrap_or_default());
            }
        }
    }
    Ok(true)
}

struct Bench<'a> {
    session: Session,
    kernels: airamp_kernels::KernelSet,
    arena: Option<StreamArena>,
    added: usize,
    arguments: &'a Arguments,
}

impl Bench<'_> {
    fn measure<'n>(
        &mut self,
        datatype: &'n str,
        format: &'n str,
        bytes: usize,
    ) -> Result<Line<'n>, RankError> {
        let (nccl_type, element) = element_named(datatype)?;
        let wire_format = format_named(format)?;
        let count = bytes / nccl_type.size().unwrap_or(1);
        let (rank, ranks) = (self.session.comm.rank, self.session.comm.size);
        let plan = Plan::new(count, ranks, self.arguments.arena_bytes)
            .map_err(|error| RankError::Arguments(error.to_string()))?;
        self.session.send.write(0, &tensor(nccl_type, rank, count))?;
        self.session.gpu.synchronize()?;
        let vendor_call = self.vendor_call(nccl_type, count);
        let vendor = |bench: &Self| {
            vendor_call.enqueue(&bench.session.nccl, bench.session.comm.raw(), bench.session.stream.raw())
        };
        vendor(self)?;
        self.session.stream.synchronize()?;
        self.acquire()?;
        let call = Call {
            input: self.session.send.at(0) as u64,
            output: self.session.recv.at(0) as u64,
            element,
            format: wire_format,
            average: self.arguments.average,
            stats: 0,
        };
        let (mut vendor_us, mut compressed_us) = (Vec::new(), Vec::new());
        for _ in 0..self.arguments.iterations.max(1) {
            vendor_us.push(self.timed(&vendor)?);
            compressed_us.push(self.timed(&|bench| bench.compressed(&plan, &call))?);
        }
        let mut output = vec![0; bytes / nccl_type.size().unwrap_or(1) * nccl_type.size().unwrap_or(1)];
        self.session.recv.read(0, &mut output)?;
        let mut digest = Digest::new();
        digest.add(&output);
        let shard = plan.packet_elements;
        Ok(Line {
            rank,
            ranks,
            datatype,
            format,
            bytes,
            steps: plan.steps,
            vendor_us: median(vendor_us),
            compressed_us: median(compressed_us),
            wire_bytes_per_element: packet_bytes(shard) as f64 / shard as f64,
            vnmse: vnmse(nccl_type, ranks, self.arguments.average, &output),
            digest: digest.hex(),
            added_bytes: self.added,
        })
    }

    /// Takes the arena once and notes what it and a first, tiny call cost in device memory.
    fn acquire(&mut self) -> Result<(), RankError> {
        if self.arena.is_some() {
            return Ok(());
        }
        let before = self.session.gpu.memory_info()?.free;
        self.arena = Some(StreamArena::acquire(&self.session.gpu, self.arguments.arena_bytes)?);
        let plan = Plan::new(1024, self.session.comm.size, self.arguments.arena_bytes)
            .map_err(|error| RankError::Arguments(error.to_string()))?;
        let call = Call {
            input: self.session.send.at(0) as u64,
            output: self.session.recv.at(0) as u64,
            element: Element::F16,
            format: Format::Auto,
            average: false,
            stats: 0,
        };
        self.compressed(&plan, &call)?;
        self.session.stream.synchronize()?;
        self.added = before.saturating_sub(self.session.gpu.memory_info()?.free);
        Ok(())
    }

    fn compressed(&self, plan: &Plan, call: &Call) -> Result<(), RankError> {
        let Session { comm, nccl, stream, .. } = &self.session;
        let Some(arena) = &self.arena else {
            return Err(RankError::Arguments("the arena was not acquired".into()));
        };
        // SAFETY: the session keeps communicator and stream until everything has run.
        let wire = unsafe { Wire::new(&nccl.functions, comm.raw(), comm.rank, comm.size, stream.raw()) };
        // SAFETY: the session's buffers hold at least the plan's elements.
        unsafe { all_reduce::enqueue(arena, &self.kernels, &wire, stream, plan, call) }
            .map_err(|error| RankError::Arguments(error.to_string()))
    }

    fn vendor_call(&self, datatype: DataType, count: usize) -> collective::Call {
        collective::Call {
            form: Form::Plain,
            collective: Collective::AllReduce,
            send: self.session.send.at(0),
            recv: self.session.recv.at(0),
            count,
            datatype,
            op: if self.arguments.average { RedOp::AVG } else { RedOp::SUM },
            root: 0,
        }
    }

    fn timed(&self, enqueue: &dyn Fn(&Self) -> Result<(), RankError>) -> Result<f64, RankError> {
        let (before, after) = (self.session.gpu.event()?, self.session.gpu.event()?);
        before.record(&self.session.stream)?;
        enqueue(self)?;
        after.record(&self.session.stream)?;
        self.session.stream.synchronize()?;
        Ok(f64::from(after.elapsed_ms(&before)?) * 1e3)
    }
}

fn element_named(name: &str) -> Result<(DataType, Element), RankError> {
    match name {
        "float16" => Ok((DataType::FLOAT16, Element::F16)),
        "bfloat16" => Ok((DataType::BFLOAT16, Element::Bf16)),
        "float32" => Ok((DataType::FLOAT32, Element::F32)),
        _ => Err(RankError::Arguments(format!("{name} cannot be compressed"))),
    }
}

fn format_named(name: &str) -> Result<Format, RankError> {
    match name {
        "e4m3" => Ok(Format::E4M3),
        "e5m2" => Ok(Format::E5M2),
        "int8" => Ok(Format::Int8),
        "auto" => Ok(Format::Auto),
        _ => Err(RankError::Arguments(format!("{name} is no wire format"))),
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Normal numbers, the same in every run: element `index` of that rank.
fn normal(rank: usize, index: usize) -> f64 {
    let uniform = |salt: u64| {
        let mut word = (rank as u64) << 40 ^ (index as u64) << 1 ^ salt;
        for multiplier in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            word = (word ^ (word >> 30)).wrapping_mul(multiplier);
        }
        ((word ^ (word >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    (-2.0 * uniform(0).max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * uniform(1)).cos()
}

fn tensor(datatype: DataType, rank: usize, count: usize) -> Vec<u8> {
    let mut period = Vec::new();
    (0..PERIOD.min(count)).for_each(|index| encode(datatype, normal(rank, index), &mut period));
    let size = datatype.size().unwrap_or(1);
    period.iter().copied().cycle().take(count * size).collect()
}

/// Squared error over squared signal, against the exact sum of what the ranks put in.
fn vnmse(datatype: DataType, ranks: usize, average: bool, output: &[u8]) -> f64 {
    let size = datatype.size().unwrap_or(1);
    let inputs: Vec<Vec<u8>> = (0..ranks).map(|rank| tensor(datatype, rank, PERIOD)).collect();
    let scale = if average { 1.0 / ranks as f64 } else { 1.0 };
    let (mut error, mut signal) = (0.0, 0.0);
    for (index, bytes) in output.chunks_exact(size).enumerate().take(4 * PERIOD) {
        let at = index % PERIOD * size;
        let exact: f64 = inputs.iter().map(|input| decode(datatype, &input[at..at + size]) * scale).sum();
        let got = decode(datatype, bytes);
        error += (got - exact) * (got - exact);
        signal += exact * exact;
    }
    error / signal
}
