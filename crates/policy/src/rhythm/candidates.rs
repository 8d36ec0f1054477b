//! Distances at which a sequence of calls may repeat. A distance is taken up when the last few calls came in the same
//! order before, and dropped at the first call that does not come again. A handful is followed at a time.

use super::learner::{DEPTH, Found, LAYER, LONGEST};
use super::mark::Mark;
use super::pauses::PAUSE;

/// Calls in the same order that make a distance worth following.
const WORD: u32 = 4;
const PLACES: usize = 4;
const TABLE: usize = 1024;
/// Distances below this are those of layers rather than of steps: how long they held before they broke is remembered.
const SHORT: usize = 9;

#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) lag: u32,
    /// Calls in a row that came again.
    run: u32,
    /// Those of them whose pause came again, too.
    even: u32,
    span_ns: f32,
    longest_ns: f32,
}

impl Candidate {
    const NONE: Self = Self { lag: 0, run: 0, even: 0, span_ns: 0.0, longest_ns: 0.0 };

    pub(super) fn is_even(&self) -> bool {
        u64::from(self.even) * 2 >= u64::from(self.run)
    }

    /// But for the first of them, before which was something else.
    pub(super) fn is_all_even(&self) -> bool {
        self.even + 1 >= self.run
    }

    /// Its calls are not divided by pauses.
    pub(super) fn is_steady(&self) -> bool {
        self.longest_ns * self.run as f32 <= self.span_ns * PAUSE
    }

    pub(super) fn period_ns(&self) -> f32 {
        self.span_ns / self.run.max(1) as f32 * self.lag as f32
    }

    /// Between two of its calls, in the mean.
    pub(super) fn pause_ns(&self) -> f32 {
        self.span_ns / self.run.max(1) as f32
    }

    fn follow(&mut self, now: &Mark, before: &Mark) {
        self.run = self.run.saturating_add(1);
        self.even += u32::from(alike(now.gap_ns, before.gap_ns));
        self.span_ns += now.gap_ns;
        self.longest_ns = self.longest_ns.max(now.gap_ns);
    }
}

/// Two pauses that differ by less than a third of the longer one.
fn alike(one: f32, other: f32) -> bool {
    (one - other).abs() * 3.0 <= one.max(other)
}

/// The distances of one way to look at calls.
pub(super) struct Candidates {
    with_bytes: bool,
    followed: [Candidate; PLACES],
    /// By the last few calls: the number of the call at which they were heard last, counted from 1.
    last_heard: [u32; TABLE],
    broken: [u32; SHORT],
}

impl Candidates {
    pub(super) const fn new(with_bytes: bool) -> Self {
        Self { with_bytes, followed: [Candidate::NONE; PLACES], last_heard: [0; TABLE], broken: [0; SHORT] }
    }

    pub(super) fn clear(&mut self) {
        self.followed = [Candidate::NONE; PLACES];
    }

    /// The ring's last call is its `heard`th, and the last `known` of it count.
    pub(super) fn hear(&mut self, ring: &[Mark; DEPTH], heard: u32, known: u32) {
        let at = |number: u32| &ring[number.wrapping_sub(1) as usize % DEPTH];
        let with_bytes = self.with_bytes;
        let same = |one: &Mark, other: &Mark| {
            if with_bytes { one.key.same(other.key) } else { one.key.same_sort(other.key) }
        };
        for candidate in self.followed.iter_mut().filter(|candidate| candidate.lag > 0) {
            let (now, before) = (at(heard), at(heard - candidate.lag));
            if same(now, before) {
                candidate.follow(now, before);
            } else {
                remember(&mut self.broken, candidate);
                *candidate = Candidate::NONE;
            }
        }
        if known < WORD {
            return;
        }
        let word = (0..WORD).fold(0_u64, |word, ago| {
            (word.rotate_left(7) ^ at(heard - ago).key.mixed(with_bytes)).wrapping_mul(0xff51_afd7_ed55_8ccd)
        });
        let last = std::mem::replace(&mut self.last_heard[(word >> 54) as usize % TABLE], heard);
        let lag = heard.wrapping_sub(last);
        let remembered = last != 0 && lag as usize <= LONGEST && lag + WORD <= known;
        if remembered && (0..WORD).all(|ago| same(at(heard - ago), at(last - ago))) {
            self.take_up(lag, (0..WORD).map(|ago| (at(heard - ago), at(last - ago))));
        }
    }

    fn take_up<'a>(&mut self, lag: u32, word: impl Iterator<Item = (&'a Mark, &'a Mark)>) {
        if self.followed.iter().any(|candidate| candidate.lag == lag) {
            return;
        }
        let mut candidate = Candidate { lag, ..Candidate::NONE };
        word.for_each(|(now, before)| candidate.follow(now, before));
        if let Some(weakest) = self.followed.iter_mut().min_by_key(|candidate| candidate.run) {
            *weakest = candidate;
        }
    }

    /// A pause came where calls had followed each other evenly. It broke what is a call or two long, though these come
    /// again: counted with it they would never be steady.
    pub(super) fn break_layers(&mut self) {
        for candidate in self.followed.iter_mut().filter(|candidate| (1..=LAYER).contains(&candidate.lag)) {
            remember(&mut self.broken, candidate);
            *candidate = Candidate { lag: candidate.lag, ..Candidate::NONE };
        }
    }

    /// The shortest that has held as long as is needed, and longer than it did when it broke.
    pub(super) fn best(&self, needed: impl Fn(&Candidate) -> u32) -> Option<Found> {
        let broken = |candidate: &Candidate| self.broken.get(candidate.lag as usize).copied().unwrap_or(0);
        self.followed
            .iter()
            .filter(|candidate| candidate.lag > 0 && candidate.run >= needed(candidate))
            .filter(|candidate| candidate.run > broken(candidate).saturating_mul(2))
            .min_by_key(|candidate| candidate.lag)
            .map(|candidate| Found {
                calls: candidate.lag,
                run: candidate.run,
                by_pauses: false,
                provisional: false,
            })
    }
}

/// A little is forgotten each time, so that a job that changes is not held to what it did before.
fn remember(broken: &mut [u32; SHORT], candidate: &Candidate) {
    if let Some(longest) = broken.get_mut(candidate.lag as usize) {
        *longest = candidate.run.max(*longest - *longest / 8);
    }
}
