//! From measured times to the model's costs: first alpha and beta of everything by least squares over all numbers of ranks
//! and links together, then what they leave over as a slowdown that changes with the size. Called for files that the user
//! names, and by `held_out`, which shows it less than there is.

use serde::{Deserialize, Serialize};

use crate::SHIPPED_FIT;
use crate::foreign::{is_line, is_name, short};
use crate::held_out::{Errors, held_out};
use crate::least_squares::{Found, Unknown, refine, search};
use crate::measured::{Measured, Point, SIDES, Side};
use crate::model::{OurCosts, OurFacts, VendorCosts, VendorFacts};
use crate::slowdown::{Asked, Seen, Slowdown};

/// Smaller calls are never compressed, and NCCL carries them by other protocols.
const LEAST_BYTES: usize = 64 << 10;
/// A shaped link passes a burst at once. Calls of fewer bursts than this do not tell its rate.
const LEAST_BURSTS: f64 = 6.0;
/// Fewer times than this say nothing about the costs.
const LEAST_POINTS: usize = 8;

/// The costs, and what they were found from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The version of this file.
    airamp_plan_fit: u32,
    pub source: String,
    pub scope: Scope,
    pub(crate) vendor: VendorCosts,
    pub(crate) ours: OurCosts,
    pub(crate) vendor_slowdown: Slowdown,
    pub(crate) our_slowdown: Slowdown,
    pub errors: Errors,
}

const FIT_VERSION: u32 = 3;

/// What was measured; anything beyond is extrapolated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    pub points: usize,
    pub emulated: bool,
    pub ranks: Vec<usize>,
    pub datatypes: Vec<String>,
    pub least_bytes: usize,
    pub most_bytes: usize,
    /// Of the links with a rate; none if there was none.
    pub gbps: Option<[f64; 2]>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Costs {
    pub(crate) vendor: VendorCosts,
    pub(crate) ours: OurCosts,
    pub(crate) vendor_slowdown: Slowdown,
    pub(crate) our_slowdown: Slowdown,
}

/// A point with its facts, which are the same however often the costs change.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) point: &'a Point,
    /// The times that the fit is shown.
    vendor_us: f64,
    ours_us: f64,
    vendor: VendorFacts,
    ours: OurFacts,
    /// Whether the call had to wait for its link.
    vendor_is_felt: bool,
    ours_is_felt: bool,
}

impl Known<'_> {
    fn asked(&self, side: Side) -> Asked {
        let Point { ranks, element_bytes, .. } = *self.point;
        Asked { ranks, element_bytes, size: self.point.size(side) }
    }

    pub(crate) fn is_felt(&self, side: Side) -> bool {
        match side {
            Side::Vendor => self.vendor_is_felt,
            Side::Ours => self.ours_is_felt,
        }
    }
}

impl Fit {
    pub fn of(measured: &Measured) -> Result<Self, String> {
        let used = measured.points.iter().filter(|point| point.bytes >= LEAST_BYTES);
        let points: &[Point] = &used.cloned().collect::<Vec<_>>();
        let known: Vec<Known<'_>> = points.iter().filter_map(known).collect();
        let costs = costs(&known)?;
        let fit = Self {
            airamp_plan_fit: FIT_VERSION,
            source: measured.source.clone(),
            scope: Scope::of(points),
            vendor: costs.vendor,
            ours: costs.ours,
            vendor_slowdown: costs.vendor_slowdown.clone(),
            our_slowdown: costs.our_slowdown.clone(),
            errors: held_out(&known, &costs),
        };
        fit.checked().map_err(|why| format!("the measured times give no fit: {why}"))
    }

    /// Of one H200.
    pub fn built_in() -> Result<Self, String> {
        Self::from_text(SHIPPED_FIT).map_err(|error| format!("the fit that is built in: {error}"))
    }

    /// As `--save` writes it.
    pub fn to_text(&self) -> String {
        // Plain numbers and text always serialise.
        format!("{:#}\n", serde_json::to_value(self).unwrap_or_default())
    }

    pub fn from_text(text: &str) -> Result<Self, String> {
        let version = |text: &str| -> Option<u64> {
            serde_json::from_str::<serde_json::Value>(text).ok()?.get("airamp_plan_fit")?.as_u64()
        };
        match version(text) {
            Some(other) if other != u64::from(FIT_VERSION) => {
                Err(format!("a fit of version {other}; this airamp reads {FIT_VERSION}: make it again"))
            }
            _ => Self::whole(text).map_err(|why| format!("not a saved fit: {why}")),
        }
    }

    fn whole(text: &str) -> Result<Self, String> {
        serde_json::from_str::<Self>(text).map_err(short)?.checked()
    }

    /// What is saved, and what is read again.
    fn checked(self) -> Result<Self, String> {
        if !self.vendor_slowdown.is_whole() || !self.our_slowdown.is_whole() {
            return Err(
                "a slowdown without a factor for each of its sizes, or with one that cannot be".into()
            );
        }
        if !are_possible(vendor_values(&self.vendor), vendor_unknowns(PER_BYTE))
            || !are_possible(our_values(&self.ours), our_unknowns(PER_BYTE, PER_BYTE))
        {
            return Err("a cost that cannot be".into());
        }
        let is_rate = |[least, most]: [f64; 2]| least > 0.0 && least <= most;
        let are_names = self.scope.datatypes.iter().all(|name| is_name(name)) && is_line(&self.source);
        if !self.errors.are_whole() || !self.scope.gbps.is_none_or(is_rate) || !are_names {
            return Err("a scope or errors that cannot be".into());
        }
        Ok(self)
    }
}

impl Scope {
    fn of(points: &[Point]) -> Self {
        let sizes = || points.iter().map(|point| point.bytes);
        let rates = || points.iter().filter_map(|point| point.gbps);
        let least = rates().fold(f64::INFINITY, f64::min);
        let most = rates().fold(0.0, f64::max);
        Self {
            points: points.len(),
            emulated: points.iter().any(|point| point.emulated),
            ranks: sorted(points.iter().map(|point| point.ranks)),
            datatypes: sorted(points.iter().map(|point| point.datatype.clone())),
            least_bytes: sizes().min().unwrap_or(0),
            most_bytes: sizes().max().unwrap_or(0),
            gbps: (most > 0.0).then_some([least, most]),
        }
    }
}

/// The costs under which the model comes closest to the points.
pub(crate) fn costs(known: &[Known<'_>]) -> Result<Costs, String> {
    if known.len() < LEAST_POINTS {
        return Err(format!("{} measured times are too few for a fit: {LEAST_POINTS} at least", known.len()));
    }
    let mut costs = Costs {
        vendor: vendor_costs(known, None),
        ours: our_costs(known, None),
        vendor_slowdown: Slowdown::none(),
        our_slowdown: Slowdown::none(),
    };
    costs.vendor_slowdown = slowdown(known, &costs, Side::Vendor);
    costs.our_slowdown = slowdown(known, &costs, Side::Ours);
    Ok(costs)
}

/// One side of the costs for other points of the same machine, from where the search for all of them ended.
pub(crate) fn refitted(known: &[Known<'_>], all: &Costs, side: Side) -> Costs {
    let mut costs = all.clone();
    match side {
        Side::Vendor => {
            costs.vendor = vendor_costs(known, Some(&all.vendor));
            costs.vendor_slowdown = slowdown(known, &costs, side);
        }
        Side::Ours => {
            costs.ours = our_costs(known, Some(&all.ours));
            costs.our_slowdown = slowdown(known, &costs, side);
        }
    }
    costs
}

impl Costs {
    pub(crate) fn predict_us(&self, of: &Known<'_>, side: Side) -> f64 {
        let asked = of.asked(side);
        match side {
            Side::Vendor => self.stretched_us(of, side, vendor_slowdown(&self.vendor_slowdown, &asked)),
            Side::Ours => self.stretched_us(of, side, our_slowdown(&self.our_slowdown, &asked)),
        }
    }

    fn stretched_us(&self, of: &Known<'_>, side: Side, slowdown: f64) -> f64 {
        match side {
            Side::Vendor => self.vendor.predict(&of.vendor, slowdown).total_us,
            Side::Ours => self.ours.predict(&of.ours, slowdown).total_us,
        }
    }
}

/// Of the vendor's AllReduce; its size is in bytes.
pub(crate) fn vendor_slowdown(of: &Slowdown, asked: &Asked) -> f64 {
    of.at(asked, |_| true)
}

/// Of ours; its size is in elements. Two ranks exchange once, more of them twice.
pub(crate) fn our_slowdown(of: &Slowdown, asked: &Asked) -> f64 {
    of.at(asked, |other| (other == 2) == (asked.ranks == 2))
}

fn slowdown(known: &[Known<'_>], costs: &Costs, side: Side) -> Slowdown {
    const SMALL: f64 = 0.01;
    let seen = |of: &Known<'_>| {
        let plain = costs.stretched_us(of, side, 1.0);
        let measured = if side == Side::Vendor { of.vendor_us } else { of.ours_us };
        Seen {
            ranks: of.point.ranks,
            element_bytes: of.point.element_bytes,
            size: of.point.size(side),
            off: (measured / plain).ln(),
            share: (costs.stretched_us(of, side, 1.0 + SMALL) / plain).ln() / SMALL.ln_1p(),
        }
    };
    let felt: Vec<Seen> = known.iter().filter(|of| of.is_felt(side)).map(seen).collect();
    Slowdown::of(&felt)
}

/// None where such a tensor cannot be compressed.
pub(crate) fn known(point: &Point) -> Option<Known<'_>> {
    let place = point.place();
    let elements = point.bytes / point.element_bytes;
    let ours = OurFacts::new(elements, point.element_bytes, point.arena_bytes, &place).ok()?;
    let vendor = VendorFacts::new(point.bytes as f64, point.element_bytes as f64, 2, &place);
    let felt = |wire_us: f64| wire_us == 0.0 || wire_us >= LEAST_BURSTS * point.burst_us();
    let (vendor_is_felt, ours_is_felt) = (felt(vendor.wire_us), felt(ours.wire_us));
    let [vendor_us, ours_us] = SIDES.map(|side| point.typical_us(side));
    Some(Known { point, vendor_us, ours_us, vendor, ours, vendor_is_felt, ours_is_felt })
}

const fn unknown(start: f64, least: f64, most: f64) -> Unknown {
    Unknown { start, least, most }
}
/// A time of a call or of a part of it, in microseconds.
const TIME: Unknown = unknown(10.0, 1e-3, 1e6);
/// Microseconds per byte: from a terabyte per microsecond down to 10 kB.
const PER_BYTE: Unknown = unknown(2e-4, 1e-9, 1e2);
/// Kernels of an H200 read and write 2.4 to 4.1 TB/s (docs/results). Times over sockets, which are slower by far, cannot
/// tell them from the sending, so that a fit of a GPU begins and ends there.
const GPU_KERNELS: Unknown = unknown(3e-7, 2.4e-7, 4.2e-7);
/// They are bound by memory, not by elements.
const GPU_ELEMENTS: Unknown = unknown(1e-9, 1e-9, 1e-8);
/// A shaped link can look faster than its rate: of each call the time of the rank that came last counts, and the others
/// have sent something by then. A prediction for a cluster takes no link to be faster than it is.
const WIRE: Unknown = unknown(1.02, 0.85, 10.0);
const GATHERED: Unknown = unknown(0.3, 1e-3, 1.0);
const CROWDING: Unknown = unknown(0.3, 1e-3, 1.0);

/// From nowhere with several beginnings, or from where an earlier search ended.
fn found<const N: usize>(
    unknowns: [Unknown; N],
    from: Option<[f64; N]>,
    residuals: &dyn Fn(&[f64; N]) -> Vec<f64>,
) -> Found<N> {
    match from {
        None => search(&unknowns, residuals),
        Some(values) => {
            let begun = std::array::from_fn(|at| Unknown { start: values[at], ..unknowns[at] });
            refine(&begun, residuals)
        }
    }
}

/// In the order of `vendor_values`.
const fn vendor_unknowns(element: Unknown) -> [Unknown; 7] {
    [TIME, TIME, PER_BYTE, element, WIRE, CROWDING, GATHERED]
}

/// In the order of `our_values`.
const fn our_unknowns(byte: Unknown, element: Unknown) -> [Unknown; 10] {
    [TIME, TIME, TIME, PER_BYTE, PER_BYTE, WIRE, byte, element, CROWDING, CROWDING]
}

/// Whether a search could have found them; it works with logarithms, which round.
fn are_possible<const N: usize>(values: [f64; N], unknowns: [Unknown; N]) -> bool {
    const ROUNDED: f64 = 1.0 + 1e-6;
    let is_possible = |(value, of): (f64, Unknown)| (of.least / ROUNDED..=of.most * ROUNDED).contains(&value);
    values.into_iter().zip(unknowns).all(is_possible)
}

fn vendor_costs(known: &[Known<'_>], from: Option<&VendorCosts>) -> VendorCosts {
    let made = |values: &[f64; 7], is_tree: bool| VendorCosts {
        is_tree,
        call_us: values[0],
        step_us: values[1],
        us_per_byte: values[2],
        us_per_element: values[3],
        wire: values[4],
        crowding: values[5],
        gathered: values[6],
    };
    let start = from.map(vendor_values);
    let found = [false, true].map(|is_tree| {
        let residuals = |values: &[f64; 7]| {
            let costs = made(values, is_tree);
            let felt = known.iter().filter(|of| of.vendor_is_felt);
            let off = |of: &Known<'_>| (costs.predict(&of.vendor, 1.0).total_us / of.vendor_us).ln();
            felt.map(off).collect()
        };
        found(vendor_unknowns(kernels(known).1), start, &residuals)
    });
    let [ring, tree] = found;
    if tree.cost < ring.cost { made(&tree.values, true) } else { made(&ring.values, false) }
}

fn our_costs(known: &[Known<'_>], from: Option<&OurCosts>) -> OurCosts {
    let emulated = known.iter().any(|of| of.point.emulated);
    let residuals = |values: &[f64; 10]| {
        let costs = ours_from(values, emulated);
        let felt = known.iter().filter(|of| of.ours_is_felt);
        let off = |of: &Known<'_>| (costs.predict(&of.ours, 1.0).total_us / of.ours_us).ln();
        felt.map(off).collect()
    };
    let (byte, element) = kernels(known);
    ours_from(&found(our_unknowns(byte, element), from.map(our_values), &residuals).values, emulated)
}

fn ours_from(values: &[f64; 10], emulated: bool) -> OurCosts {
    OurCosts {
        call_us: values[0],
        exchange_us: values[1],
        message_us: values[2],
        gather_us_per_byte: values[3],
        scatter_us_per_byte: values[4],
        wire: values[5],
        codec_us_per_byte: values[6],
        codec_us_per_element: values[7],
        crowding: values[8],
        codec_crowding: values[9],
        codec_on_processors: emulated,
    }
}

fn vendor_values(of: &VendorCosts) -> [f64; 7] {
    [of.call_us, of.step_us, of.us_per_byte, of.us_per_element, of.wire, of.crowding, of.gathered]
}

fn our_values(of: &OurCosts) -> [f64; 10] {
    [
        of.call_us,
        of.exchange_us,
        of.message_us,
        of.gather_us_per_byte,
        of.scatter_us_per_byte,
        of.wire,
        of.codec_us_per_byte,
        of.codec_us_per_element,
        of.crowding,
        of.codec_crowding,
    ]
}

/// What kernels may cost, per byte and per element.
fn kernels(known: &[Known<'_>]) -> (Unknown, Unknown) {
    let emulated = known.iter().any(|of| of.point.emulated);
    if emulated { (PER_BYTE, PER_BYTE) } else { (GPU_KERNELS, GPU_ELEMENTS) }
}

pub(crate) fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable();
    items.dedup();
    items
}
