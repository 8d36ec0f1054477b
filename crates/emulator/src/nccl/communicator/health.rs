//! Whether a communicator can be used, and if not, why. One lock, one condition.
//!
//! The first trouble wins and stays: later ones are its consequences. Everything that waits
//! on a communicator's behalf asks [`Health::interruption`] and so ends when somebody aborts it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use airamp_vendor_abi::nccl::NcclResult;

use crate::nccl::error::{NcclError, Outcome, announce};
use crate::nccl::lock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its members have not found each other yet.
    Forming,
    Ready,
    Finalized,
    Revoked,
    Destroyed,
    Aborted,
}

pub(crate) struct Health {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    /// Somebody has found the first trouble and is telling the others.
    claimed: bool,
    trouble: Option<NcclError>,
    /// Calls of a non-blocking communicator that go on in the background.
    background: usize,
}

impl Health {
    pub(crate) fn forming() -> Self {
        let state = State { phase: Phase::Forming, claimed: false, trouble: None, background: 0 };
        Self { state: state.into(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Moves on, but never back from an end.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Destroyed | Phase::Aborted) {
            state.phase = phase;
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn trouble(&self) -> Option<NcclError> {
        self.state().trouble.clone()
    }

    /// Whether this is the first trouble, which the caller then tells the other ranks and shows:
    /// in this order, since whoever sees a trouble may end the process. For the same reason a
    /// mistake of the application is announced here.
    pub(crate) fn claim(&self, error: &NcclError) -> bool {
        let mut state = self.state();
        let ended = matches!(state.phase, Phase::Destroyed | Phase::Aborted);
        if ended || std::mem::replace(&mut state.claimed, true) {
            return false;
        }
        if let NcclError::InvalidUsage(text) = error {
            announce(text);
        }
        true
    }

    /// Lets everybody see the trouble that was claimed.
    pub(crate) fn show(&self, error: NcclError) {
        self.state().trouble = Some(error);
        self.changed.notify_all();
    }

    /// What `ncclCommGetAsyncError` answers.
    pub(crate) fn async_error(&self) -> NcclResult {
        let state = self.state();
        match &state.trouble {
            // A revoked communicator is quiet by order, whatever troubled it before.
            _ if state.phase == Phase::Revoked => NcclResult::SUCCESS,
            Some(error) => error.result(),
            None if state.background > 0 || state.phase == Phase::Forming => NcclResult::IN_PROGRESS,
            None => NcclResult::SUCCESS,
        }
    }

    /// Whether a new call may use the communicator.
    pub(crate) fn usable(&self) -> Outcome {
        let state = self.state();
        match state.phase {
            Phase::Revoked => return Err(NcclError::InvalidUsage("the communicator was revoked".into())),
            Phase::Finalized => {
                return Err(NcclError::InvalidArgument("the communicator was finalized".into()));
            }
            Phase::Destroyed => {
                return Err(NcclError::InvalidArgument("the communicator was destroyed".into()));
            }
            Phase::Aborted => return Err(NcclError::Internal("the communicator was aborted".into())),
            Phase::Forming | Phase::Ready => {}
        }
        if let Some(trouble) = &state.trouble {
            return Err(trouble.clone());
        }
        if state.background > 0 || state.phase == Phase::Forming {
            let text = "the communicator was used before its previous operation was complete";
            return Err(NcclError::InvalidArgument(text.into()));
        }
        Ok(())
    }

    /// Whether questions about the communicator can be answered.
    pub(crate) fn readable(&self) -> Outcome {
        match self.phase() {
            Phase::Revoked | Phase::Finalized => Ok(()),
            _ => self.usable(),
        }
    }

    /// Whether children may still be made of it: a revoked communicator is there for that.
    pub(crate) fn can_be_parent(&self) -> Outcome {
        match self.phase() {
            Phase::Revoked => Ok(()),
            _ => self.usable(),
        }
    }

    /// An error once a wait for this communicator has no point any more.
    pub(crate) fn interruption(&self) -> Outcome {
        let state = self.state();
        match (state.phase, &state.trouble) {
            (Phase::Aborted | Phase::Destroyed, _) => {
                Err(NcclError::Internal("the communicator was aborted".into()))
            }
            (Phase::Revoked, _) => Err(NcclError::InvalidUsage("the communicator was revoked".into())),
            (_, Some(trouble)) => Err(trouble.clone()),
            _ => Ok(()),
        }
    }

    /// Sleeps, unless the communicator is interrupted.
    pub(crate) fn pause(&self, length: Duration) {
        let until = Instant::now() + length;
        while self.interruption().is_ok() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(self.state(), left.min(Duration::from_millis(50)));
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits for the control ring to say why a connection closed.
    pub(crate) fn explanation(&self, patience: Duration) -> Option<NcclError> {
        let state = self.state();
        let unexplained = |state: &mut State| state.trouble.is_none() && state.phase == Phase::Ready;
        let waited = self.changed.wait_timeout_while(state, patience, unexplained);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.trouble.clone()
    }

    pub(crate) fn begin_background(&self) {
        self.state().background += 1;
    }

    pub(crate) fn end_background(&self) {
        self.state().background -= 1;
        self.changed.notify_all();
    }

    /// Waits until nothing goes on in the background.
    pub(crate) fn settle(&self) {
        let busy = |state: &mut State| state.background > 0;
        drop(self.changed.wait_while(self.state(), busy).unwrap_or_else(PoisonError::into_inner));
    }
}
