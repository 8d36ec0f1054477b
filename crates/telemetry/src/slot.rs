//! A communicator's place in the file, from its making to its end. Each store is made only if the place still belongs
//! to who asks. Check and store are two steps: whoever closes a slot first waits for the calls on it (the
//! interposer's pins do), else a store that is under way could land with the next holder.

use crate::atomic::{AtomicU64, Ordering, Ordering::Relaxed};
use crate::guarded;
use crate::layout::{ARRIVALS, Communicator, FACT_WORDS, Issuing, MILESTONE, REASON_WORDS, SLOTS, Sums};
use crate::text::put_text;
use crate::writer::{Writer, add};
use crate::{AgreementState, CodecCounters, CommunicatorFacts, Deviation, Ended, PatternState, Ticks, now};

/// A communicator's place in the file. What it is told after `close` and reuse of the place is dropped.
#[derive(Clone, Copy)]
pub struct Slot {
    writer: Writer,
    held: &'static Communicator,
    generation: u64,
    index: u8,
}

impl Slot {
    pub(crate) fn open(writer: Writer, facts: &CommunicatorFacts) -> Option<Self> {
        let region = writer.region()?;
        // Others may take slots meanwhile; each failure means that one of them did.
        (0..SLOTS).find_map(|_| {
            let (index, generation) = choose(&region.communicators)?;
            let held = region.communicators.get(index)?;
            take(held, generation, facts)?;
            raise(&region.process.slots, index as u64 + 1);
            Some(Self { writer, held, generation: generation + 2, index: index as u8 })
        })
    }

    pub fn index(self) -> u8 {
        self.index
    }

    /// The slot as one word that is never 0, for `Writer::slot`.
    #[inline]
    pub fn bits(self) -> u64 {
        self.generation << 8 | u64::from(self.index)
    }

    #[inline]
    pub(crate) fn from_bits(writer: Writer, bits: u64) -> Option<Self> {
        let index = bits as u8;
        let held = writer.region()?.communicators.get(usize::from(index))?;
        if bits == 0 {
            return None;
        }
        Some(Self { writer, held, generation: bits >> 8, index })
    }

    #[inline]
    fn place(self) -> Option<&'static Communicator> {
        self.writer.region()?;
        if self.held.generation.load(Relaxed) != self.generation {
            return None;
        }
        Some(self.held)
    }

    /// What the threads that call collectives store, for the path of a call.
    pub fn issuing(self) -> &'static Issuing {
        &self.held.issuing
    }

    /// A thread goes into a vendor call on this communicator.
    #[inline]
    pub fn enter(self, at: Ticks) {
        let Some(place) = self.place() else { return };
        if place.issuing.inside.load(Relaxed) == 0 {
            place.issuing.inside_since.store(at.0, Relaxed);
        }
        place.issuing.inside_other.store(0, Relaxed);
        place.issuing.inside.fetch_add(1, Relaxed);
    }

    /// The same, and it is no collective: nobody waits there for all of the others.
    #[inline]
    pub fn enter_other(self, at: Ticks) {
        let Some(place) = self.place() else { return };
        if place.issuing.inside.load(Relaxed) == 0 {
            place.issuing.inside_since.store(at.0, Relaxed);
            place.issuing.inside_other.store(1, Relaxed);
        }
        place.issuing.inside.fetch_add(1, Relaxed);
    }

    #[inline]
    pub fn leave(self) {
        let Some(place) = self.place() else { return };
        match place.issuing.inside.fetch_sub(1, Relaxed) {
            0 => _ = place.issuing.inside.fetch_add(1, Relaxed),
            1 => place.issuing.inside_other.store(0, Relaxed),
            // Others are still inside, but something moves.
            _ => place.issuing.inside_since.store(now().0, Relaxed),
        }
    }

    /// For tests and made-up jobs; the library has a `Recipe`. `calls` collectives took effect; the sequence of the last of
    /// them, 0 if the slot is not ours any more.
    #[inline]
    pub fn issued(self, calls: u64, at: Ticks) -> u64 {
        let Some(place) = self.place() else { return 0 };
        let last = place.issuing.issued.fetch_add(calls, Relaxed).wrapping_add(calls);
        place.issuing.issued_at.store(at.0, Relaxed);
        arrive(&place.arrivals, last, 1, at);
        for back in 1..calls.min(ARRIVALS as u64) {
            arrive(&place.arrivals, last.wrapping_sub(back), 1, at);
        }
        if last % MILESTONE < calls {
            arrive(&place.milestones, last - last % MILESTONE, MILESTONE, at);
        }
        last
    }

    /// Everything up to `sequence` is seen to be done.
    #[inline]
    pub fn completed(self, sequence: u64, at: Ticks) {
        let Some(place) = self.place() else { return };
        if raise(&place.completing.completed, sequence) {
            place.completing.completed_at.store(at.0, Relaxed);
        }
    }

    /// An event was enqueued behind `sequence`.
    #[inline]
    pub fn pending(self, sequence: u64, at: Ticks) {
        let Some(place) = self.place() else { return };
        if raise(&place.completing.pending, sequence) {
            place.completing.pending_at.store(at.0, Relaxed);
        }
    }

    /// A pending event was asked for, and had not come yet.
    #[inline]
    pub fn polled(self, at: Ticks) {
        let Some(place) = self.place() else { return };
        place.completing.polled_at.store(at.0, Relaxed);
    }

    /// `reason` is cut at 64 bytes.
    pub fn agreement(self, state: AgreementState, reason: &str) {
        let Some(place) = self.place() else { return };
        let mut words = [0; 2 + REASON_WORDS];
        words[0] = state as u64;
        put_text(&mut words[1..], reason);
        guarded::replace(&place.agreement.version, &place.agreement.words, &words);
    }

    pub fn plan(self, index_from: u64, plan: &[u8; 64]) {
        let Some(place) = self.place() else { return };
        let mut words = [index_from; 9];
        for (word, bytes) in words[1..].iter_mut().zip(plan.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        guarded::replace(&place.plan.version, &place.plan.words, &words);
    }

    /// Sets the agreement's index.
    #[inline]
    pub fn all_reduces(self, index: u64) {
        let Some(place) = self.place() else { return };
        place.issuing.all_reduces.store(index, Relaxed);
    }

    /// Sets the arena's bytes.
    pub fn arena(self, bytes: u64) {
        let Some(place) = self.place() else { return };
        place.issuing.arena.store(bytes, Relaxed);
    }

    /// Sets the last measured error.
    pub fn accuracy(self, vnmse: f64) {
        let Some(place) = self.place() else { return };
        place.issuing.vnmse.store(!vnmse.to_bits(), Relaxed);
    }

    /// Adds.
    pub fn codec(self, counters: CodecCounters) {
        self.both(|sums| {
            add(&sums.saturated, counters.saturated);
            add(&sums.nonfinite, counters.nonfinite);
            add(&sums.foreign, counters.foreign);
            add(&sums.blocks, counters.blocks);
        });
    }

    /// Adds.
    pub fn codec_time(self, ns: u64, bytes: u64) {
        self.both(|sums| {
            add(&sums.codec_ns, ns);
            add(&sums.codec_bytes, bytes);
        });
    }

    /// Adds.
    #[inline]
    pub fn compressed(self, calls: u64) {
        self.both(|sums| add(&sums.compressed, calls));
    }

    /// Adds.
    #[inline]
    pub fn trials(self, calls: u64) {
        self.both(|sums| add(&sums.trials, calls));
    }

    /// Adds.
    pub fn ghosts(self, launches: u64) {
        self.both(|sums| add(&sums.ghosts, launches));
    }

    /// A call was not as the communicator's rhythm had foreseen it. Adds, also where its event is left out.
    #[inline]
    pub fn deviated(self, how: Deviation) {
        self.both(|sums| add(&sums.deviations[how as usize], 1));
    }

    /// Its steps became longer or shorter, and stay so. Adds.
    pub fn pace_changed(self) {
        self.both(|sums| add(&sums.pace_changes, 1));
    }

    /// To the communicator while it is ours, and to the process, whose sums outlive it, in any case.
    #[inline]
    fn both(self, adding: impl Fn(&Sums)) {
        let Some(region) = self.writer.region() else { return };
        adding(&region.process.sums);
        if let Some(place) = self.place() {
            adding(&place.sums);
        }
    }

    pub fn pattern(self, state: PatternState, confidence: f32, period_calls: u32, period_ns: u64, step: u64) {
        let Some(place) = self.place() else { return };
        let packed = u64::from(confidence.to_bits()) | u64::from(period_calls) << 32;
        let words = [state as u64, packed, period_ns, step];
        guarded::replace(&place.pattern.version, &place.pattern.words, &words);
    }

    pub fn poisoned(self, result: i32) {
        let Some(place) = self.place() else { return };
        place.poisoned.store(u64::from(result as u32), Relaxed);
    }

    /// The place may be given to another communicator from now on.
    pub fn close(self, how: Ended) {
        let Some(place) = self.place() else { return };
        place.ended_at.store(now().0.max(1), Relaxed);
        // Release: who takes the place over sees when it ended.
        place.ended.store(1 + how as u64, Ordering::Release);
    }
}

/// A slot that was never used, else the one that ended longest ago; with its generation.
fn choose(places: &[Communicator; SLOTS]) -> Option<(usize, u64)> {
    let candidates = places.iter().enumerate().filter_map(|(index, place)| {
        let generation = place.generation.load(Ordering::Acquire);
        let ended = place.ended.load(Ordering::Acquire) != 0;
        let since = if generation == 0 { 0 } else { place.ended_at.load(Relaxed) };
        (generation % 2 == 0 && (generation == 0 || ended)).then_some((since, index, generation))
    });
    candidates.min().map(|(_, index, generation)| (index, generation))
}

/// `None`: somebody else took it.
fn take(place: &Communicator, generation: u64, facts: &CommunicatorFacts) -> Option<()> {
    place.generation.compare_exchange(generation, generation + 1, Ordering::Acquire, Relaxed).ok()?;
    crate::atomic::fence(Ordering::Release);
    clear(place);
    for (word, value) in place.facts.iter().zip(words_of(facts, now())) {
        word.store(value, Relaxed);
    }
    place.generation.store(generation + 2, Ordering::Release);
    Some(())
}

/// Everything but the generation. The versions of guarded words stay, or go on to even: whoever wrote them is done.
fn clear(place: &Communicator) {
    let Communicator { issuing, completing, sums, agreement, plan, pattern, .. } = place;
    let issuing = [
        &issuing.issued,
        &issuing.issued_at,
        &issuing.inside,
        &issuing.inside_since,
        &issuing.all_reduces,
        &issuing.arena,
        &issuing.vnmse,
        &issuing.inside_other,
    ];
    let completing = [
        &completing.completed,
        &completing.completed_at,
        &completing.pending,
        &completing.pending_at,
        &completing.polled_at,
    ];
    let sums = [
        &sums.saturated,
        &sums.nonfinite,
        &sums.foreign,
        &sums.blocks,
        &sums.codec_ns,
        &sums.codec_bytes,
        &sums.compressed,
        &sums.trials,
        &sums.ghosts,
        &sums.pace_changes,
    ];
    let ended = [&place.ended, &place.ended_at, &place.poisoned];
    let arrivals = place.arrivals.iter().chain(&place.milestones).flat_map(|one| [&one.mixed, &one.at]);
    let deviations = &place.sums.deviations;
    let single =
        issuing.into_iter().chain(completing).chain(sums).chain(deviations).chain(ended).chain(arrivals);
    single.for_each(|word| word.store(0, Relaxed));
    guarded::replace(&agreement.version, &agreement.words, &[0; 2 + REASON_WORDS]);
    guarded::replace(&plan.version, &plan.words, &[0; 9]);
    guarded::replace(&pattern.version, &pattern.words, &[0; 4]);
}

fn words_of(facts: &CommunicatorFacts, opened: Ticks) -> [u64; FACT_WORDS] {
    let halves = |low: i32, high: i32| u64::from(low as u32) | u64::from(high as u32) << 32;
    let sixteen = |bytes: &[u8; 16]| {
        let (low, high) = (u128::from_le_bytes(*bytes) as u64, (u128::from_le_bytes(*bytes) >> 64) as u64);
        (low, high)
    };
    let (uuid, nic) = (sixteen(&facts.device_uuid), sixteen(&facts.nic));
    let small = i32::from(facts.origin) | i32::from(facts.vendor_index) << 8;
    [
        facts.name,
        facts.parent,
        halves(facts.rank, facts.ranks),
        halves(facts.device, small),
        uuid.0,
        uuid.1,
        nic.0,
        nic.1,
        opened.0,
    ]
}

#[inline]
fn arrive(ring: &[crate::layout::Arrival; ARRIVALS], sequence: u64, every: u64, at: Ticks) {
    let cell = &ring[(sequence / every) as usize % ARRIVALS];
    cell.mixed.store(sequence ^ at.0, Relaxed);
    cell.at.store(at.0, Relaxed);
}

/// Never lowers. Each failed attempt means that another thread raised it; after so many, theirs will do.
#[inline]
fn raise(cell: &AtomicU64, value: u64) -> bool {
    let mut before = cell.load(Relaxed);
    for _ in 0..64 {
        if before >= value {
            return false;
        }
        match cell.compare_exchange(before, value, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(found) => before = found,
        }
    }
    false
}
