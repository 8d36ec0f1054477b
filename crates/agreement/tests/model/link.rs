//! One connection between a rank and the leader: first in, first out in each direction, any delay, lost at any moment
//! with any part of what is under way, made again. Each side learns of a loss in its own time, after what it still
//! receives. Reasons are for people and no machine looks at them, so that they are dropped here: states that differ in
//! nothing else are one.

use airamp_agreement::{ToLeader, ToMember};
use std::collections::VecDeque;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Up {
    /// The connection of this number is open.
    Linked(u8),
    Frame(ToLeader),
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Down {
    Frame(ToMember),
    Lost,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    /// Number of the newest connection.
    number: u8,
    live: bool,
    member_sees: bool,
    /// The connection that the leader takes for open.
    leader_sees: Option<u8>,
    pub(crate) up: VecDeque<Up>,
    pub(crate) down: VecDeque<Down>,
}

impl Link {
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    pub(crate) fn member_sees(&self) -> bool {
        self.member_sees
    }

    /// A leader that has not noticed the loss of an older connection notices the new one instead.
    pub(crate) fn open(&mut self) {
        if self.up.back() == Some(&Up::Lost) {
            self.up.pop_back();
        }
        self.number += 1;
        self.live = true;
        self.member_sees = true;
        self.up.push_back(Up::Linked(self.number));
    }

    pub(crate) fn send_up(&mut self, mut message: ToLeader) {
        if let ToLeader::Refuse { reason, .. }
        | ToLeader::Ready(Err(reason))
        | ToLeader::Connected(Err(reason)) = &mut message
        {
            reason.clear();
        }
        if self.live && self.member_sees {
            self.up.push_back(Up::Frame(message));
        }
    }

    pub(crate) fn send_down(&mut self, mut message: ToMember) {
        if let ToMember::Off { reason } | ToMember::Broken { reason } = &mut message {
            reason.clear();
        }
        if self.live && self.leader_sees == Some(self.number) {
            self.down.push_back(Down::Frame(message));
        }
    }

    pub(crate) fn take_up(&mut self) -> Option<Up> {
        let item = self.up.pop_front()?;
        match &item {
            Up::Linked(number) => self.leader_sees = Some(*number),
            Up::Lost => self.leader_sees = None,
            Up::Frame(_) => {}
        }
        Some(item)
    }

    pub(crate) fn take_down(&mut self) -> Option<Down> {
        let item = self.down.pop_front()?;
        if item == Down::Lost {
            self.member_sees = false;
        }
        Some(item)
    }

    pub(crate) fn cut(&mut self) {
        if self.live {
            self.live = false;
            self.up.push_back(Up::Lost);
            self.down.push_back(Down::Lost);
        }
    }

    pub(crate) fn member_is_gone(&mut self) {
        self.cut();
        self.member_sees = false;
        self.down.clear();
    }

    pub(crate) fn leader_is_gone(&mut self) {
        self.cut();
        self.leader_sees = None;
        self.up.clear();
    }

    /// What a lost connection did not deliver: its last frame, then the one before it, as often as it is done.
    pub(crate) fn can_lose_up(&self) -> bool {
        !self.live && tail(&self.up, |item| matches!(item, Up::Frame(_)), &Up::Lost)
    }

    pub(crate) fn can_lose_down(&self) -> bool {
        !self.live && tail(&self.down, |item| matches!(item, Down::Frame(_)), &Down::Lost)
    }

    pub(crate) fn lose_up(&mut self) {
        self.up.remove(self.up.len() - 2);
    }

    pub(crate) fn lose_down(&mut self) {
        self.down.remove(self.down.len() - 2);
    }
}

fn tail<T: PartialEq>(queue: &VecDeque<T>, is_frame: impl Fn(&T) -> bool, end: &T) -> bool {
    queue.len() >= 2 && queue.back() == Some(end) && is_frame(&queue[queue.len() - 2])
}
