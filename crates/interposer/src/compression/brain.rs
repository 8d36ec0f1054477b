//! What a communicator's leader thinks: the tuner of `policy`, with the clock, the log and the tuning
//! cache that it lacks. Every rank has one, for the cache; only that of rank 0 is asked for plans.
//! Lives on the control thread: no GPU or NCCL call, and no wait for a file.

use super::{nodes, tuning_file, tuning_queue};
use crate::{log, telemetry};
use airamp_agreement::{Capable, Order, Plan, Rank, Term};
use airamp_control::Brain;
use airamp_fast_path::Shape;
use airamp_policy::cache::{self, Cache, Tuning};
use airamp_policy::{Mode, Report, Tuner, TunerConfig};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where a plan carries the key of its tuning, so that every rank keeps it under the one that only the
/// leader can know; behind the classes, and zero where nothing is kept.
const KEY: Range<usize> = 56..64;

/// Where it carries how many ranks lie on each node, for the ranks to take from the first; 0 stands for 1.
const PER_NODE: Range<usize> = 54..56;

const _: () = assert!(PER_NODE.start >= airamp_policy::PLACES && PER_NODE.end == KEY.start);
const _: () = assert!(KEY.end == airamp_policy::PLAN_BYTES);

pub(crate) struct TunedParts {
    /// The same on all ranks.
    pub(crate) communicator: u64,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) mode: Mode,
    pub(crate) min_speedup: f64,
    pub(crate) max_vnmse: f64,
    pub(crate) trial_budget_us: f64,
    /// The file with the tunings of earlier jobs.
    pub(crate) cache: Option<PathBuf>,
    /// What the settings say of it; `None`: the ranks' hosts do.
    pub(crate) ranks_per_node: Option<u32>,
    /// What this rank says in its Hello: a tuning holds under the same terms only.
    pub(crate) terms: Vec<Term>,
}

pub(crate) struct Tuned {
    tuner: Tuner,
    communicator: u64,
    rank: u32,
    ranks: u32,
    terms: Vec<Term>,
    cache: Option<PathBuf>,
    tunings: Cache,
    /// Known to the leader alone, from creation on; 0: nothing is kept.
    key: u64,
    asked_per_node: Option<u32>,
    /// Known to the leader alone, as the key.
    ranks_per_node: usize,
    began: Instant,
}

/// How many ranks lie on each node, by a communicator's first plan.
pub(crate) fn ranks_per_node(plan: &Plan) -> usize {
    plan[PER_NODE].try_into().map_or(1, |number| usize::from(u16::from_le_bytes(number)).max(1))
}

/// Key and hash of every tuning that this rank holds, for its peers to compare with theirs.
pub(crate) fn tunings(cache: Option<&Path>) -> Vec<(u64, u64)> {
    cache.map(tuning_file::read).unwrap_or_default().hashes().collect()
}

impl Tuned {
    pub(crate) fn new(parts: TunedParts) -> Self {
        let TunedParts { communicator, rank, ranks, mode, min_speedup, max_vnmse, .. } = parts;
        // Whatever nodes there will be.
        let (variants, fitted) = Shape::variants(ranks as usize);
        let trial_budget_us = parts.trial_budget_us;
        let config = TunerConfig {
            communicator,
            rank,
            ranks,
            variants,
            fitted,
            mode,
            min_speedup,
            max_vnmse,
            trial_budget_us,
        };
        // What was measured is not what a plan for tests is about.
        let cache = parts.cache.filter(|_| mode == Mode::On);
        let tunings = cache.as_deref().map(tuning_file::read).unwrap_or_default();
        let (tuner, terms, began) = (Tuner::new(config), parts.terms, Instant::now());
        let (asked_per_node, ranks_per_node) = (parts.ranks_per_node, 1);
        Self {
            tuner,
            communicator,
            rank,
            ranks,
            terms,
            cache,
            tunings,
            key: 0,
            asked_per_node,
            ranks_per_node,
            began,
        }
    }

    /// The tuning of this kind of communicator that every rank holds.
    fn shared_tuning(&self, capable: &[Capable]) -> Option<&Tuning> {
        let tuning = self.tunings.get(self.key)?;
        let offered = (self.key, tuning.hash());
        capable.iter().all(|rank| rank.tunings.contains(&offered)).then_some(tuning)
    }

    /// A plan for ranks that distrust each other is the vendor's and nothing else.
    fn with_key(&self, mut plan: Plan) -> Plan {
        if self.tuner.has_stopped() {
            return plan;
        }
        plan[KEY].copy_from_slice(&self.key.to_le_bytes());
        let per_node = if self.ranks_per_node > 1 { self.ranks_per_node } else { 0 };
        // No node has more, by the bounds of the setting and of a host.
        plan[PER_NODE].copy_from_slice(&u16::try_from(per_node).unwrap_or(0).to_le_bytes());
        plan
    }

    fn write_records(&mut self) {
        for record in self.tuner.drain_records() {
            log::info(format_args!("{}", record.to_line()));
            telemetry::decision(&record);
        }
    }

    /// Keeps what the plan has settled, for the next job.
    fn keep(&self, plan: &Plan) {
        let (Some(file), Some(key)) = (&self.cache, key_in(plan)) else {
            return;
        };
        let Some(agreed) = Tuning::of_plan(key, plan) else {
            return;
        };
        // The leader has the numbers too, and may have decided more than is agreed on yet.
        let numbered = self.tuner.tuning(key).filter(|tuning| tuning.hash() == agreed.hash());
        tuning_queue::keep_soon(file, numbered.unwrap_or(agreed));
    }
}

impl Brain for Tuned {
    fn first(&mut self, capable: &[Capable]) -> Plan {
        self.ranks_per_node = nodes::ranks_per_node(self.asked_per_node, capable);
        if let Some(number) =
            self.asked_per_node.filter(|_| nodes::is_uneven(self.asked_per_node, capable.len()))
        {
            log::warn(format_args!(
                "AIRAMP_RANKS_PER_NODE={number} does not make 2 to 128 full nodes of a communicator's {} ranks: it counts as 1 there",
                capable.len()
            ));
        }
        if self.cache.is_some() {
            self.key = key_of(self.ranks, &self.terms, capable);
        }
        let cached = self.shared_tuning(capable).cloned();
        let plan = self.tuner.first(cached.as_ref());
        self.write_records();
        self.with_key(plan)
    }

    fn started(&mut self) {
        self.write_records();
    }

    fn report(&mut self, rank: Rank, report: &[u8]) {
        match Report::decode(report) {
            Some(report) => self.tuner.report(rank, &report),
            None => log::debug(format_args!("rank {rank} sent a report that is none")),
        }
        self.write_records();
    }

    fn order(&mut self, order: Order) {
        telemetry::order(self.communicator, self.rank, order == Order::Off);
        self.tuner.order(match order {
            Order::Off => airamp_policy::Order::Off,
            Order::On => airamp_policy::Order::On,
        });
        self.write_records();
    }

    fn distrusted(&mut self, reason: &str) {
        self.tuner.distrust(reason);
        self.write_records();
    }

    fn decided(&mut self, at: u64, plan: &Plan, committed: bool) {
        self.tuner.decided(at, &without_key(plan), committed);
        self.write_records();
    }

    fn next(&mut self) -> Option<Plan> {
        let now_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let plan = self.tuner.next(now_us);
        self.write_records();
        plan.map(|plan| self.with_key(plan))
    }

    fn waits(&self) -> bool {
        self.tuner.waits_for_time()
    }

    fn committed(&mut self, at: u64, plan: &Plan) {
        log::debug(format_args!("a new plan holds from AllReduce {at} on"));
        telemetry::plan_changed(self.communicator, self.rank, at, plan);
        self.keep(plan);
    }

    fn closed(&mut self, reason: &str) {
        self.tuner.closed(reason);
        telemetry::frozen(self.communicator, self.rank, reason);
        self.write_records();
    }
}

/// All that a tuning depends on, as one number that is not 0.
fn key_of(ranks: u32, terms: &[Term], capable: &[Capable]) -> u64 {
    let (ranks, hosts) = (ranks.to_string(), layout(capable));
    let mut facts = vec![("ranks", ranks.as_str()), ("hosts", hosts.as_str())];
    let of_ranks = capable.first().map_or(&[][..], |rank| &rank.terms);
    facts.extend(terms.iter().chain(of_ranks).map(|term| (term.name.as_str(), term.value.as_str())));
    cache::key(&facts).max(1)
}

/// Which ranks share a host, whatever the hosts are called.
fn layout(capable: &[Capable]) -> String {
    let mut hosts = Vec::new();
    let mut numbers = String::new();
    for rank in capable {
        let number = hosts.iter().position(|host| *host == rank.host).unwrap_or_else(|| {
            hosts.push(rank.host);
            hosts.len() - 1
        });
        numbers.push_str(&format!("{number} "));
    }
    numbers
}

fn key_in(plan: &Plan) -> Option<u64> {
    let key = plan[KEY].try_into().map(u64::from_le_bytes).ok()?;
    (key != 0).then_some(key)
}

fn without_key(plan: &Plan) -> Plan {
    let mut classes = *plan;
    classes[KEY].fill(0);
    classes[PER_NODE].fill(0);
    classes
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use airamp_agreement::VENDOR_PLAN;
    use airamp_policy::{Class, Element, Entry};

    fn tuned(rank: u32, cache: &Path, wire_format: &str) -> Tuned {
        let terms = vec![Term { name: "wire format".into(), value: wire_format.into() }];
        Tuned::new(TunedParts { rank, cache: Some(cache.to_owned()), terms, ..parts_of_rank_0() })
    }

    fn capable(hosts: [u64; 2], caches: [&Path; 2]) -> [Capable; 2] {
        let rank = |rank: usize| Capable {
            terms: vec![Term { name: "architecture".into(), value: "sm_90".into() }],
            host: hosts[rank],
            tunings: tunings(Some(caches[rank])),
        };
        [rank(0), rank(1)]
    }

    fn place() -> usize {
        Class::of(Element::F32, 1 << 24).place()
    }

    /// A job in which one class was settled, and both ranks kept that.
    fn run_a_job(hosts: [u64; 2], caches: [&Path; 2]) {
        let mut ranks = [tuned(0, caches[0], "auto"), tuned(1, caches[1], "auto")];
        let mut plan = ranks[0].first(&capable(hosts, caches));
        assert_eq!(plan[place()], 0);
        plan[place()] = Entry::Compressed { variant: 1 }.byte();
        ranks.iter_mut().for_each(|rank| rank.committed(5, &plan));
        tuning_queue::settle();
    }

    fn first_entry(wire_format: &str, hosts: [u64; 2], caches: [&Path; 2]) -> Entry {
        let plan = tuned(0, caches[0], wire_format).first(&capable(hosts, caches));
        Entry::from_byte(plan[place()])
    }

    const DECIDED: Entry = Entry::Compressed { variant: 1 };
    const UNDECIDED: Entry = Entry::Vendor { settled: false };

    #[test]
    fn a_job_begins_with_what_every_rank_kept_of_one_like_it() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("0.toml"), folder.path().join("1.toml"));
        run_a_job([10, 11], [&own, &other]);
        // Hosts have other names the next time, but are as many.
        assert_eq!(first_entry("auto", [20, 21], [&own, &other]), DECIDED);
        assert_eq!(first_entry("auto", [20, 20], [&own, &other]), UNDECIDED);
        assert_eq!(first_entry("e4m3", [20, 21], [&own, &other]), UNDECIDED);
    }

    #[test]
    fn what_one_rank_lacks_or_kept_otherwise_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other, none] = ["0.toml", "1.toml", "none.toml"].map(|name| folder.path().join(name));
        run_a_job([1, 1], [&own, &other]);
        assert_eq!(first_entry("auto", [1, 1], [&own, &none]), UNDECIDED);
        let mut plan = tuned(0, &own, "auto").first(&capable([1, 1], [&own, &none]));
        plan[place()] = Entry::Vendor { settled: true }.byte();
        tuned(1, &other, "auto").committed(9, &plan);
        tuning_queue::settle();
        assert_eq!(first_entry("auto", [1, 1], [&own, &other]), UNDECIDED);
    }

    #[test]
    fn an_order_to_leave_everything_to_the_vendor_is_not_kept_as_a_tuning() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("tuning.toml");
        run_a_job([1, 1], [&cache, &cache]);
        let kept = std::fs::read(&cache).unwrap();
        let mut leader = tuned(0, &cache, "auto");
        let mut plan = leader.first(&capable([1, 1], [&cache, &cache]));
        plan[..airamp_policy::PLACES].fill(0);
        leader.committed(9, &plan);
        tuning_queue::settle();
        assert_eq!(std::fs::read(&cache).unwrap(), kept);
    }

    #[test]
    fn a_rank_that_lies_leaves_nothing_in_the_plan_not_even_the_key_of_a_tuning() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("tuning.toml");
        run_a_job([1, 1], [&cache, &cache]);
        let mut leader = tuned(0, &cache, "auto");
        assert_ne!(leader.first(&capable([1, 1], [&cache, &cache])), VENDOR_PLAN);
        leader.distrusted("rank 1 pledged out of turn");
        assert_eq!(leader.next(), Some(VENDOR_PLAN));
    }

    #[test]
    fn without_a_cache_a_plan_holds_nothing_but_its_classes() {
        let parts = TunedParts { cache: None, ..parts_of_rank_0() };
        assert_eq!(Tuned::new(parts).first(&capable([1, 1], [Path::new("none"); 2])), [0; 64]);
    }

    fn on_hosts(hosts: &[u64]) -> Vec<Capable> {
        hosts.iter().map(|host| Capable { terms: Vec::new(), host: *host, tunings: Vec::new() }).collect()
    }

    #[test]
    fn the_first_plan_tells_every_rank_how_many_are_on_a_node() {
        let first = |asked, hosts: &[u64]| {
            let parts = TunedParts { ranks: 4, ranks_per_node: asked, ..parts_of_rank_0() };
            ranks_per_node(&Tuned::new(parts).first(&on_hosts(hosts)))
        };
        assert_eq!(first(None, &[1, 1, 2, 2]), 2);
        assert_eq!(first(None, &[1, 1, 1, 2]), 1);
        assert_eq!(first(Some(1), &[1, 1, 2, 2]), 1);
        assert_eq!(first(Some(2), &[1, 1, 1, 1]), 2);
        assert_eq!(first(Some(3), &[1, 1, 2, 2]), 1);
        assert_eq!(ranks_per_node(&VENDOR_PLAN), 1);
    }

    #[test]
    fn what_a_plan_tells_beside_its_classes_is_no_news_to_the_tuner() {
        let parts = TunedParts { ranks: 4, mode: Mode::Forced, ..parts_of_rank_0() };
        let mut leader = Tuned::new(parts);
        let plan = leader.first(&on_hosts(&[1, 1, 2, 2]));
        assert_eq!(without_key(&plan)[airamp_policy::PLACES..], [0; 64][airamp_policy::PLACES..]);
        assert_ne!(without_key(&plan), plan);
        leader.decided(0, &plan, true);
        assert_eq!(leader.next(), None);
    }

    pub(in crate::compression) fn of_rank(rank: u32) -> Tuned {
        Tuned::new(TunedParts { rank, ..parts_of_rank_0() })
    }

    fn parts_of_rank_0() -> TunedParts {
        TunedParts {
            communicator: 7,
            rank: 0,
            ranks: 2,
            mode: Mode::On,
            min_speedup: 1.05,
            max_vnmse: 2e-3,
            trial_budget_us: 1e7,
            cache: None,
            ranks_per_node: None,
            terms: Vec::new(),
        }
    }
}
