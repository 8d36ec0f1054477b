//! Several AllReduces side by side: each lane has its own part of the scratch buffers
//! and its own inputs, so that calls that were swapped, dropped or run twice show.

use airamp_vendor_abi::nccl::{DataType, RedOp};

use crate::collective::{Call, Collective, Form};
use crate::error::RankError;
use crate::nccl::Communicator;
use crate::pattern::{Reduction, agrees, input, reduced};
use crate::session::{Observed, Session};

const DATATYPE: DataType = DataType::FLOAT32;
const REDUCTION: Reduction = Reduction::Sum;

#[derive(Clone, Copy)]
pub(super) struct Lanes {
    pub(super) number: usize,
    pub(super) elements: usize,
    /// Added to every lane's place in the pattern, so that repeated rounds differ.
    pub(super) round: usize,
}

impl Lanes {
    pub(super) fn new(number: usize, elements: usize) -> Self {
        Self { number, elements, round: 0 }
    }

    pub(super) fn in_round(self, round: usize) -> Self {
        Self { round, ..self }
    }

    fn bytes(&self) -> usize {
        self.elements * 4
    }

    fn start(&self, lane: usize) -> usize {
        lane * 17 + self.round * 101
    }

    /// The input of one lane of this rank.
    pub(super) fn input(&self, comm: &Communicator, lane: usize) -> Vec<u8> {
        self.input_of(comm, comm.rank, lane)
    }

    /// The input of one lane of another rank.
    pub(super) fn input_of(&self, comm: &Communicator, rank: usize, lane: usize) -> Vec<u8> {
        input(DATATYPE, REDUCTION, comm.size, rank, self.start(lane), self.elements)
    }

    /// Writes all inputs and clears all outputs.
    pub(super) fn prepare(&self, session: &Session, comm: &Communicator) -> Result<(), RankError> {
        session.recv.fill(0, self.number * self.bytes(), 0)?;
        for lane in 0..self.number {
            session.send.write(lane * self.bytes(), &self.input(comm, lane))?;
        }
        Ok(session.gpu.synchronize()?)
    }

    /// Where a lane begins in either buffer.
    pub(super) fn offset(&self, lane: usize) -> usize {
        lane * self.bytes()
    }

    pub(super) fn call(&self, session: &Session, lane: usize) -> Call {
        Call {
            form: Form::Plain,
            collective: Collective::AllReduce,
            send: session.send.at(self.offset(lane)),
            recv: session.recv.at(self.offset(lane)),
            count: self.elements,
            datatype: DATATYPE,
            op: RedOp::SUM,
            root: 0,
        }
    }

    /// What a lane's AllReduce over `comm` gives.
    pub(super) fn expected(&self, comm: &Communicator, lane: usize) -> Vec<u8> {
        reduced(DATATYPE, REDUCTION, comm.size, self.start(lane), self.elements)
    }

    /// Compares every lane's output with the AllReduce over `comm`.
    pub(super) fn check(
        &self,
        session: &Session,
        comm: &Communicator,
        observed: &mut Observed,
    ) -> Result<(), RankError> {
        for lane in 0..self.number {
            let mut output = vec![0; self.bytes()];
            session.recv.read(self.offset(lane), &mut output)?;
            self.judge(comm, lane, &output, observed);
        }
        Ok(())
    }

    pub(super) fn judge(&self, comm: &Communicator, lane: usize, output: &[u8], observed: &mut Observed) {
        let expected = self.expected(comm, lane);
        observed.expect(agrees(DATATYPE, REDUCTION, comm.size, output, &expected), || {
            format!("call {lane} of round {} has a wrong result", self.round)
        });
        observed.digest.add(output);
    }

    /// Prepares, enqueues every lane on the session's stream, waits and compares.
    pub(super) fn run(
        &self,
        session: &Session,
        comm: &Communicator,
        observed: &mut Observed,
    ) -> Result<(), RankError> {
        self.prepare(session, comm)?;
        for lane in 0..self.number {
            self.call(session, lane).enqueue(&session.nccl, comm.raw(), session.stream.raw())?;
        }
        session.stream.synchronize()?;
        self.check(session, comm, observed)
    }
}
