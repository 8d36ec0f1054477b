//! Labels at the ends of lines, moved apart where they would cover each other.

/// The least distance of two labels.
pub(super) const DISTANCE: f64 = 15.0;

/// For each wanted height the one that it gets: the order stays, no two are closer than the distance, and
/// none is above `top`.
pub(super) fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut places = wanted.to_vec();
    // Upwards from the bottom, then down from the top where that went too far.
    let mut limit = bottom;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(limit);
        limit = places[*index] - DISTANCE;
    }
    let mut limit = top;
    for index in order {
        places[index] = places[index].max(limit);
        limit = places[index] + DISTANCE;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_far_apart_stay_where_they_are() {
        assert_eq!(spread(&[100.0, 40.0, 70.0], 0.0, 200.0), [100.0, 40.0, 70.0]);
    }

    #[test]
    fn labels_never_cover_each_other_and_keep_their_order() {
        let wanted = [50.0, 51.0, 49.0, 199.0, 200.0, 200.0, 1.0];
        let places = spread(&wanted, 0.0, 200.0);
        for (a, b) in (0..wanted.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
            assert!((places[a] - places[b]).abs() >= DISTANCE - 1e-9, "{places:?}");
            assert!(
                wanted[a] == wanted[b] || (wanted[a] < wanted[b]) == (places[a] < places[b]),
                "{places:?}"
            );
        }
        assert!(places.iter().all(|place| (0.0..=200.0).contains(place)), "{places:?}");
    }
}
