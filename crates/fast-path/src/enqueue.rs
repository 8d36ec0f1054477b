//! Enqueues compressed calls, all those of a group at once. No host synchronisation, no allocation;
//! what it can fail on was acquired before. Whoever calls it has decided that every rank does the same.

use crate::cursor::Cursor;
use crate::error::FastPathError;
use crate::lane::Lane;
use crate::order;
use crate::plan::Plan;
use crate::wire;
use airamp_codec::Element;
use airamp_vendor::Functions;
use airamp_vendor_abi::cuda::{self, DevicePtr};

/// Communicators in one group at most.
pub const MOST_LANES: usize = 64;

/// One AllReduce as the application called it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub input: DevicePtr,
    pub output: DevicePtr,
    pub element: Element,
    pub average: bool,
}

/// An AllReduce on a lane's communicator. `index` tells the communicator's calls apart, the same on
/// all its ranks.
#[derive(Clone, Copy)]
pub struct Post<'a> {
    pub lane: &'a Lane,
    pub plan: Plan,
    pub call: Call,
    pub stream: cuda::Stream,
    pub index: u64,
    /// Whether to leave the output as it is (the plan is a dry one then), and where to measure that:
    /// a place of the lane's, or [`crate::UNMEASURED`].
    pub dry: Option<usize>,
}

/// Enqueues all posts, those of one lane next to each other: each lane's one after the other, the
/// lanes side by side, an exchange of each in one group of the vendor's. What a lane does waits for the streams
/// of its posts, and they for it.
///
/// An error may leave a part enqueued that the peers cannot match: the communicators are lost then.
/// No group of the vendor's is left open.
///
/// # Safety
/// Input and output of each post are device memory of the plan's count of elements, on the lane's
/// device, equal or apart, until the streams have passed the call (and as long as a graph holds it).
/// The streams are live ones of the lane's context.
pub unsafe fn enqueue(posts: &[Post<'_>]) -> Result<(), FastPathError> {
    if posts.is_empty() {
        return Ok(());
    }
    check(posts)?;
    let _turns = Turns::take(posts);
    let mut cursors = [const { None }; MOST_LANES];
    for (cursor, posts) in cursors.iter_mut().zip(by_lane(posts)) {
        *cursor = Some(Cursor::new(posts)?);
    }
    let done = run(posts[0].lane.wire.functions, &mut cursors);
    if done.is_err() {
        cursors.iter().flatten().for_each(Cursor::abandon);
    }
    done
}

/// Lets each of the streams wait for what all of them have been given so far: before and behind a group on several streams
/// of one communicator, as the vendor has it, whatever parts the group is posted in.
///
/// A refusal enqueues nothing.
///
/// # Safety
/// The streams are live ones of the lane's context.
pub unsafe fn meet(lane: &Lane, streams: &[cuda::Stream]) -> Result<(), FastPathError> {
    // Its event is for one thread at a time.
    let _turn = Turn::take(lane);
    let _entered = lane.enter()?;
    order::meet(lane, streams)
}

fn run(functions: &Functions, cursors: &mut [Option<Cursor<'_>>]) -> Result<(), FastPathError> {
    cursors.iter().flatten().try_for_each(Cursor::begin)?;
    while pending(cursors).next().is_some() {
        unless_stopped(cursors)?;
        pending(cursors).try_for_each(Cursor::before)?;
        // A launch may have had to wait for room in the device's queue until somebody's abort has emptied it.
        unless_stopped(cursors)?;
        wire::group(functions, || pending(cursors).try_for_each(Cursor::exchange))?;
        cursors.iter_mut().flatten().filter(|cursor| !cursor.is_done()).try_for_each(Cursor::after)?;
    }
    Ok(())
}

/// The vendor must not be called on a communicator that is being ended.
fn unless_stopped(cursors: &[Option<Cursor<'_>>]) -> Result<(), FastPathError> {
    let is_stopped = pending(cursors).any(|cursor| cursor.lane().is_stopped());
    if is_stopped { Err(FastPathError::Stopped) } else { Ok(()) }
}

fn pending<'c, 'a>(cursors: &'c [Option<Cursor<'a>>]) -> impl Iterator<Item = &'c Cursor<'a>> {
    cursors.iter().flatten().filter(|cursor| !cursor.is_done())
}

fn check(posts: &[Post<'_>]) -> Result<(), FastPathError> {
    let functions = posts[0].lane.wire.functions;
    for (number, own) in by_lane(posts).enumerate() {
        let lane = own[0].lane;
        if number == MOST_LANES {
            return Err(FastPathError::TooManyLanes);
        }
        if by_lane(posts).take(number).any(|earlier| std::ptr::eq(earlier[0].lane, lane)) {
            return Err(FastPathError::Scattered);
        }
        if !std::ptr::eq(lane.wire.functions, functions) {
            return Err(FastPathError::SeveralVendors);
        }
        if !own.iter().all(is_of_its_lane) {
            return Err(FastPathError::ForeignPlan);
        }
    }
    Ok(())
}

fn is_of_its_lane(post: &Post<'_>) -> bool {
    let Plan { count, shape, .. } = post.plan;
    let plan = match post.dry {
        None => post.lane.known_plan(count, shape),
        Some(_) => post.lane.dry_plan(count, shape),
    };
    plan == Ok(post.plan)
}

fn by_lane<'p, 'a>(posts: &'p [Post<'a>]) -> impl Iterator<Item = &'p [Post<'a>]> {
    posts.chunk_by(|one, next| std::ptr::eq(one.lane, next.lane))
}

/// While it lives, no other thread enqueues on these lanes.
struct Turns<'p, 'a>(&'p [Post<'a>]);

impl<'p, 'a> Turns<'p, 'a> {
    fn take(posts: &'p [Post<'a>]) -> Self {
        // All or none: two threads that wait for each other's lanes would wait for ever.
        while let Some(refused) = by_lane(posts).position(|own| !own[0].lane.take()) {
            by_lane(posts).take(refused).for_each(|own| own[0].lane.give_back());
            std::thread::yield_now();
        }
        Self(posts)
    }
}

impl Drop for Turns<'_, '_> {
    fn drop(&mut self) {
        by_lane(self.0).for_each(|own| own[0].lane.give_back());
    }
}

/// The same for one lane.
struct Turn<'a>(&'a Lane);

impl<'a> Turn<'a> {
    fn take(lane: &'a Lane) -> Self {
        while !lane.take() {
            std::thread::yield_now();
        }
        Self(lane)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}
