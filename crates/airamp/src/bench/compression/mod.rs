//! The compressed AllReduce beside the vendor's own and beside plain casts: one job for each number
//! of ranks and each link, all ways in turns inside it.

mod clock;
mod gathered;
mod lines;
mod report;
mod table;

use std::cell::RefCell;
use std::fs;
use std::rc::Rc;

use self::gathered::Gathered;
use self::lines::Line;
use self::report::{Report, Settings};
use super::cluster::Cluster;
use super::link::Link;
use super::progress::Progress;
use super::size::shown;
use super::{Args, FAILED, chart};
use crate::cli::CommandError;
use crate::launch;
use crate::streams;

pub(super) fn execute(args: &Args, cluster: &Cluster) -> Result<u8, CommandError> {
    let jobs: Vec<(Link, u32)> = args
        .links()
        .into_iter()
        .flat_map(|link| args.ranks.iter().map(move |ranks| (link, *ranks)))
        .collect();
    let progress = Progress::start(jobs.len());
    let mut failure = FAILED;
    let mut report = Report::new(Settings::of(args), cluster.is_emulated());
    for (job, (link, ranks)) in jobs.into_iter().enumerate() {
        let name = format!("{ranks} ranks, {link}");
        progress.enter(job, name.clone());
        let _shaped = cluster.prepare(link)?;
        let gathered = Rc::new(RefCell::new(Gathered::new(ranks as usize)));
        let code = cluster.run(ranks, link, words(args), None, reader(name.clone(), &gathered, &progress))?;
        report.take(&gathered.borrow(), link);
        if code != 0 || !gathered.borrow().is_complete() {
            report.complete = false;
            failure = launch::failure(code);
            progress.finish();
            let hint = if cluster.is_emulated() {
                ""
            } else {
                "; `airamp doctor` says whether there are GPUs and an NCCL, and with NCCL_DEBUG=WARN NCCL tells what it misses"
            };
            streams::complain(&format!(
                "airamp bench: {name}: ended with exit code {code} before it was complete{hint}"
            ));
            break;
        }
    }
    progress.finish();
    show(args, &report)?;
    Ok(if report.complete && report.all_identical() { 0 } else { failure })
}

fn words(args: &Args) -> Vec<String> {
    let mut words = vec![
        "bench".to_owned(),
        format!("--formats={}", args.formats.join(",")),
        format!("--data={}", args.data),
        format!("--arena-bytes={}", args.arena_bytes),
    ];
    words.extend(args.average.then(|| "--average".to_owned()));
    words.extend(args.all_shapes.then(|| "--all-shapes".to_owned()));
    words.extend(args.rank_arguments());
    words
}

fn reader(
    job: String,
    gathered: &Rc<RefCell<Gathered>>,
    progress: &Progress,
) -> impl FnMut(u32, &str) + 'static {
    let (gathered, progress) = (gathered.clone(), progress.clone());
    move |rank, text| match serde_json::from_str(text) {
        Ok(Line::Progress { done, tensors, datatype, bytes }) if rank == 0 => {
            progress.at(done, tensors);
            progress.now(format!("{job}: {datatype} {}", shown(bytes)));
        }
        Ok(line) => gathered.borrow_mut().take(line),
        Err(_) => progress.line(&format!("[{rank}] {text}")),
    }
}

fn show(args: &Args, report: &Report) -> Result<(), CommandError> {
    if let Some(place) = &args.chart {
        let text = chart::document(&report.chart(), place);
        fs::write(place, text).map_err(|error| {
            std::io::Error::new(error.kind(), format!("--chart: {}: {error}", place.display()))
        })?;
    }
    let text = match args.json {
        true => format!("{}\n", report.json()),
        false if report.results.is_empty() => return Ok(()),
        false => table::table(report),
    };
    Ok(streams::print(&text)?)
}
