//! What of the rhythm is wanted in this process, decided once by its settings. One load each.

use crate::dispatch::{GAPS_ARE_USED, attend_to};
use airamp_settings::{PatternEffects, Settings};
use std::sync::atomic::{AtomicU8, Ordering};

static WANTED: AtomicU8 = AtomicU8::new(0);

const PATTERN: u8 = 1;
const OUTLOOK: u8 = 2;
const PLANS: u8 = 4;
const SAMPLES: u8 = 8;
const CHUNKS: u8 = 16;

/// Called once, before the first communicator is made.
pub(crate) fn begin(settings: &Settings) {
    let PatternEffects { plans, samples, chunks } = settings.pattern_effects;
    let switches = [
        (PATTERN, true),
        // Nobody else asks for it.
        (OUTLOOK, settings.enable_ghost_kernels),
        (PLANS, plans),
        (SAMPLES, samples),
        (CHUNKS, chunks),
    ];
    let wanted = switches.into_iter().filter(|(_, wanted)| *wanted && settings.pattern);
    WANTED.store(wanted.map(|(bit, _)| bit).sum(), Ordering::Relaxed);
    if effects().outlook() {
        attend_to(GAPS_ARE_USED);
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Wanted(u8);

#[inline(always)]
pub(crate) fn effects() -> Wanted {
    Wanted(WANTED.load(Ordering::Relaxed))
}

impl Wanted {
    #[inline(always)]
    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    pub(super) fn pattern(self) -> bool {
        self.0 & PATTERN != 0
    }

    #[inline(always)]
    pub(super) fn outlook(self) -> bool {
        self.0 & OUTLOOK != 0
    }

    #[inline(always)]
    pub(crate) fn plans(self) -> bool {
        self.0 & PLANS != 0
    }

    #[inline(always)]
    pub(super) fn samples(self) -> bool {
        self.0 & SAMPLES != 0
    }

    pub(super) fn chunks(self) -> bool {
        self.0 & CHUNKS != 0
    }
}
