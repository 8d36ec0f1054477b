//! Which elements of a call stand for all of it, and how far two results of them lie apart. Pure.

use airamp_codec::Element;
use half::{bf16, f16};

/// Runs of elements at most, spread over the call, and elements in each at most.
const RUNS: usize = 8;
const RUN: usize = 1024;
/// Bytes of a sample at most.
pub(crate) const SAMPLE_BYTES: usize = RUNS * RUN * 4;
/// What is read at once; a whole number of elements.
pub(crate) const WORD: usize = size_of::<u64>();

/// Elements `start .. start + elements` of the call, which lie from the element `place` on in the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) elements: usize,
    pub(crate) place: usize,
}

/// The sample of a call with so many elements: all of them if they fit, else the beginnings of equal parts.
pub(crate) fn runs(count: usize) -> impl Iterator<Item = Run> {
    let runs = count.div_ceil(RUN).min(RUNS);
    let start = move |run: usize| count / runs * run + count % runs * run / runs;
    (0..runs).map(move |run| Run {
        start: start(run),
        elements: RUN.min(start(run + 1) - start(run)),
        place: run * RUN,
    })
}

impl Run {
    /// The part that lies in `start .. start + elements`.
    pub(crate) fn within(self, start: usize, elements: usize) -> Option<Run> {
        let from = self.start.max(start);
        let to = (self.start + self.elements).min(start + elements);
        (from < to).then(|| Run { start: from, elements: to - from, place: self.place + from - self.start })
    }
}

/// Sums of squares over the elements that are finite in the exact result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Deviation {
    pub(crate) squared_error: f64,
    pub(crate) signal: f64,
}

impl Deviation {
    /// Compares the sampled elements of a call; `ours` and `exact` give the words of the samples by their offset in bytes.
    pub(crate) fn of(
        element: Element,
        count: usize,
        ours: impl Fn(usize) -> u64,
        exact: impl Fn(usize) -> u64,
    ) -> Self {
        let mut deviation = Self::default();
        for run in runs(count) {
            let (mut left, per_word) = (run.elements, WORD / element.size());
            for word in 0..run.elements.div_ceil(per_word) {
                let at = run.place * element.size() + word * WORD;
                let pairs = values(element, ours(at)).zip(values(element, exact(at)));
                pairs.take(left.min(per_word)).for_each(|(ours, exact)| deviation.add(ours, exact));
                left = left.saturating_sub(per_word);
            }
        }
        deviation
    }

    fn add(&mut self, ours: f64, exact: f64) {
        if !exact.is_finite() {
            return;
        }
        self.signal += exact * exact;
        // What is not a number here is as wrong as can be, and must not pass for it by a comparison.
        self.squared_error += if ours.is_finite() { (ours - exact).powi(2) } else { f64::INFINITY };
    }
}

/// The elements of a word, as the device's memory has them.
fn values(element: Element, word: u64) -> impl Iterator<Item = f64> {
    (0..WORD / element.size()).map(move |index| {
        let bits = word >> (index * element.size() * 8);
        match element {
            Element::F16 => f16::from_bits(bits as u16).to_f64(),
            Element::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            Element::F32 => f64::from(f32::from_bits(bits as u32)),
        }
    })
}

#[cfg(test)]
mod tests;
