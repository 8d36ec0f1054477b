//! A communicator's seat in the agreement of its ranks: taken before the vendor makes the communicator, or
//! straight after for one made from another, and kept until it ends, since its children come to the agreement
//! through it. Whether a call is compressed is the gate's business, and the call's.

use super::patience;
use crate::communicators::Known;
use airamp_agreement::{Gate, LAST_INDEX};
use airamp_control::{Invitation, Seat};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Tells how many calls were made.
pub(super) type Reserved = Box<dyn Fn() -> u64 + Send>;

pub(crate) struct Seated {
    /// Or why there is none, so that the communicator is the vendor's alone.
    seat: Result<Seat, String>,
    /// Where its ranks are to meet.
    host: Option<IpAddr>,
    gate: Arc<Gate>,
    /// The communicator, once it is made.
    of: Arc<OnceLock<Known>>,
    /// The words of this rank did not reach anybody in time.
    is_unheard: AtomicBool,
    /// Creation is over, so that no thread waits for the seat any more.
    is_settled: AtomicBool,
}

impl Seated {
    /// Takes the seat that `join` gives for a gate, and for who tells how many calls were made.
    pub(super) fn take(
        doubt: Duration,
        join: impl FnOnce(Arc<Gate>, Reserved) -> Result<Seat, String>,
    ) -> Self {
        // Every wait at the gate ends by the agreement's own deadline, unless its thread is gone.
        let gate = Arc::new(Gate::with_longest_wait(2 * doubt));
        let of = Arc::new(OnceLock::<Known>::new());
        let counted = Arc::clone(&of);
        let seat = join(Arc::clone(&gate), Box::new(move || reserved(counted.get())));
        let (is_unheard, is_settled) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { seat, host: None, gate, of, is_unheard, is_settled }
    }

    pub(super) fn meeting_at(self, host: IpAddr) -> Self {
        Self { host: Some(host), ..self }
    }

    pub(super) fn without(reason: &str) -> Self {
        Self::take(Duration::ZERO, |_, _| Err(reason.to_owned()))
    }

    /// The vendor has made the communicator. Where it has ended already its peers are not to wait for this rank.
    pub(crate) fn belongs_to(self: Arc<Self>, known: Known) {
        let _ = self.of.set(known);
        if !known.sit_down(Arc::clone(&self)) {
            self.end();
        }
    }

    /// Waits until this rank's Hello is on its way, so long at most from then on. Once the vendor's init has returned
    /// everybody who takes part has said it, so it must come first.
    pub(super) fn await_hello(&self, from: Instant, longest: Duration) {
        let Ok(seat) = &self.seat else { return };
        let patience = self.host.map_or(longest, |host| patience::with(host, longest));
        let is_heard = seat.wait_until_hello_is_sent(from + patience);
        // With news it was turned down: the host has answered, and the seat knows why.
        if !is_heard && seat.has_news() {
            return;
        }
        if let Some(host) = self.host {
            patience::learn(host, is_heard);
        }
        if !is_heard {
            self.is_unheard.store(true, Ordering::SeqCst);
            seat.end();
        }
    }

    pub(super) fn seat(&self) -> Result<&Seat, &str> {
        if self.is_unheard.load(Ordering::SeqCst) {
            return Err("the process that made the id could not be reached in time");
        }
        self.seat.as_ref().map_err(String::as_str)
    }

    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Where the ranks of a communicator that is made from this one meet.
    pub(super) fn child(&self, clique: u64) -> Option<Invitation> {
        self.seat().ok()?.child(clique)
    }

    pub(super) fn settled(&self) {
        self.is_settled.store(true, Ordering::SeqCst);
    }

    /// The communicator is about to end: whoever waits for its ranks stops waiting. Should the vendor refuse to
    /// end it, its calls go on under the plan that they had, and this rank pledges no other.
    pub(crate) fn wake(&self) {
        self.gate.end();
        if let (Ok(seat), false) = (&self.seat, self.is_settled.load(Ordering::SeqCst)) {
            seat.end();
        }
    }

    pub(crate) fn end(&self) {
        self.gate.end();
        if let Ok(seat) = &self.seat {
            seat.end();
        }
    }
}

/// The lowest index that can be pledged. One whose calls are not counted has none, and pledges nothing.
fn reserved(of: Option<&Known>) -> u64 {
    of.map_or(0, |known| known.entry.index.free_from(known.generation).unwrap_or(LAST_INDEX))
}

/// A seat in the hands of the one call that makes its communicator.
#[derive(Clone, Copy)]
pub(crate) struct Joining(*const Seated);

impl Joining {
    pub(super) fn new(seated: Seated) -> Self {
        Self(Arc::into_raw(Arc::new(seated)))
    }

    /// # Safety
    /// Once only.
    pub(crate) unsafe fn into_seated(self) -> Arc<Seated> {
        // SAFETY: it came from an `Arc`, and by the caller's word nobody has taken it back yet.
        unsafe { Arc::from_raw(self.0) }
    }
}

/// The communicator has ended, or was never made: its rank leaves the agreement.
pub(crate) fn leave(known: Known) {
    if let Some(seated) = known.stand_up() {
        seated.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clique::Clique;
    use crate::communicators::{Facts, Origin, insert};
    use crate::compression::brain;
    use airamp_agreement::{GateError, Hello};
    use airamp_control::{Hub, Log, Options, Timeouts};

    const FACTS: Facts = Facts {
        origin: Origin::Created,
        vendor: 0,
        rank: 1,
        nranks: 4,
        blocking: true,
        clique: Clique::UNKNOWN,
        parent: Clique::UNKNOWN,
        lends: false,
    };

    fn seated_at(address: usize) -> (Known, Arc<Seated>) {
        let known = insert(address, &FACTS).unwrap();
        let seated = Arc::new(Seated::take(Duration::from_secs(60), |_, _| Err("a test".into())));
        Arc::clone(&seated).belongs_to(known);
        (known, seated)
    }

    #[test]
    fn a_seat_stays_with_its_communicator_until_it_leaves() {
        let (known, seated) = seated_at(0x7100_0000);
        assert!(Arc::ptr_eq(&known.seat().unwrap(), &seated));
        leave(known);
        assert!(known.seat().is_none());
        assert_eq!(Arc::strong_count(&seated), 1);
        known.forget();
    }

    /// As by a watchdog, while its creation is about to return: nobody would take away again what it gets now.
    #[test]
    fn a_communicator_that_has_ended_meanwhile_gets_no_seat() {
        let known = insert(0x7500_0000, &FACTS).unwrap();
        known.forget();
        let seated = Arc::new(Seated::without("a test"));
        Arc::clone(&seated).belongs_to(known);
        assert!(known.seat().is_none());
        assert_eq!(Arc::strong_count(&seated), 1);
        assert_eq!(seated.gate().try_pledge(0, || 0), Err(0), "it pledges nothing");
    }

    #[test]
    fn a_host_that_turns_a_rank_down_has_answered_however_long_others_of_the_group_have_waited() {
        const LONGEST: Duration = Duration::from_secs(5);
        let host: IpAddr = "192.0.2.77".parse().unwrap();
        let timeouts = Timeouts { consensus: LONGEST, doubt: LONGEST };
        let log = Log { warn: |_| {}, info: |_| {}, debug: |_| {} };
        let hub = Hub::start(Options::new(timeouts, "", log)).unwrap();
        // Nobody made this one.
        let nobodys = Invitation { address: ([127, 0, 0, 1], 0).into(), token: [7; 16], clique: 0 };
        let seated = Seated::take(LONGEST, |gate, reserved| {
            let hello = Hello { rank: 1, ranks: 2, terms: Vec::new() };
            Ok(hub.join(&nobodys, hello, gate, reserved, Box::new(brain::tests::of_rank(1))))
        });
        let seat = seated.seat().unwrap().clone();
        seat.wait_until_hello_is_sent(Instant::now() + LONGEST);
        assert!(seat.has_news());
        let began = Instant::now().checked_sub(2 * LONGEST).unwrap();
        seated.meeting_at(host).await_hello(began, LONGEST);
        assert_eq!(patience::with(host, LONGEST), LONGEST);
    }

    #[test]
    fn a_late_thread_does_not_find_the_seat_of_the_next_communicator_at_the_address() {
        let (old, first) = seated_at(0x7200_0000);
        let new = insert(0x7200_0000, &FACTS).unwrap();
        assert!(old.seat().is_none());
        leave(new);
        assert_eq!(Arc::strong_count(&first), 1, "what the old one had is given up");
        Arc::new(Seated::without("a test")).belongs_to(new);
        leave(old);
        assert!(new.seat().is_some());
        leave(new);
        new.forget();
    }

    #[test]
    fn a_rank_counts_its_own_calls_and_pledges_nothing_when_they_are_no_longer_counted() {
        let (known, seated) = seated_at(0x7300_0000);
        assert_eq!(reserved(None), 0);
        known.entry.index.reserve(known.generation);
        assert_eq!(reserved(seated.of.get()), 1);
        known.stop_counting();
        assert_eq!(reserved(seated.of.get()), LAST_INDEX);
        leave(known);
        known.forget();
    }

    #[test]
    fn the_end_of_a_communicator_wakes_who_waits_at_its_gate() {
        let (known, seated) = seated_at(0x7400_0000);
        known.entry.index.reserve(known.generation);
        let gate = Arc::clone(seated.gate());
        gate.try_pledge(1, || 1).unwrap();
        let waiting = std::thread::spawn(move || gate.entry(1, 0));
        assert!(known.begin_end());
        assert_eq!(waiting.join().unwrap(), Err(GateError::Ended));
        known.cancel_end();
        assert_eq!(seated.gate().entry(0, 0), Ok(0), "a call below what was pledged passes");
        leave(known);
        known.forget();
    }
}
