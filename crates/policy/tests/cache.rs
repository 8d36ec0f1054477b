//! The tuning cache as text: the same text for the same cache, and nothing else is taken for one.

use airamp_policy::cache::{Cache, CacheError, LONGEST_TEXT, MOST_TUNINGS, Tuning, key, seal};
use airamp_policy::{Entry, PLACES, Plan, Report, ReportKind, Tuner};
use airamp_policy::{Mode, TunerConfig};
use proptest::prelude::*;

const BODY: &str = "
[[tuning]]
key = \"00000000000000ff\"
[[tuning.class]]
datatype = \"float16\"
from_bytes = 4194304
[[tuning.class]]
datatype = \"float32\"
from_bytes = 4194304
variant = 1
figure = { count = 1048576, ours_us = 100.5, vendor_us = 200.0, vnmse = 0.0001 }
";

fn damaged(text: &str) -> String {
    match Cache::parse(text) {
        Err(CacheError::Damaged(what)) => what,
        other => panic!("{other:?} of {text}"),
    }
}

fn plan_of(bytes: &[(usize, u8)]) -> Plan {
    let mut plan = [0; 64];
    bytes.iter().for_each(|(place, byte)| plan[*place] = *byte);
    plan
}

#[test]
fn the_text_is_as_it_was_and_says_what_it_said() {
    let cache = Cache::parse(&seal(BODY)).expect("a cache");
    assert_eq!(cache.to_text(), seal(BODY));
    let head = "# Kept by AIRAMP_TUNING_CACHE. It can be deleted at any time; the next job then tunes itself anew.\nversion = 1\n";
    assert!(cache.to_text().starts_with(head));
    let classes = cache.get(255).expect("a tuning").classes();
    assert_eq!(
        classes.iter().map(|class| (class.place, class.variant)).collect::<Vec<_>>(),
        [(6, None), (38, Some(1))]
    );
    assert_eq!(classes[1].figure.expect("a figure").speedup(), 200.0 / 100.5);
    assert_eq!(Cache::parse(&Cache::default().to_text()), Ok(Cache::default()));
}

#[test]
fn another_version_is_named_even_if_the_rest_cannot_be_read() {
    let newer = "version = 2\nwhatever = { is = [1, 2] }\n";
    assert_eq!(Cache::parse(newer), Err(CacheError::Version(2)));
    assert_eq!(CacheError::Version(2).to_string(), "its version is 2, not 1");
}

#[test]
fn what_this_version_did_not_write_is_damaged() {
    assert!(damaged("").contains("version"));
    assert!(damaged("version = 1\nversion = 1").contains("duplicate"));
    for (from, to) in [
        ("00000000000000ff", "00000000000000FF"),
        ("00000000000000ff", "ff"),
        ("00000000000000ff", "+0000000000000ff"),
        ("float16", "float64"),
        ("from_bytes = 4194304", "from_bytes = 4194305"),
        ("variant = 1", "variant = 16"),
        ("variant = 1", "variant = -1"),
        ("variant = 1", "variant = 1\ncolour = 3"),
        ("ours_us = 100.5", "ours_us = nan"),
        ("ours_us = 100.5", "ours_us = -1.0"),
        ("ours_us = 100.5", "ours_us = 1e-300"),
        ("vendor_us = 200.0", "vendor_us = inf"),
        ("vendor_us = 200.0, ", ""),
        ("count = 1048576", "count = 1"),
        ("vnmse = 0.0001", "vnmse = -0.1"),
        ("vnmse = 0.0001", "vnmse = nan"),
        ("float16", "float32"),
        ("[[tuning]]", "[tuning]"),
    ] {
        let body = BODY.replacen(from, to, 1);
        assert_ne!(body, BODY);
        let what = damaged(&seal(&body));
        assert!(!what.contains("changed or cut"), "{what}");
    }
    assert!(damaged(&seal(&format!("{BODY}{BODY}"))).contains("twice"));
    assert!(damaged(&seal("[[tuning]]\nkey = \"00000000000000ff\"\nclass = []\n")).contains("out of order"));
}

#[test]
fn a_text_that_was_cut_short_or_changed_anywhere_is_refused() {
    let whole = seal(BODY);
    for end in 0..whole.len() {
        assert!(Cache::parse(&whole[..end]).is_err(), "cut at {end}");
    }
    for place in 0..whole.len() {
        let mut bytes = whole.clone().into_bytes();
        bytes[place] ^= 1;
        let text = String::from_utf8(bytes).expect("text");
        assert!(Cache::parse(&text).is_err(), "changed at {place}");
    }
    assert!(damaged(&whole.replace("variant = 1", "variant = 0")).contains("changed or cut short"));
}

#[test]
fn a_text_that_is_too_large_is_refused_by_its_size() {
    assert_eq!(Cache::parse(&"#".repeat(LONGEST_TEXT + 1)), Err(CacheError::TooLarge));
}

#[test]
fn the_largest_cache_can_be_read_again() {
    let compressed = Entry::Compressed { variant: 15 }.byte();
    let mut cache = Cache::default();
    for key in 0..=MOST_TUNINGS as u64 {
        let plan: Plan = std::array::from_fn(|place| if place < PLACES { compressed } else { 0 });
        cache.insert(Tuning::of_plan(key, &plan).expect("a tuning"));
    }
    assert_eq!(cache.get(0), None, "the oldest has gone");
    let text = cache.to_text();
    // Numbers make it longer, at most by this for each class.
    assert!(text.len() + MOST_TUNINGS * PLACES * 170 <= LONGEST_TEXT, "{}", text.len());
    assert_eq!(Cache::parse(&text), Ok(cache));
}

#[test]
fn a_tuning_takes_the_place_of_the_one_before_it() {
    let mut cache = Cache::parse(&seal(BODY)).expect("a cache");
    let tuning = Tuning::of_plan(255, &plan_of(&[(3, 0x40)])).expect("a tuning");
    cache.insert(tuning.clone());
    assert_eq!(cache.get(255), Some(&tuning));
    assert_eq!(cache.hashes().collect::<Vec<_>>(), [(255, tuning.hash())]);
}

#[test]
fn the_hash_is_of_the_decisions_and_not_of_the_numbers() {
    let leader = Cache::parse(&seal(BODY)).expect("a cache");
    let member = plan_of(&[(6, 0x01), (38, 0x41)]);
    assert_eq!(Tuning::of_plan(255, &member).map(|tuning| tuning.hash()), leader.get(255).map(Tuning::hash));
    let other = plan_of(&[(6, 0x01), (38, 0x40)]);
    assert_ne!(Tuning::of_plan(255, &other).map(|tuning| tuning.hash()), leader.get(255).map(Tuning::hash));
}

#[test]
fn a_plan_in_which_nothing_is_settled_is_no_tuning() {
    assert_eq!(Tuning::of_plan(1, &[0; 64]), None);
    let trial = Entry::Trial { variant: 0, round: 3 }.byte();
    assert_eq!(Tuning::of_plan(1, &plan_of(&[(5, trial)])), None);
    assert_eq!(Tuning::of_plan(1, &[0x40; 64]).expect("a tuning").classes().len(), PLACES);
}

#[test]
fn the_key_tells_names_values_and_their_order_apart() {
    let terms: [&[(&str, &str)]; 6] = [
        &[],
        &[("", "")],
        &[("ab", "c")],
        &[("a", "bc")],
        &[("a", "b"), ("c", "d")],
        &[("c", "d"), ("a", "b")],
    ];
    let keys: std::collections::BTreeSet<u64> = terms.iter().map(|terms| key(terms)).collect();
    assert_eq!(keys.len(), terms.len());
    assert_eq!(key(&[("ranks", "4")]), 0x3497_f2fd_9ba2_e206, "the same in every version");
}

#[test]
fn what_a_tuner_keeps_can_be_read_again() {
    let config = TunerConfig {
        communicator: 1,
        rank: 0,
        ranks: 1,
        variants: 1,
        fitted: 0,
        mode: Mode::On,
        min_speedup: 1.0,
        max_vnmse: 1.0,
        trial_budget_us: 1e9,
    };
    let mut tuner = Tuner::new(config);
    tuner.report(0, &Report { place: 38, kind: ReportKind::Seen });
    let plan = tuner.next(0).expect("a plan");
    tuner.decided(0, &plan, true);
    for iteration in 0..2 {
        // An error where there was silence is without bound, and still a number of the figure.
        let kind = ReportKind::Trial {
            index: u64::from(iteration),
            iteration,
            variant: 0,
            count: 1 << 20,
            ours_us: 1.5e-2,
            vendor_us: 3e9,
            squared_error: 1.0,
            signal: 0.0,
            measured: true,
        };
        tuner.report(0, &Report { place: 38, kind });
    }
    let mut cache = Cache::default();
    cache.insert(tuner.tuning(9).expect("a tuning"));
    assert_eq!(Cache::parse(&cache.to_text()), Ok(cache));
}

proptest! {
    #[test]
    fn any_text_is_a_cache_or_refused(text in "\\PC{0,200}|(\\[\\[tuning\\]\\]\n|key = \"[0-9a-f]{16}\"\n|\\[\\[tuning.class\\]\\]\n){0,8}") {
        for text in [seal(&text), text] {
            if let Ok(cache) = Cache::parse(&text) {
                prop_assert_eq!(Cache::parse(&cache.to_text()), Ok(cache));
            }
        }
    }

    #[test]
    fn any_plan_is_kept_and_read_again(bytes in proptest::collection::vec(any::<u8>(), 64), key in any::<u64>()) {
        let plan: Plan = bytes.try_into().expect("64 bytes");
        if let Some(tuning) = Tuning::of_plan(key, &plan) {
            let mut cache = Cache::default();
            cache.insert(tuning);
            prop_assert_eq!(Cache::parse(&cache.to_text()), Ok(cache));
        }
    }
}
