//! What holds for every row of the table.

use std::collections::HashSet;

use airamp_machine::RdmaCounter;
use airamp_observer::view::Node;

use super::grammar::is_name;
use super::pages;
use crate::metrics::{Family, Kind, TABLE};

fn families() -> impl Iterator<Item = &'static Family> {
    TABLE.iter().flat_map(|section| section.families)
}

#[test]
fn names_say_whose_they_are_and_end_in_their_unit() {
    for family in families() {
        let name = family.name;
        assert!(is_name(name) && (name.starts_with("airamp") || name.starts_with("airampd_")), "{name}");
        let unit = family.unit;
        assert!(unit.is_empty() || name.ends_with(&format!("_{unit}")), "{name} does not end in {unit}");
        let units = ["seconds", "bytes", "ratio", "hertz", "watts", "celsius", "bytes_per_second"];
        let last = name.rsplit('_').next().unwrap_or_default();
        assert!(
            units.contains(&unit) || (unit.is_empty() && !units.contains(&last)),
            "{name}: unit {unit:?}"
        );
        assert!(family.help.ends_with('.') && !family.help.contains('\n'), "{name}: {}", family.help);
        assert!(!family.help.contains('|'), "{name}: would break the page's table");
    }
}

/// Prometheus sets `job` and `instance` itself and would rename ours.
#[test]
fn no_label_is_one_of_prometheus_own() {
    for family in families() {
        for label in family.labels {
            let taken = ["job", "instance", "le", "quantile", "pod", "node", "namespace", "container"];
            let kept_for_information = family.kind == Kind::Info && *label == "node";
            assert!(
                is_name(label) && (!taken.contains(label) || kept_for_information),
                "{}: {label}",
                family.name
            );
        }
        let distinct: HashSet<_> = family.labels.iter().collect();
        assert_eq!(distinct.len(), family.labels.len(), "{}", family.name);
    }
}

#[test]
fn identifiers_stand_only_where_information_stands() {
    let identifiers = [
        "pid",
        "communicator",
        "parent",
        "device_uuid",
        "pci",
        "user",
        "command",
        "step_id",
        "version",
        "name",
        "pod_name",
        "member",
        "size",
    ];
    for family in families().filter(|family| family.kind != Kind::Info) {
        for label in family.labels {
            assert!(!identifiers.contains(label), "{} has the label {label}", family.name);
        }
    }
}

/// In OpenMetrics no family's sample may be called as another family or its sample.
#[test]
fn no_name_can_be_taken_for_another() {
    let mut taken = HashSet::new();
    for family in families() {
        let endings: &[&str] = match family.kind {
            Kind::Counter => &["", "_total", "_created"],
            Kind::Gauge => &[""],
            Kind::Histogram => &["", "_bucket", "_sum", "_count", "_created"],
            Kind::Info => &["", "_info"],
        };
        for ending in endings {
            assert!(taken.insert(format!("{}{ending}", family.name)), "{}{ending} twice", family.name);
        }
    }
}

#[test]
fn every_row_has_samples_in_the_example() {
    let mut node = Node::example();
    let job = &mut node.jobs[0];
    job.ranks[0].totals.errors = vec![airamp_observer::view::Errors { result: 6, calls: 2 }];
    for member in job.communicators.iter_mut().flat_map(|communicator| &mut communicator.ranks) {
        (member.pattern.state, member.pattern.period_s) = ("locked".into(), Some(0.5));
    }
    let device = &mut node.machine.devices[0];
    device.throttle = Some(vec!["power_cap".into()]);
    device.last_xid = Some(31);
    (device.pcie_sent_bytes, device.pcie_received_bytes) = (Some(1), Some(2));
    let port = &mut node.machine.rdma_ports[0];
    port.counters = vec![RdmaCounter { name: "out_of_sequence".into(), value: 4 }];
    let (open, _) = pages(&node);
    for family in families() {
        assert!(open.families.contains(family.name), "nothing of {}", family.name);
    }
}
