//! One lane's way through its calls of a group: call after call on its arena, an exchange
//! of the current one in each round.

use crate::enqueue::Post;
use crate::error::FastPathError;
use crate::lane::Lane;
use crate::order::Order;
use crate::steps::Steps;
use crate::wire::WireError;
use airamp_vendor_abi::cuda;

pub(crate) struct Cursor<'a> {
    posts: &'a [Post<'a>],
    order: Order<'a>,
    /// Index of the current call; all are done when it is their number.
    current: usize,
    /// The current call's next exchange.
    place: usize,
}

impl<'a> Cursor<'a> {
    /// `posts` are the lane's, at least one.
    pub(crate) fn new(posts: &'a [Post<'a>]) -> Result<Self, FastPathError> {
        let Post { lane, stream: home, .. } = posts[0];
        let _entered = lane.enter()?;
        let order = Order::of(lane, home, other_streams(posts))?;
        if order.is_captured() && posts.iter().any(|post| post.dry.is_some()) {
            return Err(FastPathError::CapturedDryRun);
        }
        Ok(Self { posts, order, current: 0, place: 0 })
    }

    pub(crate) fn lane(&self) -> &'a Lane {
        self.posts[0].lane
    }

    pub(crate) fn begin(&self) -> Result<(), FastPathError> {
        let _entered = self.lane().enter()?;
        Ok(self.order.begin(other_streams(self.posts))?)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.current == self.posts.len()
    }

    pub(crate) fn before(&self) -> Result<(), FastPathError> {
        let _entered = self.lane().enter()?;
        self.steps().before(self.place)
    }

    pub(crate) fn exchange(&self) -> Result<(), WireError> {
        self.steps().exchange(self.place)
    }

    /// Ends the round, and with the last one the lane's part in the group.
    pub(crate) fn after(&mut self) -> Result<(), FastPathError> {
        let _entered = self.lane().enter()?;
        self.steps().after(self.place)?;
        self.place += 1;
        if self.place == self.posts[self.current].plan.exchanges() {
            self.steps().end_measured()?;
            (self.current, self.place) = (self.current + 1, 0);
        }
        if self.is_done() {
            self.order.end(other_streams(self.posts))?;
            self.posts.iter().try_for_each(Post::start_vendor)?;
        }
        Ok(())
    }

    pub(crate) fn abandon(&self) {
        if let Ok(_entered) = self.lane().enter() {
            self.order.abandon();
        }
    }

    fn steps(&self) -> Steps<'_> {
        Steps::new(&self.order, &self.posts[self.current])
    }
}

/// The streams of a lane's posts, each once, without the first one's.
fn other_streams<'a>(posts: &'a [Post<'a>]) -> impl Iterator<Item = cuda::Stream> + 'a {
    let streams = move || posts.iter().map(|post| post.stream);
    let is_new = move |index, stream| !streams().take(index).any(|other| other == stream);
    streams()
        .enumerate()
        .filter(move |(index, stream)| is_new(*index, *stream))
        .map(|(_, stream)| stream)
        .skip(1)
}
