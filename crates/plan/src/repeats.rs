//! What was measured more than once, though no row of a benchmark says so: which of its times are of the same work. Called
//! by `measured` for each point; looks at no model.

use std::collections::BTreeMap;

use crate::benchmark::File;
use crate::measured::{Point, Side, VENDORS_LINK, element_bytes};

/// Link, ranks, side, what is moved, and how the tensor was stored where that makes a difference.
type Work = (String, usize, bool, usize, Option<String>);

/// Every measured time, by the work that was done. Over sockets a GPU's own work hardly shows: the vendor's AllReduce of a
/// tensor that was cast is another measurement of an AllReduce of that many bytes, and ours of two types with as many
/// elements are the same. In the emulator the same processors cast, reduce and send.
pub(crate) struct Repeats(BTreeMap<Work, Vec<f64>>);

impl Repeats {
    pub(crate) fn of(files: &[File]) -> Self {
        let mut repeats = Self(BTreeMap::new());
        for (file, row) in files.iter().flat_map(|file| file.results.iter().map(move |row| (file, row))) {
            let (Some(element), Some(time)) = (element_bytes(&row.datatype), row.time_us) else { continue };
            let elements = row.bytes / element;
            let stored = Self::stored(file.emulated, &row.link, &row.datatype);
            let moved = match (row.is_ours, row.wire_bytes_per_element) {
                (true, _) if row.format == "auto" => elements,
                (false, _) if row.format == "vendor" => row.bytes,
                (false, Some(each)) if stored.is_none() => (elements as f64 * each) as usize,
                _ => continue,
            };
            let work = (row.link.clone(), row.ranks, row.is_ours, moved, stored);
            repeats.0.entry(work).or_default().push(time);
        }
        repeats
    }

    fn stored(emulated: bool, link: &str, datatype: &str) -> Option<String> {
        (emulated || link == VENDORS_LINK).then(|| datatype.to_owned())
    }

    pub(crate) fn give(&self, point: &mut Point) {
        let stored = Self::stored(point.emulated, &point.link, &point.datatype);
        let of = |side: Side, own: f64| {
            let work =
                (point.link.clone(), point.ranks, side == Side::Ours, point.size(side), stored.clone());
            self.0.get(&work).cloned().unwrap_or_else(|| vec![own])
        };
        let (vendor, ours) = (of(Side::Vendor, point.vendor_us), of(Side::Ours, point.ours_us));
        (point.vendor_repeats, point.our_repeats) = (vendor, ours);
    }
}
