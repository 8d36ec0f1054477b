//! Tuning that outlives a job: what was decided, by what it depends on (ranks, hosts, hardware, versions,
//! settings). Text in and out; who reads and writes the file is not decided here. A cache that is not exactly
//! as this version writes it is ignored, with the reason.

mod text;

use crate::believable::time;
use crate::class::{Class, PLACES};
use crate::entry::{Entry, Plan, VARIANTS};

pub const VERSION: i64 = 1;
/// A longer text is no tuning cache.
pub const LONGEST_TEXT: usize = 1 << 20;
/// The oldest go when there are more.
pub const MOST_TUNINGS: usize = 64;

/// The text of a cache with this body: with its head, and with the sum by which damage is seen.
pub use text::seal;

/// All tunings of a cache, the newest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cache {
    tunings: Vec<Tuning>,
}

/// What was decided for one kind of communicator: at least one class, each once, in the order of their places.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    key: u64,
    classes: Vec<CachedClass>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CachedClass {
    pub place: usize,
    /// `None`: the vendor's.
    pub variant: Option<u8>,
    /// Only the leader has the numbers.
    pub figure: Option<Figure>,
}

/// What a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub count: u64,
    pub ours_us: f64,
    pub vendor_us: f64,
    pub vnmse: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    #[error("it is larger than {LONGEST_TEXT} bytes")]
    TooLarge,
    #[error("its version is {0}, not {VERSION}")]
    Version(i64),
    #[error("it is damaged: {0}")]
    Damaged(String),
}

/// The key of a communicator: equal where all of these are equal, names and values, in this order.
pub fn key(terms: &[(&str, &str)]) -> u64 {
    let mut hash = Hash::default();
    for text in terms.iter().flat_map(|(name, value)| [name, value]) {
        hash.add(&(text.len() as u64).to_le_bytes());
        hash.add(text.as_bytes());
    }
    hash.0
}

impl Cache {
    pub fn parse(text: &str) -> Result<Self, CacheError> {
        text::parse(text)
    }

    pub fn to_text(&self) -> String {
        text::write(&self.tunings)
    }

    pub fn get(&self, key: u64) -> Option<&Tuning> {
        self.tunings.iter().find(|tuning| tuning.key == key)
    }

    /// In place of the tuning with the same key.
    pub fn insert(&mut self, tuning: Tuning) {
        self.tunings.retain(|kept| kept.key != tuning.key);
        self.tunings.push(tuning);
        let too_many = self.tunings.len().saturating_sub(MOST_TUNINGS);
        self.tunings.drain(..too_many);
    }

    /// For `Capable`: key and hash of every tuning.
    pub fn hashes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.tunings.iter().map(|tuning| (tuning.key, tuning.hash()))
    }
}

impl Tuning {
    /// `None` if there is no class, or not each once in the order of the places, or one that no plan can hold.
    pub(crate) fn new(key: u64, classes: Vec<CachedClass>) -> Option<Self> {
        let in_order = classes.windows(2).all(|pair| pair[0].place < pair[1].place);
        let usable = !classes.is_empty() && in_order && classes.iter().all(CachedClass::is_usable);
        usable.then_some(Self { key, classes })
    }

    /// From an agreed plan, on any rank: the classes that are settled in it. `None`: there is none.
    pub fn of_plan(key: u64, plan: &Plan) -> Option<Self> {
        let settled = |(place, byte): (usize, &u8)| match Entry::from_byte(*byte) {
            Entry::Compressed { variant } => {
                Some(CachedClass { place, variant: Some(variant), figure: None })
            }
            Entry::Vendor { settled: true } => Some(CachedClass { place, variant: None, figure: None }),
            Entry::Vendor { settled: false } | Entry::Trial { .. } => None,
        };
        Self::new(key, plan.iter().take(PLACES).enumerate().filter_map(settled).collect())
    }

    pub fn key(&self) -> u64 {
        self.key
    }

    pub fn classes(&self) -> &[CachedClass] {
        &self.classes
    }

    /// Equal where the decisions are equal; the numbers behind them do not matter.
    pub fn hash(&self) -> u64 {
        let mut hash = Hash::default();
        for class in &self.classes {
            hash.add(&[class.place as u8, class.entry().byte()]);
        }
        hash.0
    }
}

impl CachedClass {
    fn entry(&self) -> Entry {
        self.variant.map_or(Entry::Vendor { settled: true }, |variant| Entry::Compressed { variant })
    }

    fn is_usable(&self) -> bool {
        let Some(class) = Class::from_place(self.place) else { return false };
        self.variant.is_none_or(|variant| variant < VARIANTS)
            && self.figure.is_none_or(|figure| figure.is_usable() && class.holds(figure.count))
    }
}

impl Figure {
    pub fn speedup(&self) -> f64 {
        self.vendor_us / self.ours_us
    }

    fn is_usable(&self) -> bool {
        time(self.ours_us).is_some() && time(self.vendor_us).is_some() && self.vnmse >= 0.0
    }
}

/// FNV-1a: the same on every machine and in every version.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
