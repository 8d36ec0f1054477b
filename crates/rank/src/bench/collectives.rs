//! `airamp-rank collectives`: times collectives with device events and checks their results.
//! Prints JSON lines: one `plan`, then per measurement a `progress` and a `result`.

use airamp_vendor::gpu::{Event, Kind};
use airamp_vendor_abi::nccl::{DataType, RedOp};
use serde::Serialize;

use super::print;
use crate::collective::{Call, Collective, Form};
use crate::digest::Digest;
use crate::error::RankError;
use crate::pattern::{Reduction, agrees, input};
use crate::session::Session;
use crate::watchdog::Watchdog;

/// Longer than any measurement that is still of use.
const MEASUREMENT_LIMIT: std::time::Duration = std::time::Duration::from_secs(300);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Collectives by name, as all_reduce.
    #[arg(long, value_delimiter = ',', default_value = "all_reduce")]
    collectives: Vec<String>,
    /// Bytes of a rank's larger buffer.
    #[arg(long, value_delimiter = ',', default_value = "1048576")]
    sizes: Vec<usize>,
    #[arg(long, value_delimiter = ',', default_value = "float32")]
    datatypes: Vec<String>,
    /// Timed calls per measurement; the median counts.
    #[arg(long, default_value_t = 5)]
    iterations: usize,
    /// Calls before the timed ones.
    #[arg(long, default_value_t = 2)]
    warmup: usize,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Plan { rank: usize, ranks: usize, nccl: &'a str, version: i32, measurements: usize },
    Progress { rank: usize, done: usize, measurements: usize },
    Result(Measurement<'a>),
}

#[derive(Serialize)]
struct Measurement<'a> {
    rank: usize,
    collective: &'a str,
    datatype: &'a str,
    bytes: usize,
    median_us: f64,
    algorithm_gbs: f64,
    bus_gbs: f64,
    digest: String,
    correct: bool,
}

struct Job<'a> {
    collective: (Collective, &'a str),
    datatype: (DataType, &'a str),
    count: usize,
}

pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    let largest = arguments.sizes.iter().copied().max().unwrap_or(0);
    let watchdog = Watchdog::start(MEASUREMENT_LIMIT);
    let session = Session::start(kind, largest + 64)?;
    let jobs = jobs(arguments, session.comm.size)?;
    let (rank, ranks, measurements) = (session.comm.rank, session.comm.size, jobs.len());
    print(&Line::Plan { rank, ranks, nccl: &session.nccl.path, version: session.version, measurements });
    let mut correct = true;
    for (done, job) in jobs.iter().enumerate() {
        watchdog.enter(job.collective.1);
        print(&Line::Progress { rank, done, measurements });
        let measurement = measure(&session, job, arguments)?;
        correct &= measurement.correct;
        print(&Line::Result(measurement));
    }
    Ok(correct)
}

fn jobs(arguments: &Arguments, ranks: usize) -> Result<Vec<Job<'_>>, RankError> {
    let mut jobs = Vec::new();
    for name in &arguments.collectives {
        // `ncclBcast` is Broadcast under an older name.
        let collective = Collective::named(name)
            .filter(|collective| *collective != Collective::Bcast)
            .ok_or_else(|| RankError::Arguments(format!("{name} is not a collective")))?;
        for type_name in &arguments.datatypes {
            let datatype = DataType::ALL.iter().find(|(_, known)| known == type_name);
            let (datatype, _) =
                datatype.ok_or_else(|| RankError::Arguments(format!("{type_name} is not a datatype")))?;
            for bytes in arguments.sizes.iter().copied() {
                let elements = bytes / datatype.size().unwrap_or(1);
                let (input, output) = collective.elements(1, ranks);
                let count = elements / input.max(output);
                if count == 0 {
                    return Err(RankError::Arguments(format!(
                        "{bytes} bytes hold no {type_name} for each of {ranks} ranks in {name}"
                    )));
                }
                let (collective, datatype) = ((collective, name.as_str()), (*datatype, type_name.as_str()));
                jobs.push(Job { collective, datatype, count });
            }
        }
    }
    Ok(jobs)
}

fn measure<'a>(
    session: &Session,
    job: &Job<'a>,
    arguments: &Arguments,
) -> Result<Measurement<'a>, RankError> {
    let (datatype, ranks) = (job.datatype.0, session.comm.size);
    let (input_elements, output_elements) = job.collective.0.elements(job.count, ranks);
    let own = input(datatype, Reduction::Sum, ranks, session.comm.rank, 0, input_elements);
    session.send.write(0, &own)?;
    session.gpu.synchronize()?;
    let median_us = timed(session, &call(session, job), arguments)?;
    let size = datatype.size().unwrap_or(1);
    let mut output = vec![0; output_elements * size];
    session.recv.read(0, &mut output)?;
    let mut digest = Digest::new();
    digest.add(&output);
    let bytes = input_elements.max(output_elements) * size;
    let algorithm_gbs = bytes as f64 / median_us / 1e3;
    Ok(Measurement {
        rank: session.comm.rank,
        collective: job.collective.1,
        datatype: job.datatype.1,
        bytes,
        median_us,
        algorithm_gbs,
        bus_gbs: algorithm_gbs * bus_factor(job.collective.0, ranks),
        digest: digest.hex(),
        correct: is_correct(session, job, &output),
    })
}

fn call(session: &Session, job: &Job<'_>) -> Call {
    Call {
        form: Form::Plain,
        collective: job.collective.0,
        send: session.send.at(0),
        recv: session.recv.at(0),
        count: job.count,
        datatype: job.datatype.0,
        op: RedOp::SUM,
        root: 0,
    }
}

fn timed(session: &Session, call: &Call, arguments: &Arguments) -> Result<f64, RankError> {
    let enqueue = || call.enqueue(&session.nccl, session.comm.raw(), session.stream.raw());
    (0..arguments.warmup).try_for_each(|_| enqueue())?;
    session.stream.synchronize()?;
    let events: Vec<Event> =
        (0..=arguments.iterations.max(1)).map(|_| session.gpu.event()).collect::<Result<_, _>>()?;
    events[0].record(&session.stream)?;
    for event in &events[1..] {
        enqueue()?;
        event.record(&session.stream)?;
    }
    session.stream.synchronize()?;
    let pairs = events.windows(2);
    let mut times = pairs.map(|pair| pair[1].elapsed_ms(&pair[0])).collect::<Result<Vec<f32>, _>>()?;
    times.sort_by(f32::total_cmp);
    Ok(f64::from(times[times.len() / 2]) * 1e3)
}

fn is_correct(session: &Session, job: &Job<'_>, output: &[u8]) -> bool {
    let place = (session.comm.size, session.comm.rank, 0);
    let (datatype, _) = job.datatype;
    match job.collective.0.expected(datatype, Reduction::Sum, place, job.count) {
        Some(expected) => agrees(datatype, Reduction::Sum, session.comm.size, output, &expected),
        None => true,
    }
}

/// What the algorithm's bandwidth is multiplied by to give the bandwidth of a link.
fn bus_factor(collective: Collective, ranks: usize) -> f64 {
    let ranks = ranks as f64;
    match collective {
        Collective::AllReduce => 2.0 * (ranks - 1.0) / ranks,
        Collective::Reduce | Collective::Broadcast | Collective::Bcast => 1.0,
        _ => (ranks - 1.0) / ranks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(collective: &str, bytes: usize) -> Result<Vec<usize>, RankError> {
        let arguments = Arguments {
            collectives: vec![collective.into()],
            sizes: vec![bytes],
            datatypes: vec!["float64".into()],
            iterations: 1,
            warmup: 0,
        };
        jobs(&arguments, 3).map(|jobs| jobs.iter().map(|job| job.count).collect())
    }

    #[test]
    fn a_size_that_leaves_a_rank_nothing_is_refused() {
        assert!(matches!(counts("all_gather", 23), Err(RankError::Arguments(_))));
        assert_eq!(counts("all_gather", 24).ok(), Some(vec![1]));
        assert_eq!(counts("all_reduce", 9).ok(), Some(vec![1]));
    }
}
