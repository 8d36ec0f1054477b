//! What leader and members say to each other, and how much of it either side takes. Plans, reports and the meaning
//! of terms belong to others: here they are bytes and texts.

use serde::{Deserialize, Serialize};

pub type Rank = u32;

/// Version of these messages. Ranks that speak different ones never compress together.
pub const PROTOCOL: u16 = 2;

pub const PLAN_BYTES: usize = 64;

/// What to do with each class of calls, one byte per class. All zero: everything goes to the vendor.
pub type Plan = [u8; PLAN_BYTES];

pub const VENDOR_PLAN: Plan = [0; PLAN_BYTES];

/// Something that must be equal on all ranks, with a name for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Term {
    pub name: String,
    pub value: String,
}

/// What a rank says before the vendor's init: that it will await the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hello {
    pub rank: Rank,
    pub ranks: u32,
    pub terms: Vec<Term>,
}

/// What a rank says when it holds all that compression needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capable {
    pub terms: Vec<Term>,
    /// The same number for ranks on the same host.
    pub host: u64,
    /// Key and hash of each tuning that the rank has cached.
    pub tunings: Vec<(u64, u64)>,
}

/// An operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    Off,
    On,
}

/// Where a plan comes into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum At {
    /// Before the application has the communicator.
    Creation,
    /// With the call of this index.
    Index(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToLeader {
    Hello(Hello),
    Ready(Result<Capable, String>),
    Pledge {
        number: u64,
    },
    Refuse {
        number: u64,
        reserved: u64,
        reason: String,
    },
    Connected(Result<(), String>),
    Ask {
        number: u64,
    },
    Report(Vec<u8>),
    Order(Order),
    Leave,
    /// The leader spoke out of turn: this rank takes part in no change but the one to the vendor's own calls.
    Distrust {
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToMember {
    /// Creation was not committed and will not be.
    Off {
        reason: String,
    },
    /// Creation was committed and has failed since.
    Broken {
        reason: String,
    },
    Propose {
        number: u64,
        at: At,
        #[serde(with = "plan_bytes")]
        plan: Plan,
    },
    Commit {
        number: u64,
    },
    Abort {
        number: u64,
    },
    Begin,
}

/// Most terms that a Hello or a Ready may carry, and the longest text in any message.
pub const MOST_TERMS: usize = 64;
pub const LONGEST_TEXT: usize = 512;
pub const MOST_TUNINGS_TOLD: usize = 256;
pub const MOST_REPORT_BYTES: usize = 1024;
/// No communicator makes so many calls: an index above it is a lie, and sums of indices below it do not overflow.
pub const LAST_INDEX: u64 = 1 << 48;

impl ToLeader {
    /// Whether the message is as small as any that a member sends.
    pub fn is_within_bounds(&self) -> bool {
        match self {
            Self::Hello(hello) => are_within_bounds(&hello.terms),
            Self::Ready(Ok(capable)) => {
                are_within_bounds(&capable.terms) && capable.tunings.len() <= MOST_TUNINGS_TOLD
            }
            Self::Ready(Err(reason)) | Self::Connected(Err(reason)) | Self::Distrust { reason } => {
                reason.len() <= LONGEST_TEXT
            }
            Self::Refuse { reserved, reason, .. } => *reserved <= LAST_INDEX && reason.len() <= LONGEST_TEXT,
            Self::Report(report) => report.len() <= MOST_REPORT_BYTES,
            Self::Pledge { .. }
            | Self::Connected(Ok(()))
            | Self::Ask { .. }
            | Self::Order(_)
            | Self::Leave => true,
        }
    }
}

fn are_within_bounds(terms: &[Term]) -> bool {
    let short = |term: &Term| term.name.len() <= LONGEST_TEXT && term.value.len() <= LONGEST_TEXT;
    terms.len() <= MOST_TERMS && terms.iter().all(short)
}

/// A text for one line of a log and for the bounds above, wherever it comes from.
pub(crate) fn one_line(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let fits = (0..=LONGEST_TEXT.min(line.len())).rev().find(|&end| line.is_char_boundary(end));
    line.truncate(fits.unwrap_or(0));
    line
}

/// What makes another rank's terms differ from rank 0's, in words.
pub(crate) fn difference(rank: Rank, terms: &[Term], of_rank_0: &[Term]) -> Option<String> {
    let value_in = |terms: &[Term], name: &str| {
        terms
            .iter()
            .find(|term| term.name == name)
            .map_or("nothing".to_owned(), |term| format!("'{}'", term.value))
    };
    of_rank_0.iter().chain(terms).find_map(|term| {
        let (theirs, ours) = (value_in(terms, &term.name), value_in(of_rank_0, &term.name));
        (theirs != ours).then(|| format!("{}: rank {rank} has {theirs}, rank 0 has {ours}", term.name))
    })
}

/// A plan as two halves: serde knows arrays of up to 32 elements.
mod plan_bytes {
    use super::{PLAN_BYTES, Plan};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    const HALF: usize = PLAN_BYTES / 2;

    pub(super) fn serialize<S: Serializer>(plan: &Plan, to: S) -> Result<S::Ok, S::Error> {
        let (mut low, mut high) = ([0_u8; HALF], [0_u8; HALF]);
        low.copy_from_slice(&plan[..HALF]);
        high.copy_from_slice(&plan[HALF..]);
        (low, high).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Plan, D::Error> {
        let (low, high) = <([u8; HALF], [u8; HALF])>::deserialize(from)?;
        let mut plan = [0; PLAN_BYTES];
        plan[..HALF].copy_from_slice(&low);
        plan[HALF..].copy_from_slice(&high);
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(pairs: &[(&str, &str)]) -> Vec<Term> {
        pairs.iter().map(|&(name, value)| Term { name: name.into(), value: value.into() }).collect()
    }

    #[test]
    fn a_difference_names_the_rank_the_term_and_both_values() {
        let ours = terms(&[("version", "1"), ("mode", "on")]);
        assert_eq!(difference(3, &ours, &ours), None);
        assert_eq!(difference(3, &terms(&[("mode", "on"), ("version", "1")]), &ours), None);
        assert_eq!(
            difference(3, &terms(&[("version", "2"), ("mode", "off")]), &ours).unwrap(),
            "version: rank 3 has '2', rank 0 has '1'"
        );
        assert_eq!(difference(3, &ours[..1], &ours).unwrap(), "mode: rank 3 has nothing, rank 0 has 'on'");
        assert_eq!(difference(3, &ours, &ours[..1]).unwrap(), "mode: rank 3 has 'on', rank 0 has nothing");
    }

    #[test]
    fn a_reason_fits_one_line_of_the_log_whatever_a_peer_puts_in_it() {
        assert_eq!(one_line("no\nmemory\u{7}"), "no memory ");
        let line = one_line(&"\u{e9}".repeat(1000));
        assert!(line.len() <= LONGEST_TEXT && line.len() > LONGEST_TEXT - 2);
    }

    #[test]
    fn a_message_larger_than_any_member_sends_is_out_of_bounds() {
        let long = "x".repeat(LONGEST_TEXT + 1);
        let hello = |terms| ToLeader::Hello(Hello { rank: 0, ranks: 1, terms });
        let ready = |terms, tunings| ToLeader::Ready(Ok(Capable { terms, host: 0, tunings }));
        let many = vec![terms(&[("a", "b")]).remove(0); MOST_TERMS + 1];
        for message in [
            hello(many.clone()),
            hello(terms(&[("a", &long)])),
            hello(terms(&[(&long, "b")])),
            ready(many.clone(), Vec::new()),
            ready(Vec::new(), vec![(0, 0); MOST_TUNINGS_TOLD + 1]),
            ToLeader::Ready(Err(long.clone())),
            ToLeader::Connected(Err(long.clone())),
            ToLeader::Distrust { reason: long.clone() },
            ToLeader::Refuse { number: 0, reserved: 0, reason: long },
            ToLeader::Refuse { number: 0, reserved: LAST_INDEX + 1, reason: String::new() },
            ToLeader::Report(vec![0; MOST_REPORT_BYTES + 1]),
        ] {
            assert!(!message.is_within_bounds(), "{message:?}");
        }
        assert!(hello(many[1..].to_vec()).is_within_bounds());
        assert!(ready(many[1..].to_vec(), vec![(0, 0); MOST_TUNINGS_TOLD]).is_within_bounds());
        assert!(ToLeader::Report(vec![0; MOST_REPORT_BYTES]).is_within_bounds());
    }

    #[test]
    fn messages_survive_the_wire() {
        let mut plan = VENDOR_PLAN;
        plan.iter_mut().zip(0..).for_each(|(byte, n)| *byte = n);
        let propose = ToMember::Propose { number: 7, at: At::Index(300), plan };
        let bytes = postcard::to_stdvec(&propose).unwrap();
        assert!(bytes.len() < PLAN_BYTES + 8);
        assert_eq!(postcard::from_bytes::<ToMember>(&bytes).unwrap(), propose);
    }
}
