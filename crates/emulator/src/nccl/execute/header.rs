//! What a rank says about an operation before its data: enough for the peer to see that both mean
//! the same.
//!
//! Headers go in front of the data on every link. Operations with a root, whose data does not pass
//! every rank, are announced on the control ring too, and compared there by number with
//! whatever the next rank has under that number. If ranks disagree, somewhere on the ring a rank
//! with a root stands before one that means something else, so one announcement finds it.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use airamp_vendor_abi::nccl::{DataType, RedOp};

use crate::nccl::call::{Collective, Kind};
use crate::nccl::lock;
use crate::nccl::net::wire::{Reader, Writer};

pub(crate) const HEADER_BYTES: usize = 36;
const MAGIC: u32 = 0x6f70_0001;
/// Stands for every PreMulSum handle: their numbers are local to a rank.
const PRE_MUL_SUM: i32 = RedOp::FIRST_HANDLE;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) datatype: DataType,
    pub(crate) op: i32,
    pub(crate) root: i32,
    pub(crate) count: u64,
    /// The how-manieth operation of its communicator (or of its pair) this is.
    pub(crate) sequence: u64,
}

/// Two headers that should be equal.
#[derive(Debug)]
pub(crate) struct Mismatch {
    mine: Header,
    theirs: Header,
}

impl Header {
    pub(crate) fn new(
        kind: Kind,
        datatype: DataType,
        op: RedOp,
        root: i32,
        count: usize,
        sequence: u64,
    ) -> Self {
        let op = if kind.reduces() { op.0.min(PRE_MUL_SUM) } else { 0 };
        let root = if kind.has_root() { root } else { 0 };
        Self { kind, datatype, op, root, count: count as u64, sequence }
    }

    pub(crate) fn of(collective: &Collective, sequence: u64) -> Self {
        let Collective { kind, datatype, op, root, count, .. } = *collective;
        Self::new(kind, datatype, op, root as i32, count, sequence)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(MAGIC);
        writer.u32(self.kind as u32);
        writer.u32(self.datatype.0 as u32);
        writer.u32(self.op as u32);
        writer.u32(self.root as u32);
        writer.u64(self.count);
        writer.u64(self.sequence);
        writer.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.u32()? != MAGIC {
            return None;
        }
        Some(Self {
            kind: Kind::from_number(reader.u32()?)?,
            datatype: DataType(reader.u32()? as i32),
            op: reader.u32()? as i32,
            root: reader.u32()? as i32,
            count: reader.u64()?,
            sequence: reader.u64()?,
        })
    }

    pub(crate) fn compare(&self, theirs: &Self) -> Option<Mismatch> {
        (self != theirs).then(|| Mismatch { mine: self.clone(), theirs: theirs.clone() })
    }

    /// Point to point only the amount has to fit: NCCL moves bytes there.
    pub(crate) fn compare_bytes(&self, theirs: &Self) -> Option<Mismatch> {
        let bytes = |header: &Self| header.datatype.size().map(|size| size as u64 * header.count);
        let fits =
            theirs.kind == Kind::Send && bytes(self) == bytes(theirs) && self.sequence == theirs.sequence;
        (!fits).then(|| Mismatch { mine: self.clone(), theirs: theirs.clone() })
    }

    pub(crate) fn describe(&self) -> String {
        let name = self.datatype.name().unwrap_or("unknown type");
        let mut text = format!("{}({} x {name}", self.kind.name(), self.count);
        if self.kind.reduces() {
            let known = RedOp::BUILT_IN.get(self.op as usize).map_or("premulsum", |(_, name)| name);
            text += &format!(", {known}");
        }
        if self.kind.has_root() {
            text += &format!(", root {}", self.root);
        }
        text + ")"
    }
}

impl Mismatch {
    pub(crate) fn describe(&self, own: usize, peer: usize) -> String {
        let (mine, theirs) = (self.mine.describe(), self.theirs.describe());
        let number = self.mine.sequence + 1;
        if self.mine.kind.is_collective() {
            format!(
                "ranks disagree on operation {number} of a communicator: rank {own} called {mine}, rank {peer} called {theirs}"
            )
        } else {
            format!(
                "message {number} of a pair does not fit: rank {own} called {mine} from rank {peer}, which called {theirs}"
            )
        }
    }
}

/// How many collectives without a root are remembered: more than a rank can be behind in them.
const REMEMBERED: usize = 64;

/// The collectives of a communicator that are to be compared with announcements.
#[derive(Default)]
pub(crate) struct Log(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    /// With a root, until the rank before has announced the same number.
    mine: HashMap<u64, Header>,
    /// Without a root, the last ones.
    rootless: VecDeque<Header>,
    theirs: HashMap<u64, Header>,
    /// Every number below was entered.
    entered: u64,
}

/// What became of a collective that was entered.
pub(crate) enum Entry {
    /// It was entered when its links were made.
    Known,
    Fresh,
    Wrong(Mismatch),
}

impl Log {
    /// Enters a collective of this rank.
    pub(crate) fn mine(&self, mine: &Header) -> Entry {
        let mut pending = lock(&self.0);
        if mine.sequence < pending.entered {
            return Entry::Known;
        }
        pending.entered = mine.sequence + 1;
        if let Some(theirs) = pending.theirs.remove(&mine.sequence) {
            return mine.compare(&theirs).map_or(Entry::Fresh, Entry::Wrong);
        }
        if mine.kind.has_root() {
            pending.mine.insert(mine.sequence, mine.clone());
            return Entry::Fresh;
        }
        if pending.rootless.len() == REMEMBERED {
            pending.rootless.pop_front();
        }
        pending.rootless.push_back(mine.clone());
        Entry::Fresh
    }

    /// Enters the announcement of the rank before this one.
    pub(crate) fn theirs(&self, theirs: Header) -> Option<Mismatch> {
        let mut pending = lock(&self.0);
        let with_root = pending.mine.remove(&theirs.sequence);
        let rootless = || pending.rootless.iter().find(|mine| mine.sequence == theirs.sequence).cloned();
        match with_root.or_else(rootless) {
            Some(mine) => mine.compare(&theirs),
            None => {
                pending.theirs.insert(theirs.sequence, theirs);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(kind: Kind, count: usize, root: i32) -> Header {
        Header::new(kind, DataType::FLOAT32, RedOp::SUM, root, count, 3)
    }

    #[test]
    fn a_header_reads_back_as_it_was_written() {
        let header = Header::new(Kind::Reduce, DataType::FLOAT8_E5M2, RedOp(17), 6, usize::MAX, u64::MAX);
        let bytes = header.encode();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(Header::decode(&bytes), Some(header));
        assert_eq!(Header::decode(&bytes[1..]), None);
    }

    #[test]
    fn premulsum_handles_are_equal_whatever_their_number() {
        let number = |op| Header::new(Kind::AllReduce, DataType::INT8, RedOp(op), 0, 1, 0);
        assert!(number(5).compare(&number(9)).is_none());
        assert!(number(4).compare(&number(9)).is_some());
    }

    #[test]
    fn a_mismatch_names_both_sides() {
        let mismatch =
            sample(Kind::AllReduce, 10, 0).compare(&sample(Kind::Broadcast, 20, 1)).expect("they differ");
        let text = mismatch.describe(0, 1);
        assert!(text.contains("rank 0 called AllReduce(10 x float32, sum)"), "{text}");
        assert!(text.contains("rank 1 called Broadcast(20 x float32, root 1)"), "{text}");
    }

    #[test]
    fn announcements_meet_in_either_order() {
        let log = Log::default();
        assert!(matches!(log.mine(&sample(Kind::Broadcast, 1, 0)), Entry::Fresh));
        assert!(log.theirs(sample(Kind::Broadcast, 1, 1)).is_some());
        let log = Log::default();
        assert!(log.theirs(sample(Kind::Broadcast, 1, 1)).is_none());
        assert!(matches!(log.mine(&sample(Kind::Broadcast, 1, 0)), Entry::Wrong(_)));
    }

    #[test]
    fn an_announcement_is_compared_with_a_collective_that_has_no_root() {
        let log = Log::default();
        assert!(matches!(log.mine(&sample(Kind::AllReduce, 1, 0)), Entry::Fresh));
        assert!(log.theirs(sample(Kind::Gather, 1, 0)).is_some());
    }

    #[test]
    fn a_collective_is_entered_once() {
        let log = Log::default();
        assert!(matches!(log.mine(&sample(Kind::Gather, 1, 0)), Entry::Fresh));
        assert!(log.theirs(sample(Kind::Gather, 1, 0)).is_none());
        assert!(matches!(log.mine(&sample(Kind::Gather, 1, 0)), Entry::Known));
    }
}
