//! The ring algorithms as plain data: which bytes a rank sends to the next one, which it gets from the
//! one before, and what depends on what.
//!
//! A plan is two sequences of pieces. The engine sends and receives each strictly in order, so that a
//! byte's place in the stream says everything: `after` and `before` tie the two streams together.
//! Pure: no memory, no socket; the tests run whole rings of plans over tiny channels.

use std::ops::Range;

/// Which buffer a piece lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The user's send buffer.
    Input,
    /// The user's receive buffer.
    Output,
    /// The engine's own.
    Scratch,
}

#[derive(Clone, Debug)]
pub(super) struct SendPiece {
    pub(super) place: Place,
    pub(super) offset: usize,
    pub(super) len: usize,
    /// Byte i may be sent once more than `after + i` bytes were received.
    pub(super) after: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct ReceivePiece {
    pub(super) place: Place,
    pub(super) offset: usize,
    pub(super) len: usize,
    /// Where in the send buffer this rank's contribution lies; `None` only copies.
    pub(super) own: Option<usize>,
    /// This is the last contribution: averages divide, the bias is added.
    pub(super) finish: bool,
    /// Byte i may be overwritten once more than `before + i` bytes were sent.
    pub(super) before: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) sends: Vec<SendPiece>,
    pub(super) receives: Vec<ReceivePiece>,
    /// Bytes of the engine's own buffer.
    pub(super) scratch: usize,
    sent: usize,
    received: usize,
    /// For each scratch slot, where in the sent stream its bytes go.
    slots: Vec<Option<usize>>,
}

/// Who and how many, and how large an element and a scratch slot are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) count: usize,
    pub(super) element: usize,
    pub(super) slot: usize,
}

/// Two would do to keep a ring moving; more let a rank run ahead of a neighbour.
const SLOTS: usize = 4;

impl Shape {
    fn bytes(self) -> usize {
        self.count * self.element
    }

    fn slot_bytes(self) -> usize {
        (self.slot / self.element).max(1) * self.element
    }

    /// The part of the data that begins its way around the ring at `index`.
    fn segment(self, index: usize) -> Range<usize> {
        let edge =
            |part: usize| (self.count as u128 * part as u128 / self.size as u128) as usize * self.element;
        edge(index)..edge(index + 1)
    }

    /// The rank that is `steps` before this one.
    fn back(self, steps: usize) -> usize {
        (self.rank + 2 * self.size - steps % self.size) % self.size
    }

    fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        let (bytes, slot) = (self.bytes(), self.slot_bytes());
        (0..bytes).step_by(slot).map(move |start| start..(start + slot).min(bytes))
    }
}

impl Plan {
    fn send(&mut self, place: Place, range: Range<usize>, after: Option<usize>) {
        let (offset, len) = (range.start, range.len());
        self.sends.push(SendPiece { place, offset, len, after });
        self.sent += len;
    }

    /// Adds a piece and answers where in the stream it begins.
    fn receive(&mut self, place: Place, range: Range<usize>, own: Option<usize>, finish: bool) -> usize {
        let (offset, len) = (range.start, range.len());
        self.receives.push(ReceivePiece { place, offset, len, own, finish, before: None });
        self.received += len;
        self.received - len
    }

    /// Receives into the next scratch slot what will be sent on; answers the slot's bytes and
    /// where in the stream they begin.
    fn receive_to_forward(
        &mut self,
        shape: Shape,
        number: usize,
        len: usize,
        own: usize,
    ) -> (Range<usize>, usize) {
        self.slots.resize(SLOTS, None);
        self.scratch = SLOTS * shape.slot_bytes();
        let slot = number % SLOTS;
        let start = slot * shape.slot_bytes();
        let place = self.receive(Place::Scratch, start..start + len, Some(own), false);
        if let Some(piece) = self.receives.last_mut() {
            piece.before = self.slots[slot];
        }
        (start..start + len, place)
    }

    fn forward(&mut self, shape: Shape, range: Range<usize>, after: usize) {
        let slot = range.start / shape.slot_bytes();
        self.slots[slot] = Some(self.sent);
        self.send(Place::Scratch, range, Some(after));
    }
}

/// Reduce-scatter, then all-gather, each segment once around and on.
pub(super) fn all_reduce(shape: Shape) -> Plan {
    let mut plan = Plan::default();
    plan.send(Place::Input, shape.segment(shape.rank), None);
    for step in 0..2 * (shape.size - 1) {
        let segment = shape.segment(shape.back(step + 1));
        let reduces = step < shape.size - 1;
        let own = reduces.then_some(segment.start);
        let place = plan.receive(Place::Output, segment.clone(), own, step + 2 == shape.size);
        if step + 1 < 2 * (shape.size - 1) {
            plan.send(Place::Output, segment, Some(place));
        }
    }
    plan
}

/// `count` is what each rank keeps. Goes round block by block, since partial sums have no place
/// of their own in the user's memory.
pub(super) fn reduce_scatter(shape: Shape) -> Plan {
    let mut plan = Plan::default();
    let mut number = 0;
    for block in shape.blocks() {
        let within = |rank: usize| rank * shape.bytes() + block.start..rank * shape.bytes() + block.end;
        plan.send(Place::Input, within(shape.back(1)), None);
        for step in 0..shape.size - 2 {
            let own = within(shape.back(step + 2)).start;
            let (slot, place) = plan.receive_to_forward(shape, number, block.len(), own);
            plan.forward(shape, slot, place);
            number += 1;
        }
        plan.receive(Place::Output, block.clone(), Some(within(shape.rank).start), true);
    }
    plan
}

/// `count` is what each rank contributes. The engine puts its own part in place.
pub(super) fn all_gather(shape: Shape) -> Plan {
    let mut plan = Plan::default();
    plan.send(Place::Input, 0..shape.bytes(), None);
    for step in 0..shape.size - 1 {
        let start = shape.back(step + 1) * shape.bytes();
        let place = plan.receive(Place::Output, start..start + shape.bytes(), None, false);
        if step + 2 < shape.size {
            plan.send(Place::Output, start..start + shape.bytes(), Some(place));
        }
    }
    plan
}

/// A chain from the root to the rank before it.
pub(super) fn broadcast(shape: Shape, root: usize) -> Plan {
    let mut plan = Plan::default();
    let whole = 0..shape.bytes();
    match (shape.rank + shape.size - root) % shape.size {
        0 => plan.send(Place::Input, whole, None),
        position => {
            let place = plan.receive(Place::Output, whole.clone(), None, false);
            if position + 1 < shape.size {
                plan.send(Place::Output, whole, Some(place));
            }
        }
    }
    plan
}

/// A chain from the rank after the root around to the root.
pub(super) fn reduce(shape: Shape, root: usize) -> Plan {
    let mut plan = Plan::default();
    let position = (shape.rank + 2 * shape.size - root - 1) % shape.size;
    if position == 0 {
        plan.send(Place::Input, 0..shape.bytes(), None);
    } else if position + 1 == shape.size {
        plan.receive(Place::Output, 0..shape.bytes(), Some(0), true);
    } else {
        for (number, block) in shape.blocks().enumerate() {
            let (slot, place) = plan.receive_to_forward(shape, number, block.len(), block.start);
            plan.forward(shape, slot, place);
        }
    }
    plan
}

/// The parts of both streams that may move now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) piece: usize,
    pub(super) within: usize,
    /// Bytes of the whole stream so far.
    pub(super) total: usize,
}

impl Cursor {
    pub(super) fn advance(&mut self, bytes: usize) {
        self.within += bytes;
        self.total += bytes;
    }

    fn skip(&mut self, len: usize) -> bool {
        let full = self.within == len;
        if full {
            self.piece += 1;
            self.within = 0;
        }
        full
    }
}

impl Plan {
    /// The current piece to send and how many of its bytes are ready; `None` at the end.
    pub(super) fn sendable(&self, cursor: &mut Cursor, received: usize) -> Option<(&SendPiece, usize)> {
        while let Some(piece) = self.sends.get(cursor.piece) {
            if cursor.skip(piece.len) {
                continue;
            }
            let left = piece.len - cursor.within;
            let ready =
                piece.after.map_or(left, |after| received.saturating_sub(after + cursor.within).min(left));
            return Some((piece, ready));
        }
        None
    }

    /// The current piece to receive and how many of its bytes have room; `None` at the end.
    pub(super) fn receivable(&self, cursor: &mut Cursor, sent: usize) -> Option<(&ReceivePiece, usize)> {
        while let Some(piece) = self.receives.get(cursor.piece) {
            if cursor.skip(piece.len) {
                continue;
            }
            let left = piece.len - cursor.within;
            let room =
                piece.before.map_or(left, |before| sent.saturating_sub(before + cursor.within).min(left));
            return Some((piece, room));
        }
        None
    }
}

#[cfg(test)]
mod tests;
