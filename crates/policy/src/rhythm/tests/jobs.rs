//! Made-up jobs: their calls with times. Every pause has a spread of its own, the same in every run.

use crate::rhythm::Beat;

pub(super) const ALL_REDUCE: u8 = 0;
const REDUCE_SCATTER: u8 = 3;
pub(super) const ALL_GATHER: u8 = 4;
pub(super) const BROADCAST: u8 = 5;
const FLOAT32: u8 = 7;
pub(super) const MS: u64 = 1_000_000;

/// Calls so far, and the time.
pub(super) struct Job {
    pub(super) beats: Vec<Beat>,
    now_ns: u64,
    jitter: f64,
    random: u64,
}

impl Job {
    /// `jitter`: the part of each pause by which it may be shorter or longer.
    pub(super) fn new(jitter: f64, seed: u64) -> Self {
        Self { beats: Vec::new(), now_ns: 5 * MS, jitter, random: seed.wrapping_mul(2).wrapping_add(1) }
    }

    pub(super) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Bell-shaped, so that a pause is seldom far off.
    pub(super) fn wait(&mut self, ns: u64) {
        let bell = (0..4).map(|_| (self.random() % 10_000) as f64 / 5_000.0 - 1.0).sum::<f64>() / 4.0;
        self.now_ns += (ns as f64 * (1.0 + bell * 2.0 * self.jitter)) as u64;
    }

    pub(super) fn call(&mut self, kind: u8, bytes: u64) {
        self.beats.push(Beat { kind, datatype: FLOAT32, bytes, at_ns: self.now_ns });
    }

    /// 30 ms of forward pass, then buckets of different sizes every 2 ms.
    pub(super) fn ddp_step(&mut self, buckets: u64) {
        self.wait(30 * MS);
        for bucket in 0..buckets {
            self.wait(2 * MS);
            self.call(ALL_REDUCE, 25_000_000 + 4096 * bucket);
        }
    }

    pub(super) fn ddp(&mut self, buckets: u64, steps: u64) {
        (0..steps).for_each(|_| self.ddp_step(buckets));
    }

    /// Parameters layer by layer forward and backward, gradients scattered on the way back.
    pub(super) fn fsdp_step(&mut self, layers: u64) {
        self.wait(10 * MS);
        self.call(ALL_GATHER, 8 << 20);
        for _ in 0..layers {
            self.wait(MS);
            self.call(ALL_GATHER, 4 << 20);
        }
        for _ in 0..layers {
            self.wait(2 * MS);
            self.call(ALL_GATHER, 4 << 20);
            self.wait(MS / 20);
            self.call(REDUCE_SCATTER, 8 << 20);
        }
        self.call(REDUCE_SCATTER, 16 << 20);
    }

    /// Two all-reduces per layer of as many rows as the batch has, and the logits where they are gathered.
    pub(super) fn decode_step(&mut self, layers: u64, batch: u64, logits: bool) {
        self.wait(3 * MS);
        for _ in 0..2 * layers {
            self.wait(MS / 10);
            self.call(ALL_REDUCE, batch * 8192);
        }
        if logits {
            self.wait(MS / 10);
            self.call(ALL_GATHER, batch * 32_000);
        }
    }
}
