//! Compression is offered to a communicator inside its creation, before the application has it: what
//! it can fail on is acquired, the ranks agree, the peers are connected, and the ranks agree again.
//! Whatever goes wrong up to there leaves the communicator to the vendor, on every rank.

use super::test_plan::{Ballot, Verdict, Vote};
use super::{Active, kernels, retired, switch_on};
use crate::clique::Clique;
use crate::communicators::{Known, Pin};
use crate::startup::State;
use crate::thread::Thread;
use crate::{errno, log, startup, vendors};
use airamp_codec::Format;
use airamp_fast_path::{Lane, LaneParts};
use airamp_policy::Rules;
use airamp_settings::{Settings, WireFormat};
use airamp_vendor::gpu::{Context, Gpu, GpuError};
use airamp_vendor_abi::nccl::Comm;
use std::path::Path;
use std::time::{Duration, Instant};

/// A communicator that has just been made.
#[derive(Clone, Copy)]
pub(crate) struct Fresh {
    pub(crate) known: Known,
    pub(crate) comm: Comm,
}

/// One rank on its way to compression.
struct Candidate {
    fresh: Fresh,
    ballot: Ballot,
    /// What would be used, or why there is nothing.
    lane: Result<Lane, String>,
}

pub(crate) fn offer(thread: &Thread, fresh: &[Fresh]) {
    let state = startup::ensure();
    let Some(folder) = state.test_plan.as_deref().filter(|folder| folder.is_dir()) else {
        return;
    };
    if std::env::var_os("NCCL_COMM_ID").is_some() {
        // All communicators have the same id then, and cannot be told apart.
        log::warn(format_args!("compression off: NCCL_COMM_ID is set"));
        return;
    }
    let _errno = errno::keep();
    retired::sweep();
    let deadline = Instant::now() + Duration::from_millis(state.settings.consensus_timeout_ms);
    let mut candidates: Vec<Candidate> =
        fresh.iter().filter_map(|it| candidate(thread, folder, state, *it)).collect();
    // Ranks of one communicator in this thread go on together; everybody takes communicators in
    // the same order.
    candidates.sort_by_key(|it| it.fresh.known.entry.clique());
    while let Some(first) = candidates.first() {
        let clique = first.fresh.known.entry.clique();
        let others = candidates.iter().take_while(|it| it.fresh.known.entry.clique() == clique).count();
        let clique: Vec<Candidate> = candidates.drain(..others).collect();
        settle(thread, &state.settings, clique, deadline);
    }
}

/// Acquires what one rank needs and votes. `None`: compression is out of the question here, on every rank.
fn candidate(thread: &Thread, folder: &Path, state: &State, fresh: Fresh) -> Option<Candidate> {
    let (entry, settings) = (fresh.known.entry, &state.settings);
    let (rank, ranks) = (usize::try_from(entry.rank()).ok()?, usize::try_from(entry.nranks()).ok()?);
    if ranks < 2 || entry.clique() == Clique::UNKNOWN {
        return None;
    }
    let ballot = Ballot::new(folder, entry.clique(), rank, ranks);
    let lane = match state.rejected {
        Some(setting) => Err(format!("{setting} has no value that it can have")),
        None if !entry.is_blocking() => Err("the communicator is not blocking".into()),
        None => acquire(thread, settings, fresh, rank, ranks),
    };
    if let Err(reason) = &lane {
        log::warn(format_args!("communicator {:p}: this rank cannot compress: {reason}", fresh.comm));
    }
    let vote = match &lane {
        Ok(lane) => Vote::Yes(terms(settings, lane)),
        Err(reason) => Vote::No(reason.clone()),
    };
    ballot.cast("prepared", &vote);
    Some(Candidate { fresh, ballot, lane })
}

/// What must be equal on all ranks.
fn terms(settings: &Settings, lane: &Lane) -> String {
    let Settings { wire_format, min_bytes, arena_bytes, .. } = settings;
    let captures = lane.can_capture();
    let version = env!("CARGO_PKG_VERSION");
    format!("{version} {wire_format:?} min_bytes {min_bytes} arena_bytes {arena_bytes} captures {captures}")
}

fn settle(thread: &Thread, settings: &Settings, clique: Vec<Candidate>, deadline: Instant) {
    let prepared: Vec<_> = clique
        .into_iter()
        .filter_map(|candidate| {
            let verdict = candidate.ballot.verdict("prepared", deadline);
            agreed(candidate.fresh, &verdict).then_some(())?;
            Some((candidate.fresh, candidate.ballot, candidate.lane.ok()?))
        })
        .collect();
    if prepared.is_empty() {
        return;
    }
    let patience = Instant::now() + Duration::from_millis(settings.doubt_ms);
    let connected = connect(thread, &prepared, patience);
    let vote = connected.map_or_else(Vote::No, |()| Vote::Yes("connected".into()));
    prepared.iter().for_each(|(_, ballot, _)| ballot.cast("connected", &vote));
    for (fresh, ballot, lane) in prepared {
        let active = Box::new(active(settings, fresh, lane));
        match ballot.verdict("connected", patience) {
            Verdict::On => activate(settings, fresh, active),
            Verdict::Off(reason) | Verdict::Doubt(reason) => give_up(fresh, active, &reason),
        }
    }
}

/// The first exchanges may be half done, so that nobody can use the communicator any more.
fn give_up(fresh: Fresh, active: Box<Active>, reason: &str) {
    fresh.known.poison();
    switch_on();
    retired::put_aside(active, fresh.known);
    log::error(format_args!("communicator {:p}: the ranks could not be connected: {reason}", fresh.comm));
}

fn agreed(fresh: Fresh, verdict: &Verdict) -> bool {
    match verdict {
        Verdict::On => return true,
        Verdict::Off(reason) => {
            log::warn(format_args!("communicator {:p}: compression off: {reason}", fresh.comm));
        }
        Verdict::Doubt(reason) => {
            fresh.known.poison();
            // So that its calls are looked at.
            switch_on();
            log::error(format_args!(
                "communicator {:p}: whether the ranks compress is not known: {reason}",
                fresh.comm
            ));
        }
    }
    false
}

fn active(settings: &Settings, fresh: Fresh, lane: Lane) -> Active {
    let rules = Rules { min_bytes: settings.min_bytes };
    let captures = lane.can_capture();
    Active::new(lane, rules, fresh.known.entry.nranks().unsigned_abs(), captures)
}

fn activate(settings: &Settings, fresh: Fresh, active: Box<Active>) {
    let entry = fresh.known.entry;
    fresh.known.activate(active);
    switch_on();
    log::info(format_args!(
        "communicator {:p}: compression on: rank {} of {}, {:?}, arena of {} bytes",
        fresh.comm,
        entry.rank(),
        entry.nranks(),
        settings.wire_format,
        settings.arena_bytes
    ));
}

fn acquire(
    thread: &Thread,
    settings: &Settings,
    fresh: Fresh,
    rank: usize,
    ranks: usize,
) -> Result<Lane, String> {
    let text = |error: GpuError| error.to_string();
    let vendor = vendors::at(usize::from(fresh.known.entry.vendor())).ok_or("there is no vendor")?;
    let kind = startup::gpu_kind().ok_or("there is no GPU runtime")?;
    let gpu = Gpu::attach(kind).map_err(text)?;
    let device = device_of(thread, vendor, fresh)?;
    let context = context_of(&gpu, device)?;
    let _entered = gpu.enter(context).map_err(text)?;
    let kernels = kernels::of_device(&gpu, device, settings.kernel_dir.as_deref())?;
    let arena_bytes = usize::try_from(settings.arena_bytes).map_err(|error| error.to_string())?;
    let (functions, comm, format) = (&vendor.functions, fresh.comm, format_of(settings.wire_format));
    let parts =
        LaneParts { gpu: gpu.clone(), context, kernels, functions, comm, rank, ranks, arena_bytes, format };
    thread.inside_vendor(|| Lane::acquire(parts)).map_err(|error| error.to_string())
}

fn device_of(thread: &Thread, vendor: &vendors::Vendor, fresh: Fresh) -> Result<i32, String> {
    let _pin: Pin = fresh.known.pin().ok_or("the communicator is ending")?;
    let query = vendor.comm_device.ok_or("the vendor does not tell a communicator's device")?;
    let mut device = -1;
    // SAFETY: the pin keeps the communicator; the query writes one int.
    let result = thread.inside_vendor(|| unsafe { query(fresh.comm, &mut device) });
    if result.is_accepted() { Ok(device) } else { Err(format!("ncclCommCuDevice returned {}", result.0)) }
}

/// The context in which the application uses that device: the current one, if it is that device's.
fn context_of(gpu: &Gpu, device: i32) -> Result<Context, String> {
    let text = |error: GpuError| error.to_string();
    let before = gpu.current_context().map_err(text)?;
    if let Some(context) = before
        && gpu.current_device().map_err(text)? == device
    {
        return Ok(context);
    }
    gpu.set_device(device).map_err(text)?;
    let context = gpu.current_context().map_err(text)?;
    if let Some(before) = before {
        // Its end would make the other device current again.
        std::mem::forget(gpu.enter(before).map_err(text)?);
    }
    context.ok_or_else(|| format!("device {device} has no context"))
}

fn connect(thread: &Thread, prepared: &[(Fresh, Ballot, Lane)], patience: Instant) -> Result<(), String> {
    let pins: Option<Vec<Pin>> = prepared.iter().map(|(fresh, _, _)| fresh.known.pin()).collect();
    let _pins = pins.ok_or("the communicator is ending")?;
    let lanes: Vec<&Lane> = prepared.iter().map(|(_, _, lane)| lane).collect();
    let refused = || prepared.iter().any(|(_, ballot, _)| ballot.is_refused("connected"));
    let keep_waiting = || Instant::now() < patience && !refused();
    thread.inside_vendor(|| Lane::connect_while(&lanes, &keep_waiting)).map_err(|error| error.to_string())
}

fn format_of(format: WireFormat) -> Format {
    match format {
        WireFormat::E4m3 => Format::E4M3,
        WireFormat::E5m2 => Format::E5M2,
        WireFormat::Int8 => Format::Int8,
        WireFormat::Auto => Format::Auto,
    }
}
