//! What is played: the calls of a trace as operations on two buffers, a group as one moment. Pure. What the trace does
//! not know is chosen so that all ranks can make the same calls: every communicator spans all ranks, roots are rank 0,
//! messages go around a ring.

use airamp_telemetry::Kind;
use airamp_trace::{Call, Trace};
use airamp_vendor_abi::nccl::DataType;

use super::bursts;
use crate::collective::Collective;
use crate::error::RankError;

/// Where a group's next call may write: some cards' lines are longer than an element.
const ALIGNED: usize = 256;

pub(super) struct Plan {
    pub(super) moments: Vec<Moment>,
    /// Bytes of each of the two buffers.
    pub(super) scratch: usize,
    /// Calls as the trace has them.
    pub(super) calls: usize,
    /// Calls that were captured in a graph: when that ran is not in the trace.
    pub(super) left_out: usize,
    /// Calls that got fewer bytes than they had.
    pub(super) cut: usize,
    pub(super) bytes: u64,
    pub(super) recorded_ns: u64,
}

/// A call or a group.
pub(super) struct Moment {
    pub(super) at_ns: u64,
    pub(super) begins_burst: bool,
    pub(super) is_group: bool,
    pub(super) operations: Vec<Operation>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Operation {
    pub(super) communicator: usize,
    pub(super) what: What,
    pub(super) datatype: DataType,
    pub(super) count: usize,
    /// Where in the two buffers.
    pub(super) send_at: usize,
    pub(super) recv_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Collective(Collective),
    /// To the next rank, and from the one before.
    Exchange,
}

impl Plan {
    /// `times`: of each call of the trace, on this rank.
    pub(super) fn of(
        trace: &Trace,
        times: &[u64],
        ranks: usize,
        largest: Option<usize>,
    ) -> Result<Self, RankError> {
        let begin_ns = trace.calls.first().map_or(0, |call| call.at_ns);
        let mut plan = Self {
            moments: Vec::new(),
            scratch: 0,
            calls: 0,
            left_out: 0,
            cut: 0,
            bytes: 0,
            recorded_ns: trace.duration_ns(),
        };
        let mut recorded = Vec::new();
        let mut first = 0;
        while let Some(calls) = trace.calls.get(first..).map(moment).filter(|calls| !calls.is_empty()) {
            let at_ns = times.get(first).copied().unwrap_or(0).saturating_sub(begin_ns);
            first += calls.len();
            if plan.add(calls, at_ns, ranks, largest)? {
                recorded.push(calls.first().map_or(0, |call| call.at_ns));
            }
        }
        for (moment, begins) in plan.moments.iter_mut().zip(bursts::firsts(&recorded)) {
            moment.begins_burst = begins;
        }
        Ok(plan)
    }

    /// Whether there is anything of them to be played.
    fn add(
        &mut self,
        calls: &[Call],
        at_ns: u64,
        ranks: usize,
        largest: Option<usize>,
    ) -> Result<bool, RankError> {
        let live: Vec<Call> = calls.iter().copied().filter(|call| !call.captured).collect();
        self.left_out += calls.len() - live.len();
        self.calls += live.len();
        let mut room = Room { ranks, largest, send: 0, recv: 0, cut: 0 };
        let operations = operations(&live, &mut room)?;
        if operations.is_empty() {
            return Ok(false);
        }
        let size = |operation: &Operation| operation.datatype.size().unwrap_or(1) as u64;
        let bytes = operations.iter().map(|operation| operation.count as u64 * size(operation)).sum::<u64>();
        self.bytes = self.bytes.saturating_add(bytes);
        self.cut += room.cut;
        self.scratch = self.scratch.max(room.send).max(room.recv);
        let is_group = live.iter().any(|call| call.group);
        self.moments.push(Moment { at_ns, begins_burst: false, is_group, operations });
        Ok(true)
    }

    pub(super) fn longest_gap_ns(&self) -> u64 {
        let gaps = self.moments.windows(2).map(|two| two[1].at_ns.saturating_sub(two[0].at_ns));
        gaps.chain(self.moments.first().map(|first| first.at_ns)).max().unwrap_or(0)
    }

    /// Of what is played, not of when.
    pub(super) fn digest(&self) -> String {
        let mut digest = crate::digest::Digest::new();
        for moment in &self.moments {
            digest.add(&[u8::from(moment.is_group), u8::from(moment.begins_burst)]);
            for operation in &moment.operations {
                digest.add(format!("{operation:?}").as_bytes());
            }
        }
        digest.hex()
    }
}

pub(super) fn has_same_calls(one: &Trace, other: &Trace) -> bool {
    let call =
        |call: &Call| (call.communicator, call.kind, call.datatype, call.count, call.group, call.captured);
    one.calls.iter().map(call).eq(other.calls.iter().map(call))
}

/// The first call, and those of its group.
fn moment(calls: &[Call]) -> &[Call] {
    let Some(first) = calls.first() else { return &[] };
    let is_of_it = |call: &&Call| first.group && call.group && call.at_ns == first.at_ns;
    let others = calls.iter().skip(1).take_while(is_of_it).count();
    calls.get(..1 + others).unwrap_or(&[])
}

/// Where the operations of one moment lie: beside each other, since they may run at once.
struct Room {
    ranks: usize,
    largest: Option<usize>,
    send: usize,
    recv: usize,
    cut: usize,
}

/// A send and a receive of one group are the two halves of an exchange.
fn operations(calls: &[Call], room: &mut Room) -> Result<Vec<Operation>, RankError> {
    let is = |kind: Kind| move |call: &&Call| call.kind == kind as u8;
    let (sends, receives): (Vec<&Call>, Vec<&Call>) =
        (calls.iter().filter(is(Kind::Send)).collect(), calls.iter().filter(is(Kind::Recv)).collect());
    let mut all = Vec::new();
    for call in calls.iter().filter(|call| !is(Kind::Send)(call) && !is(Kind::Recv)(call)) {
        let (collective, parts) = collective(call, room.ranks)?;
        all.push(room.place(call, What::Collective(collective), call.count / parts));
    }
    for place in 0..sends.len().max(receives.len()) {
        let halves = [sends.get(place), receives.get(place)];
        let longest = halves.into_iter().flatten().max_by_key(|call| call.bytes);
        all.extend(longest.map(|call| room.place(call, What::Exchange, call.count)));
    }
    Ok(all)
}

/// And into how many parts the trace's count goes.
fn collective(call: &Call, ranks: usize) -> Result<(Collective, u64), RankError> {
    let whole = |collective| Ok((collective, 1));
    match Kind::from_number(call.kind.into()) {
        Some(Kind::AllReduce | Kind::AllReduceWithBias) => whole(Collective::AllReduce),
        Some(Kind::Reduce) => whole(Collective::Reduce),
        Some(Kind::ReduceScatter) => whole(Collective::ReduceScatter),
        Some(Kind::AllGather) => whole(Collective::AllGather),
        Some(Kind::Broadcast) => whole(Collective::Broadcast),
        Some(Kind::AllToAll) => whole(Collective::AllToAll),
        // Who gets how much is not known: everybody the same.
        Some(Kind::AllToAllV) => Ok((Collective::AllToAll, ranks.max(1) as u64)),
        Some(Kind::Gather) => whole(Collective::Gather),
        Some(Kind::Scatter) => whole(Collective::Scatter),
        Some(Kind::Send | Kind::Recv) | None => {
            Err(RankError::Arguments(format!("a call of kind {}", call.kind)))
        }
    }
}

impl Room {
    fn place(&mut self, call: &Call, what: What, count: u64) -> Operation {
        let datatype = match call.datatype {
            // Not every device reduces 8-bit floats; bytes are as many.
            number @ 0..=9 => DataType(number.into()),
            _ => DataType::UINT8,
        };
        let size = datatype.size().unwrap_or(1);
        let (input, output) = match what {
            What::Collective(collective) => collective.elements(1, self.ranks),
            What::Exchange => (1, 1),
        };
        let whole = usize::try_from(count).unwrap_or(usize::MAX);
        let most = self.largest.map_or(usize::MAX, |largest| (largest / size / input.max(output)).max(1));
        let count = whole.min(most);
        self.cut += usize::from(count < whole);
        let (send_at, recv_at) = (self.send, self.recv);
        let bytes = |elements: usize| count.saturating_mul(size).saturating_mul(elements);
        self.send = aligned(self.send.saturating_add(bytes(input)));
        self.recv = aligned(self.recv.saturating_add(bytes(output)));
        Operation { communicator: call.communicator.into(), what, datatype, count, send_at, recv_at }
    }
}

fn aligned(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(ALIGNED).unwrap_or(usize::MAX - 4 * ALIGNED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_trace::{Communicator, bytes_of};

    fn call(at_ns: u64, kind: Kind, count: u64) -> Call {
        Call { at_ns, kind: kind as u8, datatype: 7, count, bytes: bytes_of(7, count), ..Call::default() }
    }

    fn grouped(at_ns: u64, kind: Kind, count: u64) -> Call {
        Call { group: true, ..call(at_ns, kind, count) }
    }

    fn planned(calls: Vec<Call>, ranks: usize, largest: Option<usize>) -> Plan {
        let communicators = vec![Communicator { ranks: 2, rank: 0, name: 1 }];
        let trace = Trace { communicators, calls, ..Trace::default() };
        let times: Vec<u64> = trace.calls.iter().map(|call| call.at_ns).collect();
        Plan::of(&trace, &times, ranks, largest).unwrap()
    }

    #[test]
    fn calls_of_one_group_are_one_moment_and_lie_beside_each_other() {
        let calls = vec![
            call(5, Kind::AllReduce, 10),
            grouped(9, Kind::AllGather, 100),
            grouped(9, Kind::AllReduce, 100),
            grouped(12, Kind::AllReduce, 1),
        ];
        let plan = planned(calls, 4, None);
        let counts: Vec<usize> = plan.moments.iter().map(|moment| moment.operations.len()).collect();
        assert_eq!((counts, plan.calls), (vec![1, 2, 1], 4));
        assert_eq!(plan.moments.iter().map(|moment| moment.at_ns).collect::<Vec<_>>(), [0, 4, 7]);
        let second = plan.moments[1].operations[1];
        assert_eq!((second.send_at, second.recv_at), (512, 1792), "behind 400 and 1,600 bytes");
        assert_eq!(plan.scratch, 1792 + 512);
    }

    #[test]
    fn messages_become_exchanges_and_halves_are_not_made_twice() {
        let pair = vec![grouped(0, Kind::Send, 10), grouped(0, Kind::Recv, 20), grouped(0, Kind::Recv, 5)];
        let operations = &planned(pair, 2, None).moments[0].operations;
        let counts: Vec<usize> = operations.iter().map(|operation| operation.count).collect();
        assert_eq!(counts, [20, 5]);
        assert!(operations.iter().all(|operation| operation.what == What::Exchange));
        assert_eq!(planned(vec![call(0, Kind::Recv, 7)], 2, None).moments.len(), 1);
    }

    #[test]
    fn captured_calls_are_left_out_and_large_ones_cut() {
        let captured = Call { captured: true, ..call(1, Kind::AllReduce, 1000) };
        let calls = vec![captured, call(2, Kind::AllReduce, 1000), call(3, Kind::AllGather, 1000)];
        let plan = planned(calls, 4, Some(800));
        assert_eq!((plan.left_out, plan.cut, plan.calls), (1, 2, 2));
        let counts: Vec<usize> = plan.moments.iter().map(|moment| moment.operations[0].count).collect();
        assert_eq!(counts, [200, 50], "of the larger buffer");
        assert_eq!(plan.bytes, 1000);
    }

    #[test]
    fn an_uneven_exchange_is_played_as_an_even_one() {
        let plan = planned(vec![call(0, Kind::AllToAllV, 400)], 4, None);
        let operation = plan.moments[0].operations[0];
        assert_eq!((operation.what, operation.count), (What::Collective(Collective::AllToAll), 100));
    }

    #[test]
    fn a_trace_that_asks_for_everything_does_not_overflow() {
        let plan =
            planned(vec![call(0, Kind::AllGather, 1 << 44), grouped(1, Kind::AllToAll, 1 << 44)], 64, None);
        assert!(plan.scratch >= 1 << 50);
    }

    #[test]
    fn ranks_with_other_calls_have_another_digest() {
        let of = |count| planned(vec![call(0, Kind::AllReduce, count)], 2, None).digest();
        assert_eq!(of(5), of(5));
        assert_ne!(of(5), of(6));
    }

    #[test]
    fn times_of_another_rank_count_from_the_first_ranks_first_call() {
        let calls = vec![call(1000, Kind::AllReduce, 1), call(2000, Kind::AllReduce, 1)];
        let trace = Trace { calls, ..Trace::default() };
        let plan = Plan::of(&trace, &[1300, 2500], 2, None).unwrap();
        let times: Vec<u64> = plan.moments.iter().map(|moment| moment.at_ns).collect();
        assert_eq!(times, [300, 1500]);
    }
}
