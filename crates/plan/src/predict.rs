//! What the model says about a cluster: each message without and with compression, up to which link speed that pays and
//! what then stands in the way, and the step as a whole. Pure.

use serde::Serialize;

use crate::cluster::{Cluster, Collective, Message};
use crate::fit::{Fit, Scope, our_slowdown, vendor_slowdown};
use crate::measured::element_bytes;
use crate::model::{OurFacts, Parts, VendorFacts};
use crate::numbers::shown_size;
use crate::place::{GBPS, Place};
use crate::slowdown::{Asked, Slowdown};

/// Link speeds that are looked at, in Gbit/s.
const SLOWEST: f64 = 0.01;
const FASTEST: f64 = 100_000.0;
const LOOKS_PER_DECADE: f64 = 20.0;
/// By which a speed may differ that was measured.
const ROUNDING: f64 = 1e-9;

#[derive(Serialize)]
pub struct Prediction {
    pub messages: Vec<OfMessage>,
    pub step: Step,
}

#[derive(Serialize)]
pub struct OfMessage {
    pub collective: &'static str,
    pub datatype: String,
    pub bytes: usize,
    pub per_step: f64,
    pub among: &'static str,
    pub ranks: usize,
    pub vendor: Parts,
    /// If it were compressed; none where it cannot be.
    pub compressed: Option<Parts>,
    /// The vendor's time over the compressed one's.
    pub gain_if_compressed: Option<f64>,
    pub is_compressed: bool,
    /// Why it is not.
    pub left_to_the_vendor: Option<String>,
    pub with_airamp_us: f64,
    pub pays: Option<Pays>,
    /// In what the prediction goes beyond the measurements.
    pub extrapolated: Vec<String>,
}

/// At which speeds of which link compression gains enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pays {
    pub link: &'static str,
    pub here_gbps: f64,
    pub verdict: Verdict,
    /// Where it begins to pay, if not on the slowest link.
    pub from_gbps: Option<f64>,
    /// Where it stops to pay.
    pub up_to_gbps: Option<f64>,
    pub bound_by: &'static str,
    /// Whether the message or the speed lies beyond what was measured.
    pub is_extrapolated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    UpTo,
    From,
    Between,
    AtEverySpeed,
    AtNoSpeed,
}

#[derive(Serialize)]
pub struct Step {
    pub compute_us: Option<f64>,
    pub communication: Compared,
    /// Communication and computation one after the other; none where the computation is not known.
    pub nothing_hidden: Option<Compared>,
    /// All communication beside the computation, as far as that lasts.
    pub all_hidden: Option<Compared>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    pub without_us: f64,
    pub with_us: f64,
    pub gain: f64,
}

impl Compared {
    fn new(without_us: f64, with_us: f64) -> Self {
        Self { without_us, with_us, gain: if with_us > 0.0 { without_us / with_us } else { 1.0 } }
    }
}

pub fn predict(cluster: &Cluster, fit: &Fit) -> Prediction {
    let fit = &adapted(cluster, fit);
    let of_message = |message| of_message(cluster, fit, message);
    let messages: Vec<OfMessage> = cluster.messages.iter().map(of_message).collect();
    let step = step(cluster, &messages);
    Prediction { messages, step }
}

/// The fit with the latency that the cluster file gives; our messages then cost no more than the vendor's steps, and what
/// the measured latency did at other sizes does not count. A link that looked faster than its rate is as fast as it is.
pub fn adapted(cluster: &Cluster, fit: &Fit) -> Fit {
    let mut fit = fit.clone();
    fit.vendor.wire = fit.vendor.wire.max(1.0);
    fit.ours.wire = fit.ours.wire.max(1.0);
    if let Some(step_us) = cluster.file.step_us {
        fit.vendor.step_us = step_us;
        fit.ours.message_us = fit.ours.message_us.min(step_us);
        (fit.vendor_slowdown, fit.our_slowdown) = (Slowdown::none(), Slowdown::none());
    }
    fit
}

fn step(cluster: &Cluster, messages: &[OfMessage]) -> Step {
    let without_us: f64 = messages.iter().map(|of| of.per_step * of.vendor.total_us).sum();
    let with_us: f64 = messages.iter().map(|of| of.per_step * of.with_airamp_us).sum();
    let compute_us = cluster.file.compute_ms.map(|ms| ms * 1e3);
    Step {
        compute_us,
        communication: Compared::new(without_us, with_us),
        nothing_hidden: compute_us.map(|us| Compared::new(us + without_us, us + with_us)),
        all_hidden: compute_us.map(|us| Compared::new(us.max(without_us), us.max(with_us))),
    }
}

fn of_message(cluster: &Cluster, fit: &Fit, message: &Message) -> OfMessage {
    let place = cluster.place(message.among, None);
    let vendor = vendor_at(cluster, fit, message, None);
    let compressible = compressible(cluster, message);
    let compressed = compressible.clone().and_then(|()| ours_at(cluster, fit, message, None));
    let gain = compressed.as_ref().ok().map(|ours| vendor.total_us / ours.total_us);
    let left_to_the_vendor = match (&compressed, gain) {
        (Err(reason), _) => Some(reason.clone()),
        (_, Some(gain)) if gain < cluster.min_speedup => {
            Some(format!("gains less than {}x", cluster.min_speedup))
        }
        _ => None,
    };
    let is_compressed = left_to_the_vendor.is_none();
    let compressed = compressed.ok();
    let with_airamp_us = compressed.filter(|_| is_compressed).map_or(vendor.total_us, |ours| ours.total_us);
    OfMessage {
        collective: message.kind.name(),
        datatype: message.datatype.clone(),
        bytes: message.bytes,
        per_step: message.per_step,
        among: message.among.name(),
        ranks: place.ranks(),
        vendor,
        compressed,
        gain_if_compressed: gain,
        is_compressed,
        left_to_the_vendor,
        with_airamp_us,
        pays: compressible.ok().and_then(|()| pays(cluster, fit, message)),
        extrapolated: extrapolated(cluster, &fit.scope, message, cluster.axis(message.among).1),
    }
}

/// The rules of the library, as far as they are the same at every speed.
fn compressible(cluster: &Cluster, message: &Message) -> Result<(), String> {
    if message.kind != Collective::AllReduce {
        return Err("only AllReduce is compressed".into());
    }
    if element_bytes(&message.datatype).is_none() {
        return Err("only float16, bfloat16 and float32 are compressed".into());
    }
    if message.bytes < cluster.min_bytes {
        return Err(format!("smaller than {}", shown_size(cluster.min_bytes)));
    }
    Ok(())
}

fn vendor_at(cluster: &Cluster, fit: &Fit, message: &Message, gbps: Option<f64>) -> Parts {
    let place = cluster.place(message.among, gbps);
    let (bytes, element) = (message.bytes as f64, message.element_bytes as f64);
    let facts = VendorFacts::new(bytes, element, message.kind.halves(), &place);
    let asked = Asked { ranks: place.ranks(), element_bytes: message.element_bytes, size: message.bytes };
    let slowdown = vendor_slowdown(&fit.vendor_slowdown, &asked);
    fit.vendor.predict(&facts, if sends_by_processors(&place) { slowdown } else { 1.0 })
}

/// The slowdown was measured over sockets.
fn sends_by_processors(place: &Place) -> bool {
    place.ranks_per_host > 0
}

fn ours_at(cluster: &Cluster, fit: &Fit, message: &Message, gbps: Option<f64>) -> Result<Parts, String> {
    let place = cluster.place(message.among, gbps);
    let elements = message.bytes / message.element_bytes;
    let facts = OurFacts::new(elements, message.element_bytes, cluster.arena_bytes, &place);
    let asked = Asked { ranks: place.ranks(), element_bytes: message.element_bytes, size: elements };
    let slowdown = our_slowdown(&fit.our_slowdown, &asked);
    let slowdown = if sends_by_processors(&place) { slowdown } else { 1.0 };
    facts.map(|facts| fit.ours.predict(&facts, slowdown)).map_err(|why| why.to_string())
}

/// The gain of a message at a link speed.
pub fn gain_at(cluster: &Cluster, fit: &Fit, message: &Message, gbps: f64) -> Option<f64> {
    compressible(cluster, message).ok()?;
    let ours = ours_at(cluster, fit, message, Some(gbps)).ok()?;
    Some(vendor_at(cluster, fit, message, Some(gbps)).total_us / ours.total_us)
}

fn pays(cluster: &Cluster, fit: &Fit, message: &Message) -> Option<Pays> {
    let (link, here_gbps) = cluster.axis(message.among);
    let enough =
        |gbps: f64| gain_at(cluster, fit, message, gbps).is_some_and(|gain| gain >= cluster.min_speedup);
    gain_at(cluster, fit, message, here_gbps)?;
    let looks = ((FASTEST / SLOWEST).log10() * LOOKS_PER_DECADE) as i32;
    let speed = |look: i32| SLOWEST * 10_f64.powf(f64::from(look) / LOOKS_PER_DECADE);
    let paying: Vec<i32> = (0..=looks).filter(|look| enough(speed(*look))).collect();
    let from_gbps = paying.first().filter(|look| **look > 0);
    let from_gbps = from_gbps.map(|look| halved(speed(*look), speed(look - 1), &enough));
    let up_to_gbps = paying.last().filter(|look| **look < looks);
    let up_to_gbps = up_to_gbps.map(|look| halved(speed(*look), speed(look + 1), &enough));
    let verdict = match (paying.is_empty(), from_gbps, up_to_gbps) {
        (true, ..) => Verdict::AtNoSpeed,
        (_, None, None) => Verdict::AtEverySpeed,
        (_, None, Some(_)) => Verdict::UpTo,
        (_, Some(_), None) => Verdict::From,
        (_, Some(_), Some(_)) => Verdict::Between,
    };
    // Where it never pays, it does not even on the slowest link, on which bytes are all that counts.
    let last = if verdict == Verdict::AtEverySpeed { FASTEST } else { SLOWEST };
    let at = up_to_gbps.or(from_gbps).unwrap_or(last);
    let bound_by = match verdict {
        Verdict::AtEverySpeed => vendor_bound_by(&vendor_at(cluster, fit, message, Some(at))),
        _ => bound_by(cluster, fit, message, at)?,
    };
    let mut limits = [Some(at), from_gbps].into_iter().flatten();
    let is_extrapolated = limits.any(|gbps| !extrapolated(cluster, &fit.scope, message, gbps).is_empty());
    Some(Pays { link, here_gbps, verdict, from_gbps, up_to_gbps, bound_by, is_extrapolated })
}

/// Between a speed at which it pays and one at which it does not.
fn halved(mut pays: f64, mut does_not: f64, enough: &dyn Fn(f64) -> bool) -> f64 {
    for _ in 0..30 {
        let middle = (pays * does_not).sqrt();
        *(if enough(middle) { &mut pays } else { &mut does_not }) = middle;
    }
    pays
}

/// What keeps the vendor's from gaining by a faster link, so that ours stays ahead.
fn vendor_bound_by(vendor: &Parts) -> &'static str {
    if vendor.sending_us > vendor.latency_us { "the vendor's sending" } else { "the vendor's latency" }
}

/// What ours has more of than the vendor's at that speed.
fn bound_by(cluster: &Cluster, fit: &Fit, message: &Message, gbps: f64) -> Option<&'static str> {
    let ours = ours_at(cluster, fit, message, Some(gbps)).ok()?;
    let vendor = vendor_at(cluster, fit, message, Some(gbps));
    let more = [
        ("latency", ours.latency_us - vendor.latency_us),
        ("codec", ours.codec_us),
        ("sending", ours.sending_us - vendor.sending_us),
        ("bytes on the wire", ours.wire_us - vendor.wire_us),
    ];
    more.into_iter().max_by(|one, other| one.1.total_cmp(&other.1)).map(|(name, _)| name)
}

/// In what a message over links of that speed goes beyond the measurements.
fn extrapolated(cluster: &Cluster, scope: &Scope, message: &Message, gbps: f64) -> Vec<String> {
    let (place, mut beyond) = (cluster.place(message.among, Some(gbps)), Vec::new());
    let ranks = place.ranks();
    let (least, most) = (scope.ranks.first().copied(), scope.ranks.last().copied());
    if least.is_none_or(|least| ranks < least) || most.is_none_or(|most| ranks > most) {
        beyond.push(format!("{ranks} ranks"));
    }
    if !(scope.least_bytes..=scope.most_bytes).contains(&message.bytes) {
        beyond.push(format!("size {}", shown_size(message.bytes)));
    }
    if message.kind == Collective::AllReduce && !scope.datatypes.contains(&message.datatype) {
        beyond.push(format!("datatype {}", message.datatype));
    }
    // What a communicator has of its node's NICs.
    let outside = place.nics.filter(|_| place.nodes > 1);
    let has = outside.map_or(gbps, |nics| nics / GBPS / place.side_by_side as f64);
    if !scope
        .gbps
        .is_some_and(|[least, most]| (least * (1.0 - ROUNDING)..=most * (1.0 + ROUNDING)).contains(&has))
    {
        let several = if outside.is_some() && cluster.file.nics_per_node > 1 { "s" } else { "" };
        beyond.push(format!("{}{several} of {gbps} Gbit/s", cluster.axis(message.among).0));
    }
    if place.per_node > 1 || place.side_by_side > 1 {
        beyond.push("several GPUs in a node".into());
    }
    if cluster.file.is_rdma {
        beyond.push("RDMA".into());
    }
    if message.kind != Collective::AllReduce {
        beyond.push(format!("{} as half an AllReduce", message.kind.name()));
    }
    beyond
}
