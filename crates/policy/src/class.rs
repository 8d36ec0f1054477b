//! Classes of calls: datatype and order of magnitude. All calls of a class are decided together; a class has
//! one byte in the plan.

use crate::Element;

/// How many classes there are, and bytes of a plan that mean something.
pub const PLACES: usize = ELEMENTS.len() * SIZES;

const SIZES: usize = 16;
const ELEMENTS: [Element; 3] = [Element::F16, Element::Bf16, Element::F32];

/// The smallest size class ends where messages of 4 KiB begin.
const UNIT: u64 = 1 << 10;

/// More than any device holds; a count above it was not that of a call.
const MOST_ELEMENTS: u64 = 1 << 48;

/// AllReduce calls of one datatype whose bytes lie between two powers of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    element: Element,
    /// floor(log4(bytes / 1024)), between 0 and 15.
    size: u8,
}

impl Class {
    pub fn of(element: Element, count: u64) -> Self {
        let units = (count.saturating_mul(element.bytes()) / UNIT).max(1);
        let size = (units.ilog2() / 2).min(SIZES as u32 - 1);
        Self { element, size: size as u8 }
    }

    pub fn element(self) -> Element {
        self.element
    }

    pub fn size(self) -> u8 {
        self.size
    }

    /// Whether a call of so many elements is of this class, and possible at all.
    pub(crate) fn holds(self, count: u64) -> bool {
        (1..=MOST_ELEMENTS).contains(&count) && Self::of(self.element, count) == self
    }

    /// The byte of the plan, below `PLACES`, that belongs to this class.
    pub fn place(self) -> usize {
        self.element as usize * SIZES + usize::from(self.size)
    }

    pub fn from_place(place: usize) -> Option<Self> {
        let element = *ELEMENTS.get(place / SIZES)?;
        Some(Self { element, size: (place % SIZES) as u8 })
    }

    /// The fewest bytes of a call of this class, and the bytes from which on calls are of the next one.
    pub fn bytes(self) -> (u64, Option<u64>) {
        let bound = |size: u8| UNIT << (2 * u32::from(size));
        let least = if self.size == 0 { 0 } else { bound(self.size) };
        let next = (usize::from(self.size) + 1 < SIZES).then(|| bound(self.size + 1));
        (least, next)
    }

    pub fn datatype(self) -> &'static str {
        match self.element {
            Element::F16 => "float16",
            Element::Bf16 => "bfloat16",
            Element::F32 => "float32",
        }
    }
}
