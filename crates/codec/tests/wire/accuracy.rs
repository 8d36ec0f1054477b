//! The error of a whole AllReduce, measured: vNMSE, the squared error over the squared sum, against the
//! sum in binary64. The limits are those that the product promises.

use airamp_codec::{self as codec, Element, Format, packet_bytes};

use crate::samples::{Random, TAG, pack, slices, unpack};

const COUNT: usize = 1 << 16;

fn normal(random: &mut Random) -> f64 {
    random.normal()
}

fn spikes(random: &mut Random) -> f64 {
    let x = random.normal();
    if random.below(100) == 0 { x * 100.0 } else { x }
}

fn log_normal(random: &mut Random) -> f64 {
    let sign = if random.below(2) == 0 { 1e-4 } else { -1e-4 };
    sign * random.normal().exp()
}

#[expect(clippy::enum_variant_names, reason = "as the fast path calls them")]
enum Algorithm {
    OneShot,
    TwoShot,
    /// On nodes of so many ranks.
    ThreeShot(usize),
}

fn vnmse(
    algorithm: Algorithm,
    element: Element,
    format: Format,
    ranks: usize,
    draw: fn(&mut Random) -> f64,
) -> f64 {
    let mut random = Random(17);
    let mut exact = vec![0.0; COUNT];
    let mut packets = Vec::new();
    for rank in 0..ranks {
        let numbers: Vec<f32> = (0..COUNT).map(|_| draw(&mut random) as f32).collect();
        let input = pack(element, &numbers);
        exact.iter_mut().zip(unpack(element, &input)).for_each(|(sum, x)| *sum += f64::from(x));
        let mut packet = vec![0; packet_bytes(COUNT)];
        codec::quantise(element, &input, format, TAG.of_rank(rank), &mut packet);
        packets.push(packet);
    }
    let reduce = |packets: &[Vec<u8>], first: usize, number: usize| {
        let (mut reduced, tags) = (vec![0; packet_bytes(COUNT)], (TAG.of_rank(first), TAG.of_rank(number)));
        codec::reduce(element, &slices(packets), COUNT, format, false, tags.0, tags.1, &mut reduced);
        reduced
    };
    let reduced = match algorithm {
        Algorithm::OneShot => None,
        Algorithm::TwoShot => Some(reduce(&packets, 0, 0)),
        Algorithm::ThreeShot(per_node) => {
            let nodes = packets.chunks(per_node).enumerate();
            let nodes: Vec<_> = nodes.map(|(node, packets)| reduce(packets, node * per_node, node)).collect();
            Some(reduce(&nodes, 0, 0))
        }
    };
    let mut output = vec![0; COUNT * element.size()];
    match reduced {
        None => {
            codec::dequantise_sum(element, &slices(&packets), COUNT, format, false, TAG, &mut output);
        }
        Some(reduced) => {
            codec::dequantise(element, &reduced, COUNT, format, TAG, &mut output);
        }
    }
    let error: f64 =
        unpack(element, &output).iter().zip(&exact).map(|(x, sum)| (f64::from(*x) - sum).powi(2)).sum();
    error / exact.iter().map(|sum| sum.powi(2)).sum::<f64>()
}

fn check(format: Format, name: &str, draw: fn(&mut Random) -> f64, limit: f64) {
    for element in Element::ALL {
        let error = vnmse(Algorithm::TwoShot, element, format, 8, draw);
        println!("8 ranks, two-shot, {} as {}, {name}: vNMSE {error:.2e}", element.name(), format.name());
        assert!(error <= limit, "{error:e} > {limit:e}");
    }
}

#[test]
fn eight_ranks_of_normal_numbers_stay_within_the_promised_error() {
    check(Format::E4M3, "N(0, 1)", normal, 1.5e-3);
    check(Format::Auto, "N(0, 1)", normal, 1.0e-4);
}

#[test]
fn eight_ranks_with_spikes_stay_within_the_promised_error() {
    check(Format::Auto, "N(0, 1), 1% x 100", spikes, 6e-4);
}

#[test]
fn eight_ranks_of_log_normal_gradients_stay_within_the_promised_error() {
    check(Format::Auto, "log-normal of size 1e-4", log_normal, 4e-4);
}

/// As calls are cut: two ranks exchange everything once.
fn usual(ranks: usize) -> Algorithm {
    if ranks == 2 { Algorithm::OneShot } else { Algorithm::TwoShot }
}

#[test]
fn the_error_does_not_depend_on_the_number_of_ranks_but_for_two_that_have_half_of_it() {
    for format in Format::ALL {
        let error = |ranks| vnmse(usual(ranks), Element::Bf16, format, ranks, normal);
        let (of_two, errors) = (error(2), (3..=8).map(error).collect::<Vec<_>>());
        let printed: Vec<String> = errors.iter().map(|error| format!("{error:.2e}")).collect();
        println!(
            "bf16 as {}, N(0, 1): vNMSE of 2 ranks {of_two:.2e}, of 3 to 8 {}",
            format.name(),
            printed.join(" ")
        );
        let least = errors.iter().copied().fold(f64::MAX, f64::min);
        let most = errors.iter().copied().fold(0.0, f64::max);
        assert!(most <= least * 1.2, "{errors:?}");
        assert!(of_two >= most * 0.4 && of_two <= least * 0.6, "{of_two:e} beside {errors:?}");
    }
}

#[test]
fn on_nodes_of_several_ranks_each_rounding_adds_as_much_again() {
    type Draw = fn(&mut Random) -> f64;
    let draws: [(&str, Draw); 3] =
        [("N(0, 1)", normal), ("N(0, 1), 1% x 100", spikes), ("log-normal", log_normal)];
    for (ranks, per_node) in [(4, 2), (8, 4), (8, 2), (16, 8)] {
        for (name, draw) in draws {
            let twice = vnmse(Algorithm::TwoShot, Element::F32, Format::Auto, ranks, draw);
            let thrice = vnmse(Algorithm::ThreeShot(per_node), Element::F32, Format::Auto, ranks, draw);
            println!(
                "{ranks} ranks on nodes of {per_node}, f32 as auto, {name}: vNMSE two-shot {twice:.2e}, three-shot {thrice:.2e}"
            );
            assert!(thrice > 1.2 * twice && thrice < 1.7 * twice, "{thrice:e} beside {twice:e}");
            assert!(thrice <= 1e-3, "half of what AIRAMP_MAX_VNMSE allows: {thrice:e}");
        }
    }
}

#[test]
fn the_one_shot_has_about_half_the_error_of_the_two_shot() {
    for format in Format::ALL {
        let once = vnmse(Algorithm::OneShot, Element::F32, format, 2, normal);
        let twice = vnmse(Algorithm::TwoShot, Element::F32, format, 2, normal);
        println!(
            "2 ranks, f32 as {}, N(0, 1): vNMSE one-shot {once:.2e}, two-shot {twice:.2e}",
            format.name()
        );
        assert!(once <= twice * 0.6);
    }
}
