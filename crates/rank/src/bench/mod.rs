//! `airamp-rank bench`: times the vendor's AllReduce and ours on the same tensors with device
//! events, in turns, and compares every result with the exact one. Prints JSON lines: a `plan`,
//! then per tensor a `progress` and per contender a `result` or `not_offered`, and `done`.
//! `airamp bench` reads them and does all arithmetic over ranks.

mod accuracy;
pub(crate) mod collectives;
mod contender;
pub(crate) mod data;
mod tensors;

use airamp_codec::Format;
use airamp_vendor::gpu::Kind;
use serde::Serialize;

use self::accuracy::{Accuracy, accuracy};
use self::contender::{Contender, Entry, Tensor, line_up};
use self::data::{Distribution, Samples};
use self::tensors::{Named, tensors};
use crate::digest::Digest;
use crate::error::RankError;
use crate::lane::{self, Lane};
use crate::session::Session;
use crate::watchdog::Watchdog;

/// Longer than any measurement of one tensor that is still of use.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(600);
/// Not a number in any of the types, so that an element that is not written shows.
const UNWRITTEN: u8 = 0xff;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Bytes of the tensors.
    #[arg(long, value_delimiter = ',', default_value = "1048576")]
    sizes: Vec<usize>,
    /// float16, bfloat16 or float32.
    #[arg(long, value_delimiter = ',', default_value = "float32")]
    datatypes: Vec<String>,
    /// e4m3, e5m2, int8 or auto.
    #[arg(long, value_delimiter = ',', default_value = "auto")]
    formats: Vec<String>,
    /// Timed calls of each contender and tensor.
    #[arg(long, default_value_t = 5)]
    iterations: usize,
    /// Calls before the timed ones.
    #[arg(long, default_value_t = 2)]
    warmup: usize,
    /// What the tensors hold.
    #[arg(long, value_enum, default_value = "normal")]
    data: Distribution,
    /// The average instead of the sum.
    #[arg(long)]
    average: bool,
    /// Every way of cutting a call, and not the usual one alone.
    #[arg(long)]
    all_shapes: bool,
    /// Device memory for the scratch of one format.
    #[arg(long, default_value_t = 16 << 20)]
    arena_bytes: usize,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Plan(Plan<'a>),
    Progress { rank: usize, done: usize, tensors: usize, datatype: &'a str, bytes: usize },
    Result(Measurement<'a>),
    NotOffered { rank: usize, datatype: &'a str, bytes: usize, contender: &'a str, reason: &'a str },
    Done { rank: usize },
}

#[derive(Serialize)]
struct Plan<'a> {
    rank: usize,
    ranks: usize,
    vendor: &'a str,
    library: &'a str,
    version: i32,
    device: String,
    architecture: String,
    driver_version: Option<i32>,
    /// The code object that ours runs.
    kernels: &'a str,
    tensors: usize,
}

#[derive(Serialize)]
struct Measurement<'a> {
    rank: usize,
    datatype: &'a str,
    bytes: usize,
    contender: &'a str,
    wire_bytes_per_element: f64,
    /// Null for the vendor's.
    steps: Option<usize>,
    added_bytes: Option<usize>,
    /// One for each iteration.
    times_us: Vec<f64>,
    /// Null where the result holds something that is not finite.
    vnmse: f64,
    worst: f64,
    digest: String,
}

pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    let tensors = tensors(&arguments.sizes, &arguments.datatypes, arguments.average)?;
    let formats = arguments.formats.iter().map(|name| format_named(name)).collect::<Result<Vec<_>, _>>()?;
    let watchdog = Watchdog::start(LIMIT);
    let largest = arguments.sizes.iter().copied().max().unwrap_or(0);
    let session = Session::start(kind, largest)?;
    let rank = session.comm.rank;
    let kernels = lane::kernels(&session.gpu)?;
    print(&Line::Plan(plan(&session, kind, kernels.source(), tensors.len())));
    let lanes = Lane::open(&session, &kernels, &formats, arguments.arena_bytes)?;
    let samples = Samples::draw(arguments.data, session.comm.size);
    for (done, tensor) in tensors.iter().enumerate() {
        let (datatype, bytes) = (tensor.datatype, tensor.bytes);
        watchdog.enter(datatype);
        print(&Line::Progress { rank, done, tensors: tensors.len(), datatype, bytes });
        measure(&session, &lanes, &samples, arguments, tensor)?;
    }
    print(&Line::Done { rank });
    Ok(true)
}

pub(crate) fn print(line: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(line) {
        println!("{text}");
    }
}

fn format_named(name: &str) -> Result<Format, RankError> {
    Format::from_name(name).ok_or_else(|| RankError::Arguments(format!("{name} is no wire format")))
}

fn plan<'a>(session: &'a Session, kind: Kind, kernels: &'a str, tensors: usize) -> Plan<'a> {
    let ordinal = session.gpu.current_device().unwrap_or(0);
    Plan {
        rank: session.comm.rank,
        ranks: session.comm.size,
        vendor: match kind {
            Kind::Cuda => "NCCL",
            Kind::Hip => "RCCL",
        },
        library: &session.nccl.path,
        version: session.version,
        device: session.gpu.device_name(ordinal).unwrap_or_default(),
        architecture: session.gpu.architecture(ordinal).unwrap_or_default(),
        driver_version: session.gpu.driver_version().ok(),
        kernels,
        tensors,
    }
}

fn measure(
    session: &Session,
    lanes: &[Lane],
    samples: &Samples,
    arguments: &Arguments,
    of: &Named<'_>,
) -> Result<(), RankError> {
    let inputs = samples.rounded(of.tensor.datatype);
    let exact = inputs.reduced(of.tensor.average);
    let entries = line_up(session, lanes, arguments.all_shapes, &inputs, of.tensor)?;
    let (rank, datatype, bytes) = (session.comm.rank, of.datatype, of.bytes);
    for entry in &entries {
        if let Err(reason) = &entry.contender {
            print(&Line::NotOffered { rank, datatype, bytes, contender: &entry.name, reason });
        }
    }
    let mut field: Vec<Measured<'_, '_>> = entries.iter().filter_map(Measured::new).collect();
    for measured in &field {
        (0..arguments.warmup).try_for_each(|_| measured.contender.enqueue(session))?;
        session.stream.synchronize()?;
    }
    for iteration in 0..arguments.iterations.max(1) {
        // Whoever comes first moves on by one, so that nobody always follows the same one.
        let first = iteration % field.len();
        let (late, early) = field.split_at_mut(first);
        for measured in early.iter_mut().chain(late) {
            measured.time(session)?;
        }
    }
    for Measured { name, contender, times_us } in field {
        let (found, digest) = check(session, contender, &exact)?;
        print(&Line::Result(Measurement {
            rank,
            datatype,
            bytes,
            contender: name,
            wire_bytes_per_element: contender.wire_bytes_per_element,
            steps: contender.steps,
            added_bytes: contender.added_bytes,
            times_us,
            vnmse: found.vnmse,
            worst: found.worst,
            digest: digest.hex(),
        }));
    }
    Ok(())
}

/// One more call, whose result is compared with the exact one. Apart from the timed ones, because
/// the comparison keeps a processor busy that other ranks may share.
fn check(
    session: &Session,
    contender: &Contender<'_>,
    exact: &[f64],
) -> Result<(Accuracy, Digest), RankError> {
    let mut output = vec![0; contender.output_bytes()];
    session.recv.fill(0, output.len(), UNWRITTEN)?;
    session.gpu.synchronize()?;
    contender.enqueue(session)?;
    session.stream.synchronize()?;
    session.recv.read(0, &mut output)?;
    let mut digest = Digest::new();
    digest.add(&output);
    Ok((accuracy(contender.datatype, &output, exact, contender.scale), digest))
}

/// A contender and its times.
struct Measured<'e, 'l> {
    name: &'e str,
    contender: &'e Contender<'l>,
    times_us: Vec<f64>,
}

impl<'e, 'l> Measured<'e, 'l> {
    fn new(entry: &'e Entry<'l>) -> Option<Self> {
        let contender = entry.contender.as_ref().ok()?;
        Some(Self { name: &entry.name, contender, times_us: Vec::new() })
    }

    fn time(&mut self, session: &Session) -> Result<(), RankError> {
        let (before, after) = (session.gpu.event()?, session.gpu.event()?);
        before.record(&session.stream)?;
        self.contender.enqueue(session)?;
        after.record(&session.stream)?;
        session.stream.synchronize()?;
        self.times_us.push(f64::from(after.elapsed_ms(&before)?) * 1e3);
        Ok(())
    }
}
