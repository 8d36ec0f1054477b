//! An operator's last order, until the leader has heard it for certain. A link may take it along when it is lost; but one that
//! the leader has heard may be taken back by way of another rank, and is not said again. An order to go on is said once:
//! repeated, it could take back an order to stop, of which this rank knows nothing.

use super::MemberAction;
use crate::message::{Order, ToLeader};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ordered {
    order: Order,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// Not said over the link that there is.
    Unsaid,
    Said,
    /// A pledge was said behind it: a leader that commits has heard both.
    Followed,
}

impl Ordered {
    pub(super) fn new(order: Order) -> Self {
        Self { order, way: Way::Unsaid }
    }

    pub(super) fn link_lost(&mut self) {
        if self.order == Order::Off {
            self.way = Way::Unsaid;
        }
    }

    /// The order, if it is to be said now.
    pub(super) fn take(&mut self) -> Option<Order> {
        (std::mem::replace(&mut self.way, Way::Said) == Way::Unsaid).then_some(self.order)
    }

    /// Whether the leader has heard it, by what this rank does next.
    pub(super) fn is_heard(&mut self, next: &MemberAction) -> bool {
        if matches!(next, MemberAction::Send(ToLeader::Pledge { .. })) && self.way == Way::Said {
            self.way = Way::Followed;
        }
        matches!(next, MemberAction::Commit { .. }) && self.way == Way::Followed
    }
}
