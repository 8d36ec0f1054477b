//! A rank's way through the steps of a plan. What ends it early is a [`Ended`], with the step and how it showed.

use std::thread::sleep;
use std::time::{Duration, Instant};

use airamp_vendor_abi::nccl::DataType;

use super::super::Job;
use super::comms::Comms;
use super::harm;
use super::item::{Item, allocated};
use super::plan::{CallPlan, Manner, Plan, Step};
use super::report::{Ended, Letter, Report, Told};
use super::turns::{self, Waited};
use crate::collective::Collective;
use crate::error::RankError;
use crate::nccl::invoke;
use crate::pattern::{Reduction, input};
use crate::watchdog::Watchdog;

pub(super) struct Walk<'a> {
    pub(super) job: &'a mut Job,
    watchdog: &'a Watchdog,
    plan: &'a Plan,
    pub(super) comms: Comms,
    report: Report,
    step: usize,
    pub(super) patience: Duration,
}

/// A repeated step.
struct Repeated<'a> {
    calls: &'a [CallPlan],
    manner: Manner,
    times: usize,
    skew_us: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(job: &'a mut Job, watchdog: &'a Watchdog, plan: &'a Plan) -> Self {
        let report = Report { process: job.world.rank, ..Report::default() };
        let (comms, patience) = (Comms::none(plan.communicators.len()), Duration::from_secs(plan.patience_s));
        Self { job, watchdog, plan, comms, report, step: 0, patience }
    }

    /// Rank 0's word, where the plan asks for time instead of rounds.
    pub(super) fn goes_on(&mut self, round: usize, began: Instant) -> Result<bool, Ended> {
        let Some(seconds) = self.plan.seconds else { return Ok(round < self.plan.rounds) };
        let mut word = [u8::from(began.elapsed() < Duration::from_secs(seconds))];
        self.job.world.broadcast(&mut word).map_err(|error| self.ended("world", &error))?;
        Ok(word[0] == 1)
    }

    pub(super) fn round(&mut self) -> Result<(), Ended> {
        for (number, step) in self.plan.steps.iter().enumerate() {
            self.step = number;
            self.watchdog.enter(&format!("step {number}"));
            let own =
                |harm: &&super::plan::Harm| harm.before_step == number && harm.rank == self.job.world.rank;
            for harm in self.plan.harms.iter().filter(own) {
                harm::suffer(harm.what, &self.job.world);
            }
            self.take(step)?;
        }
        self.watchdog.enter("the end of a round");
        self.step = self.plan.steps.len();
        let ended = self.comms.end_all(&mut self.report.counted);
        ended.map_err(|error| self.ended("refused", &error))?;
        self.report.rounds += 1;
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<(), Ended> {
        match step {
            Step::Make(place) => self.make(*place),
            Step::End(place) => {
                let ended = self.comms.end(*place, &mut self.report.counted);
                ended.map_err(|error| self.ended("refused", &error))
            }
            Step::Calls { calls, manner, times, skew_us } => {
                self.repeat(&Repeated { calls, manner: *manner, times: *times, skew_us: *skew_us })
            }
            Step::Messages { comm, bytes } => self.pass_around(*comm, *bytes),
            Step::Forks(count) => {
                harm::make_children(*count).map_err(|error| self.ended("other", &error))?;
                self.report.forks += count;
                Ok(())
            }
        }
    }

    fn make(&mut self, place: usize) -> Result<(), Ended> {
        if self.plan.meets {
            self.job.wait_for_everyone().map_err(|error| self.ended("making", &error))?;
        }
        let kin = self.plan.communicators.get(place).copied();
        let kin = kin.ok_or_else(|| RankError::Arguments(format!("no communicator {place}")));
        let made = kin.and_then(|kin| self.comms.make(self.job, place, kin));
        made.map_err(|error| self.ended("making", &error))?;
        self.report.made += 1;
        let state = self.comms.at(place).and_then(|held| self.job.nccl.async_error(held.comm.raw()));
        match state.map_err(|error| self.ended("making", &error))? {
            code if code != 0 && !self.plan.heedless => {
                let text = "the new communicator has an error".to_owned();
                Err(Ended { step: self.step, how: "making", code: Some(code), text })
            }
            _ => Ok(()),
        }
    }

    fn repeat(&mut self, step: &Repeated<'_>) -> Result<(), Ended> {
        let mut items = self.items(step.calls).map_err(|error| self.ended("other", &error))?;
        let done = self.turns(step, &mut items);
        if done.is_err() {
            // What was enqueued before a loss may still be written to: its memory is given up with it.
            std::mem::forget(items);
        }
        done
    }

    fn items(&self, calls: &[CallPlan]) -> Result<Vec<Item>, RankError> {
        calls.iter().map(|call| Item::new(self.job, &self.comms.at(call.comm)?.comm, *call)).collect()
    }

    fn turns(&mut self, step: &Repeated<'_>, items: &mut [Item]) -> Result<(), Ended> {
        let mut graph = None;
        for turn in 0..step.times.max(1) {
            self.fill(items, turn).map_err(|error| self.ended("other", &error))?;
            let late = |place: usize| self.is_late(turn, place, step.skew_us);
            let posted = match (step.manner, &graph) {
                (Manner::Captured, Some(graph)) => turns::replay(self, graph, items),
                (Manner::Captured, None) => turns::one_by_one(self, items, true, &late),
                (Manner::Shuffled, _) => turns::shuffled(self, items, turn, &late),
                (Manner::Grouped, _) => turns::grouped(self, items),
                (Manner::Threads, _) => turns::on_threads(self, items),
                (Manner::Plain, _) => turns::one_by_one(self, items, false, &late),
            };
            posted.map_err(|error| self.ended("refused", &error))?;
            self.await_all(items, step.manner == Manner::Captured)?;
            self.judge(items, turn)?;
            if step.manner == Manner::Captured && graph.is_none() {
                let captured = turns::capture(self, items);
                graph = Some(captured.map_err(|error| self.ended("refused", &error))?);
            }
        }
        Ok(())
    }

    fn fill(&self, items: &mut [Item], turn: usize) -> Result<(), RankError> {
        items.iter_mut().try_for_each(|item| item.fill(turn))?;
        // Fills and copies of the default stream are not ordered with a non-blocking one.
        Ok(self.job.gpu.synchronize()?)
    }

    fn is_late(&self, turn: usize, place: usize, most_us: u64) {
        if most_us > 0 {
            let chance = turns::chance(self.job.world.rank, [self.step, turn, place]);
            sleep(Duration::from_micros(chance % most_us));
        }
    }

    fn await_all(&self, items: &[Item], one_stream: bool) -> Result<(), Ended> {
        let waited = turns::await_all(self, items, one_stream);
        match waited.map_err(|error| self.ended("other", &error))? {
            Waited::Arrived => Ok(()),
            Waited::Lost(code) => {
                let text = "a communicator has an error".to_owned();
                Err(Ended { step: self.step, how: "lost", code: Some(code), text })
            }
            Waited::Stuck => {
                let text = "neither a result nor an error".to_owned();
                Err(Ended { step: self.step, how: "stuck", code: None, text })
            }
        }
    }

    fn judge(&mut self, items: &[Item], turn: usize) -> Result<(), Ended> {
        for (number, item) in items.iter().enumerate() {
            let (letter, digest) = item.judge().map_err(|error| self.ended("other", &error))?;
            let reduces_all = item.plan.collective == Collective::AllReduce;
            self.tell((self.step, turn, number), item.plan.comm, reduces_all, letter, digest)?;
        }
        Ok(())
    }

    fn tell(
        &mut self,
        place: (usize, usize, usize),
        comm: usize,
        reduces_all: bool,
        letter: Letter,
        digest: String,
    ) -> Result<(), Ended> {
        self.report.counted.add(letter);
        if self.plan.tells_results {
            let part = self.comms.at(comm).map_err(|error| self.ended("other", &error))?.part;
            self.report.results.push(Told { place, comm, part, reduces_all, letter, digest });
        }
        Ok(())
    }

    /// Each rank sends to the next and receives from the one before.
    fn pass_around(&mut self, place: usize, bytes: usize) -> Result<(), Ended> {
        let passed = self.passed(place, bytes).map_err(|error| self.ended("refused", &error))?;
        let Some((letter, digest, waited)) = passed else { return Ok(()) };
        match waited {
            Waited::Arrived => self.tell((self.step, 0, 0), place, false, letter, digest),
            Waited::Lost(code) => {
                let text = "a message was lost".to_owned();
                Err(Ended { step: self.step, how: "lost", code: Some(code), text })
            }
            Waited::Stuck => {
                let text = "a message neither came nor failed".to_owned();
                Err(Ended { step: self.step, how: "stuck", code: None, text })
            }
        }
    }

    fn passed(&self, place: usize, bytes: usize) -> Result<Option<(Letter, String, Waited)>, RankError> {
        let held = self.comms.at(place)?;
        let (rank, size) = (held.comm.rank, held.comm.size);
        if size < 2 {
            return Ok(None);
        }
        let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
        let content = |of: usize| input(DataType::UINT8, Reduction::Sum, size, of, 7 * self.step, bytes);
        let (sent, received) = (allocated(self.job, bytes)?, allocated(self.job, bytes)?);
        sent.write(0, &content(rank))?;
        self.job.gpu.synchronize()?;
        let (raw, stream) = (held.comm.raw(), held.stream.raw());
        self.job.group(|| {
            let byte = DataType::UINT8;
            invoke!(self.job.nccl, ncclSend(sent.at(0), bytes, byte, next as i32, raw, stream))?;
            invoke!(self.job.nccl, ncclRecv(received.at(0), bytes, byte, before as i32, raw, stream))
        })?;
        let waited = turns::await_streams(self, &[place], false)?;
        if !matches!(waited, Waited::Arrived) {
            std::mem::forget((sent, received));
            return Ok(Some((Letter::Wrong, String::new(), waited)));
        }
        let mut came = vec![0; bytes];
        received.read(0, &mut came)?;
        let mut digest = crate::digest::Digest::new();
        digest.add(&came);
        let letter = if came == content(before) { Letter::Exact } else { Letter::Wrong };
        Ok(Some((letter, digest.hex(), waited)))
    }

    fn ended(&self, how: &'static str, error: &RankError) -> Ended {
        Ended::by(self.step, how, error)
    }

    /// Ends what is left, as an error asks for.
    pub(super) fn into_report(mut self, ended: Option<Ended>) -> Report {
        if ended.is_some() {
            self.comms.abort_all(&mut self.report.counted);
        }
        self.report.ended = ended;
        self.report
    }
}
