//! The thread that looks: once a second, whoever asks or does not. It owns the observer and puts every look on
//! the board. A look that panics is logged and the observer begins anew: the daemon goes on.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use airamp_machine::Machine;
use airamp_observer::Observer;
use airamp_observer::view::Node;

use crate::board::Board;
use crate::configuration::Looks;
use crate::evidence::Writer;
use crate::log::say;

const EVERY: Duration = Duration::from_secs(1);

/// Drivers take milliseconds to answer, and their counters are scraped every quarter of a minute or so.
const HARDWARE_EVERY: Duration = Duration::from_secs(5);

/// A driver that answers later than this is shown with the age of its last answer.
const WAIT_FOR_HARDWARE: Duration = Duration::from_millis(100);

/// What the looking thread is told. It ends when this is dropped.
pub(crate) struct Looking {
    orders: Sender<Orders>,
}

struct Orders {
    looks: Looks,
    evidence: Option<Writer>,
}

/// Looks, once.
pub(crate) fn once(looks: &Looks) -> (Node, Duration) {
    let (mut observer, machine) = (observer(looks), machine(looks));
    look(&mut observer, &machine, Duration::from_secs(5))
}

impl Looking {
    pub(crate) fn start(looks: Looks, evidence: Option<Writer>, board: Arc<Board>) -> std::io::Result<Self> {
        let (orders, inbox) = channel();
        std::thread::Builder::new()
            .name("looks".to_owned())
            .spawn(move || keep_looking(Orders { looks, evidence }, &inbox, &board))?;
        Ok(Self { orders })
    }

    /// From the next look on.
    pub(crate) fn change(&self, looks: Looks, evidence: Option<Writer>) {
        let _ = self.orders.send(Orders { looks, evidence });
    }
}

fn keep_looking(mut orders: Orders, inbox: &Receiver<Orders>, board: &Board) {
    let (mut eyes, mut hardware) = (observer(&orders.looks), machine(&orders.looks));
    loop {
        let began = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| look(&mut eyes, &hardware, WAIT_FOR_HARDWARE))) {
            Ok((node, took)) => board.publish(node, took),
            Err(_) => {
                say("a look failed and everything is counted anew; please report this");
                eyes = observer(&orders.looks);
            }
        }
        let windows = catch_unwind(AssertUnwindSafe(|| eyes.windows())).unwrap_or_default();
        if let Some(writer) = &orders.evidence {
            windows.into_iter().for_each(|window| writer.keep(window));
            writer.count_dropped(eyes.windows_dropped());
        }
        // Looks that take longer than a second still leave the machine a pause.
        match inbox.recv_timeout(EVERY.saturating_sub(began.elapsed()).max(EVERY / 10)) {
            Ok(new) => {
                look_by(&orders.looks, &new.looks, &mut eyes, &mut hardware);
                orders = new;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What is known is kept where it can be: whoever follows counters or events should not notice that a limit changed.
fn look_by(before: &Looks, now: &Looks, eyes: &mut Observer, hardware: &mut Machine) {
    if now.bases != before.bases {
        *eyes = observer(now);
    }
    eyes.judge_by(now.hang_after, now.late_after);
    if (now.devices, now.nics) != (before.devices, before.nics) {
        *hardware = machine(now);
    }
}

fn look(observer: &mut Observer, machine: &Machine, wait: Duration) -> (Node, Duration) {
    let began = Instant::now();
    let mut node = observer.look();
    let took = began.elapsed();
    let ranks = node.jobs.iter().flat_map(|job| &job.ranks);
    machine.show_interfaces(ranks.map(|rank| rank.nic.clone()).collect::<BTreeSet<_>>());
    node.machine = machine.reading(wait);
    (node, took)
}

fn observer(looks: &Looks) -> Observer {
    Observer::new(airamp_observer::Options {
        bases: looks.bases.clone(),
        hang_after: looks.hang_after,
        late_after: looks.late_after,
    })
}

fn machine(looks: &Looks) -> Machine {
    Machine::watch(airamp_machine::Options {
        devices: looks.devices,
        nics: looks.nics,
        fresh_for: HARDWARE_EVERY,
        ..Default::default()
    })
}
