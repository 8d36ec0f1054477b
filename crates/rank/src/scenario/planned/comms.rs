//! The communicators of a planned job that are there at the moment, each with a stream of its own.

use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::nccl::Comm;

use super::super::Job;
use super::super::tracked::{compressed_calls, trial_calls};
use super::plan::Kin;
use super::report::Counted;
use crate::error::RankError;
use crate::nccl::Communicator;

pub(super) struct Held {
    pub(super) comm: Communicator,
    pub(super) stream: Stream,
    /// Tells the communicators of one split apart, and those of a split of it.
    pub(super) part: usize,
}

/// By their place in the plan.
pub(super) struct Comms(Vec<Option<Held>>);

impl Comms {
    pub(super) fn none(places: usize) -> Self {
        Self((0..places).map(|_| None).collect())
    }

    pub(super) fn make(&mut self, job: &mut Job, place: usize, kin: Kin) -> Result<(), RankError> {
        let (comm, part) = match kin {
            Kin::World => (job.plain_communicator()?, 0),
            Kin::Split { of, parts, reversed } => {
                let parent = self.at(of)?;
                let rank = parent.comm.rank;
                let key = if reversed { -(rank as i32) } else { rank as i32 };
                let child = parent.comm.split((rank % parts) as i32, key)?;
                let child = child.ok_or_else(|| RankError::Arguments("a split without a child".into()))?;
                (child, 16 * parent.part + rank % parts + 1)
            }
        };
        let stream = job.gpu.stream(true)?;
        *self.0.get_mut(place).ok_or_else(|| missing(place))? = Some(Held { comm, stream, part });
        Ok(())
    }

    pub(super) fn at(&self, place: usize) -> Result<&Held, RankError> {
        self.0.get(place).and_then(Option::as_ref).ok_or_else(|| missing(place))
    }

    pub(super) fn end(&mut self, place: usize, counted: &mut Counted) -> Result<(), RankError> {
        let held = self.0.get_mut(place).and_then(Option::take).ok_or_else(|| missing(place))?;
        ask(held.comm.raw(), counted);
        held.comm.destroy()
    }

    /// Ends those that are left, children first.
    pub(super) fn end_all(&mut self, counted: &mut Counted) -> Result<(), RankError> {
        for place in (0..self.0.len()).rev() {
            if self.0[place].is_some() {
                self.end(place, counted)?;
            }
        }
        Ok(())
    }

    /// After an error nobody waits for anybody.
    pub(super) fn abort_all(&mut self, counted: &mut Counted) {
        for held in self.0.iter_mut().rev().filter_map(Option::take) {
            ask(held.comm.raw(), counted);
            // An abort that fails leaves nothing to be done, and the report has the first error.
            let _ = held.comm.abort();
            std::mem::forget(held.stream);
        }
    }
}

fn missing(place: usize) -> RankError {
    RankError::Arguments(format!("the plan has no communicator {place} here"))
}

fn ask(comm: Comm, counted: &mut Counted) {
    counted.said_compressed += compressed_calls(comm).unwrap_or(0);
    counted.said_trials += trial_calls(comm).unwrap_or(0);
}
