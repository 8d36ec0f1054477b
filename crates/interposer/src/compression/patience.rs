//! How long a rank waits for the process that made an id, before the vendor makes the communicator. A host that does not take
//! this rank's Hello, behind a firewall for example, would cost each creation all of the time-out: once it has not, it is waited for a
//! quarter of that, until it does. Who goes on early was not heard by anybody, so that all ranks stay with the vendor.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

const SHARE: u32 = 4;
/// More hosts than that are forgotten, the oldest first.
const MOST: usize = 64;

static UNANSWERED: Hosts = Hosts(Mutex::new(Vec::new()));

pub(super) fn with(host: IpAddr, longest: Duration) -> Duration {
    UNANSWERED.patience(host, longest)
}

pub(super) fn learn(host: IpAddr, is_heard: bool) {
    UNANSWERED.learn(host, is_heard);
}

/// A lock that is taken, by another thread or for ever by a fork, is not waited for: nothing is known then.
struct Hosts(Mutex<Vec<IpAddr>>);

impl Hosts {
    fn patience(&self, host: IpAddr, longest: Duration) -> Duration {
        let is_known = self.0.try_lock().is_ok_and(|hosts| hosts.contains(&host));
        if is_known { longest / SHARE } else { longest }
    }

    fn learn(&self, host: IpAddr, is_heard: bool) {
        let Ok(mut hosts) = self.0.try_lock() else { return };
        hosts.retain(|known| *known != host);
        if !is_heard {
            let surplus = (hosts.len() + 1).saturating_sub(MOST);
            hosts.drain(..surplus);
            hosts.push(host);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LONGEST: Duration = Duration::from_secs(5);

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    #[test]
    fn a_host_that_has_not_answered_is_waited_for_less_until_it_answers() {
        let hosts = Hosts(Mutex::default());
        assert_eq!(hosts.patience(host(1), LONGEST), LONGEST);
        hosts.learn(host(1), false);
        hosts.learn(host(1), false);
        assert_eq!(hosts.patience(host(1), LONGEST), LONGEST / 4);
        assert_eq!(hosts.patience(host(2), LONGEST), LONGEST);
        hosts.learn(host(1), true);
        assert_eq!(hosts.patience(host(1), LONGEST), LONGEST);
    }

    #[test]
    fn the_oldest_of_too_many_hosts_is_forgotten() {
        let hosts = Hosts(Mutex::default());
        (0..=MOST as u32).for_each(|number| hosts.learn(host(number), false));
        assert_eq!(hosts.patience(host(0), LONGEST), LONGEST);
        assert_eq!(hosts.patience(host(1), LONGEST), LONGEST / 4);
        assert_eq!(hosts.0.lock().unwrap().len(), MOST);
    }

    #[test]
    fn a_lock_that_is_held_holds_nobody_up() {
        let hosts = Hosts(Mutex::new(vec![host(1)]));
        let held = hosts.0.lock().unwrap();
        hosts.learn(host(1), true);
        assert_eq!(hosts.patience(host(1), LONGEST), LONGEST);
        drop(held);
        assert_eq!(hosts.patience(host(1), LONGEST), LONGEST / 4);
    }
}
