//! What a step of `airamp-rank steps` exchanges: a collective, or what is none: messages around a ring, uneven parts from
//! each rank to each, an AllReduce with a bias. Checks no result; the conformance cases do that.

use airamp_vendor_abi::nccl::{DataType, RedOp};

use crate::collective::{Call, Collective, Form};
use crate::error::RankError;
use crate::nccl::invoke;
use crate::session::Session;

pub(crate) enum Exchange {
    Collective(Call),
    /// To the next rank and from the one before, in a group.
    Ring {
        count: usize,
        datatype: DataType,
    },
    Uneven {
        parts: Parts,
        datatype: DataType,
    },
    WithBias {
        count: usize,
        datatype: DataType,
    },
}

/// What this rank sends to each and gets from each, one part behind the other.
pub(crate) struct Parts {
    send_counts: Vec<usize>,
    send_places: Vec<usize>,
    recv_counts: Vec<usize>,
    recv_places: Vec<usize>,
}

impl Exchange {
    /// `None`: there is nothing of that name. Neither buffer holds more than `bytes`.
    pub(crate) fn named(name: &str, session: &Session, datatype: DataType, bytes: usize) -> Option<Self> {
        let (rank, ranks) = (session.comm.rank, session.comm.size);
        let count = bytes / datatype.size().unwrap_or(1);
        Some(match name {
            "send_recv" => Self::Ring { count, datatype },
            "all_to_all_v" => Self::Uneven { parts: Parts::of(rank, ranks, count), datatype },
            "all_reduce_with_bias" => Self::WithBias { count, datatype },
            _ => Self::Collective(collective(Collective::named(name)?, session, datatype, count)),
        })
    }

    /// Puts it on the session's stream.
    pub(crate) fn enqueue(&self, session: &Session) -> Result<(), RankError> {
        let Session { nccl, comm, stream, send, recv, .. } = session;
        let (next, previous) = ((comm.rank + 1) % comm.size, (comm.rank + comm.size - 1) % comm.size);
        let (raw, stream, send, recv) = (comm.raw(), stream.raw(), send.at(0), recv.at(0));
        match self {
            Self::Collective(call) => call.enqueue(nccl, raw, stream),
            Self::Ring { count, datatype } => {
                invoke!(nccl, ncclGroupStart())?;
                invoke!(nccl, ncclSend(send, *count, *datatype, next as i32, raw, stream))?;
                invoke!(nccl, ncclRecv(recv, *count, *datatype, previous as i32, raw, stream))?;
                invoke!(nccl, ncclGroupEnd())
            }
            Self::Uneven { parts, datatype } => {
                let (counts, places) = (parts.send_counts.as_ptr(), parts.send_places.as_ptr());
                let (got, into) = (parts.recv_counts.as_ptr(), parts.recv_places.as_ptr());
                invoke!(nccl, ncclAlltoAllv(send, counts, places, recv, got, into, *datatype, raw, stream))
            }
            Self::WithBias { count, datatype } => {
                let op = RedOp::SUM;
                invoke!(nccl, ncclAllReduceWithBias(send, recv, *count, *datatype, op, raw, stream, send))
            }
        }
    }
}

/// `count` is that of the larger buffer.
fn collective(collective: Collective, session: &Session, datatype: DataType, count: usize) -> Call {
    let (input, output) = collective.elements(1, session.comm.size);
    Call {
        form: Form::Plain,
        collective,
        send: session.send.at(0),
        recv: session.recv.at(0),
        count: count / input.max(output),
        datatype,
        op: RedOp::SUM,
        root: 0,
    }
}

impl Parts {
    fn of(rank: usize, ranks: usize, elements: usize) -> Self {
        // Parts of several sizes, all of which fit.
        let unit = elements / (3 * ranks * ranks);
        let part = |from: usize, to: usize| (from + 2 * to + 1) * unit;
        let send_counts: Vec<usize> = (0..ranks).map(|to| part(rank, to)).collect();
        let recv_counts: Vec<usize> = (0..ranks).map(|from| part(from, rank)).collect();
        let places = |counts: &[usize]| (0..ranks).map(|place| counts[..place].iter().sum()).collect();
        let (send_places, recv_places) = (places(&send_counts), places(&recv_counts));
        Self { send_counts, send_places, recv_counts, recv_places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_rank_sends_another_gets_and_it_fits() {
        for ranks in 1..9 {
            let parts: Vec<Parts> = (0..ranks).map(|rank| Parts::of(rank, ranks, 10_000)).collect();
            for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
                assert_eq!(parts[from].send_counts[to], parts[to].recv_counts[from]);
            }
            let all = |counts: &[usize]| counts.iter().sum::<usize>();
            assert!(parts.iter().all(|it| all(&it.send_counts) <= 10_000 && all(&it.recv_counts) <= 10_000));
        }
    }
}
