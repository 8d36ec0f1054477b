//! How the calls of a step are made: one by one, in another order on each rank, in a group, on threads, captured. And how
//! a rank waits for them: bounded, with an eye on the communicators' state, as a framework's watchdog does.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use airamp_vendor::gpu::{GraphExec, Stream};
use airamp_vendor_abi::nccl::{Comm, Stream as RawStream};

use super::item::Item;
use super::walk::Walk;
use crate::collective::Call;
use crate::error::RankError;
use crate::nccl::Nccl;

/// How waiting for the calls of a turn ended.
pub(super) enum Waited {
    Arrived,
    /// A communicator has this error.
    Lost(i32),
    Stuck,
}

/// Plan order. On one stream, the first call's, what is to be captured afterwards.
pub(super) fn one_by_one(
    walk: &Walk<'_>,
    items: &[Item],
    one_stream: bool,
    late: &dyn Fn(usize),
) -> Result<(), RankError> {
    for (number, item) in items.iter().enumerate() {
        late(number);
        let stream = stream_of(walk, items, item, one_stream)?;
        item.call().enqueue(&walk.job.nccl, walk.comms.at(item.plan.comm)?.comm.raw(), stream.raw())?;
    }
    Ok(())
}

/// Communicator by communicator; in which order is each rank's own affair once they are connected.
pub(super) fn shuffled(
    walk: &Walk<'_>,
    items: &[Item],
    turn: usize,
    late: &dyn Fn(usize),
) -> Result<(), RankError> {
    if turn == 0 {
        return one_by_one(walk, items, false, late);
    }
    let mut order: Vec<&Item> = items.iter().collect();
    order.sort_by_key(|item| chance(walk.job.world.rank, [turn, item.plan.comm, 5]));
    for (number, item) in order.into_iter().enumerate() {
        late(number);
        let held = walk.comms.at(item.plan.comm)?;
        item.call().enqueue(&walk.job.nccl, held.comm.raw(), held.stream.raw())?;
    }
    Ok(())
}

pub(super) fn grouped(walk: &Walk<'_>, items: &[Item]) -> Result<(), RankError> {
    walk.job.group(|| one_by_one(walk, items, false, &|_| ()))
}

pub(super) fn capture(walk: &Walk<'_>, items: &[Item]) -> Result<GraphExec, RankError> {
    let stream = stream_of(walk, items, &items[0], true)?;
    stream.capture(|| one_by_one(walk, items, true, &|_| ()))
}

pub(super) fn replay(walk: &Walk<'_>, graph: &GraphExec, items: &[Item]) -> Result<(), RankError> {
    Ok(graph.launch(stream_of(walk, items, &items[0], true)?)?)
}

/// What a thread needs for one call.
struct Post {
    call: Call,
    comm: Comm,
    stream: RawStream,
}

// SAFETY: addresses of the vendor's, which takes them on any thread; whoever made the posts keeps what they name until
// the threads are over.
unsafe impl Send for Post {}

/// The calls of each communicator on a thread of their own.
pub(super) fn on_threads(walk: &Walk<'_>, items: &[Item]) -> Result<(), RankError> {
    let mut by_comm: BTreeMap<usize, Vec<Post>> = BTreeMap::new();
    for item in items {
        let held = walk.comms.at(item.plan.comm)?;
        let post = Post { call: item.call(), comm: held.comm.raw(), stream: held.stream.raw() };
        by_comm.entry(item.plan.comm).or_default().push(post);
    }
    let nccl: &Nccl = &walk.job.nccl;
    thread::scope(|scope| {
        let begin = |posts: Vec<Post>| scope.spawn(move || post_all(nccl, posts));
        let started: Vec<_> = by_comm.into_values().map(begin).collect();
        let mut done = Ok(());
        for thread in started {
            let own = thread.join().unwrap_or_else(|_| Err(RankError::Arguments("a thread panicked".into())));
            done = done.and(own);
        }
        done
    })
}

fn post_all(nccl: &Nccl, posts: Vec<Post>) -> Result<(), RankError> {
    posts.iter().try_for_each(|post| post.call.enqueue(nccl, post.comm, post.stream))
}

fn stream_of<'w>(
    walk: &'w Walk<'_>,
    items: &[Item],
    item: &Item,
    one_stream: bool,
) -> Result<&'w Stream, RankError> {
    let comm = if one_stream { items[0].plan.comm } else { item.plan.comm };
    Ok(&walk.comms.at(comm)?.stream)
}

pub(super) fn await_all(walk: &Walk<'_>, items: &[Item], one_stream: bool) -> Result<Waited, RankError> {
    let mut places: Vec<usize> = items.iter().map(|item| item.plan.comm).collect();
    let first = places.first().copied();
    places.sort_unstable();
    places.dedup();
    if let Some(first) = first.filter(|_| one_stream) {
        // Its stream is the one that all were enqueued on.
        places.retain(|place| *place != first);
        places.insert(0, first);
    }
    await_streams(walk, &places, one_stream)
}

/// Waits for the streams of these communicators, or for the first one's alone.
pub(super) fn await_streams(
    walk: &Walk<'_>,
    places: &[usize],
    first_alone: bool,
) -> Result<Waited, RankError> {
    let mut events = Vec::new();
    for place in &places[..if first_alone { 1 } else { places.len() }] {
        let event = walk.job.gpu.untimed_event()?;
        event.record(&walk.comms.at(*place)?.stream)?;
        events.push(event);
    }
    let deadline = Instant::now() + walk.patience;
    for look in 0u64.. {
        let mut all = true;
        for event in &events {
            all &= event.is_reached()?;
        }
        for place in places {
            let state = walk.job.nccl.async_error(walk.comms.at(*place)?.comm.raw())?;
            if state != 0 {
                return Ok(Waited::Lost(state));
            }
        }
        if all {
            return Ok(Waited::Arrived);
        }
        if Instant::now() > deadline {
            break;
        }
        if look > 20 { thread::sleep(Duration::from_micros(100)) } else { thread::yield_now() }
    }
    Ok(Waited::Stuck)
}

/// The same number in every run, another one for each rank and place.
pub(super) fn chance(rank: usize, place: [usize; 3]) -> u64 {
    let mut word = 0x9e37_79b9_7f4a_7c15 ^ (rank as u64 + 1);
    for part in place {
        word = (word ^ part as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(27);
    }
    word ^ (word >> 31)
}
