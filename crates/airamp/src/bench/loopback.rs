//! Loopback as a slow network: shaped by `tc` while a value lives, as before when it is gone.
//! Needs root, and refuses to touch a loopback that somebody else has shaped.

use std::process::{Command, Stdio};

use super::link::Link;
use crate::cli::CommandError;
use crate::streams;

const BY_HAND: &str = "have root run `tc qdisc add dev lo root tbf rate 10gbit burst 2mb limit 64mb`, and give \
     --link-rate loopback";
const AS_IT_IS: &str =
    "remove that with `tc qdisc del dev lo root`, or measure it as it is with --link-rate loopback";

/// Takes the shaping away when dropped.
pub(super) struct Shaped(());

impl Shaped {
    /// Shapes loopback where the link has a rate.
    pub(super) fn to(link: Link) -> Result<Option<Self>, CommandError> {
        let Link::Rate(gbps) = link else { return Ok(None) };
        // SAFETY: geteuid has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Err(refused(&format!("only root can shape loopback; {BY_HAND}")));
        }
        let held = tc(&["qdisc", "show", "dev", "lo", "root"])?;
        if !is_plain(&held) {
            let told = format!("loopback is shaped already ({}); {AS_IT_IS}", held.trim());
            return Err(refused(&told));
        }
        let rate = format!("{}mbit", gbps * 1e3);
        let shape = ["qdisc", "add", "dev", "lo", "root", "tbf"];
        tc(&[&shape[..], &["rate", &rate, "burst", "2mb", "limit", "64mb"]].concat())?;
        Ok(Some(Self(())))
    }
}

impl Drop for Shaped {
    fn drop(&mut self) {
        if let Err(error) = tc(&["qdisc", "del", "dev", "lo", "root"]) {
            streams::complain(&format!("airamp bench: loopback is still shaped: {error}"));
        }
    }
}

fn is_plain(qdisc: &str) -> bool {
    qdisc.split_whitespace().nth(1).is_none_or(|kind| kind == "noqueue")
}

fn tc(args: &[&str]) -> Result<String, CommandError> {
    let output = Command::new("tc").args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| refused(&format!("tc: {error}; install iproute2, or {BY_HAND}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(refused(&format!("tc {}: {}", args.join(" "), said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn refused(why: &str) -> CommandError {
    CommandError::Arguments(format!("--link-rate: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_loopback_that_nobody_shaped_is_touched() {
        assert!(is_plain("qdisc noqueue 0: root refcnt 2 \n"));
        assert!(is_plain(""));
        assert!(!is_plain("qdisc tbf 8001: root refcnt 2 rate 10Gbit burst 2Mb lat 51ms \n"));
    }

    #[test]
    fn a_link_without_a_rate_needs_no_shaping() {
        assert!(matches!(Shaped::to(Link::Loopback), Ok(None)));
        assert!(matches!(Shaped::to(Link::Vendors), Ok(None)));
    }
}
