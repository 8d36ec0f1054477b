//! The process's one place at the control plane: it starts the thread and hands it what the application's threads
//! ask for. Nothing here waits.

use crate::brain::Brain;
use crate::control;
use crate::mailbox::{Command, Joining, Mailbox};
use crate::options::{GRACE, Log, Options, Timeouts};
use crate::process;
use crate::seat::{Invitation, Place, Seat};
use crate::trailer::Trailer;
use crate::{listening, orders};
use airamp_agreement::{Gate, Hello, Settled, Term};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub struct Hub {
    options: Options,
    mailbox: Arc<Mailbox>,
    seats: AtomicU64,
    thread: Option<JoinHandle<()>>,
    epoch: u64,
}

impl Hub {
    /// The process's own hub; the first use starts its thread.
    pub fn get(timeouts: Timeouts, job: &str, log: Log) -> io::Result<&'static Self> {
        if let Some(hub) = process::hub() {
            return Ok(hub);
        }
        let mut options = Options::from_environment(timeouts, job, log);
        options.orders = orders::folder();
        // Threads that arrive together each start one; the first to publish it speaks.
        match process::publish(Box::new(Self::start(options)?)) {
            Ok(hub) => Ok(hub),
            Err(late) => {
                drop(late);
                process::hub().ok_or_else(|| io::Error::other("the process was forked meanwhile"))
            }
        }
    }

    /// A hub beside the process's own, for tests. It ends when it is dropped.
    pub fn start(options: Options) -> io::Result<Self> {
        let (mailbox, thread) = control::start(&options)?;
        Ok(Self { options, mailbox, seats: AtomicU64::new(0), thread: Some(thread), epoch: process::epoch() })
    }

    /// Listens on a local address, if it does not yet, and lets in who brings the token of the trailer.
    pub fn introduce(&self, near: IpAddr) -> io::Result<Trailer> {
        let (address, listener) = listening::on(&self.mailbox, near)?;
        if let Some(listener) = listener {
            self.put(Command::Listen(listener))?;
        }
        let token = self.invite()?;
        Ok(Trailer { address, token })
    }

    /// An invitation for ranks of this process alone (ncclCommInitAll): no network.
    pub fn introduce_within(&self) -> io::Result<Invitation> {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        Ok(Invitation { address, token: self.invite()?, clique: 0 })
    }

    fn invite(&self) -> io::Result<[u8; 16]> {
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
        self.put(Command::Invite(token))?;
        Ok(token)
    }

    /// Takes a seat at a communicator's table. Returns at once; the rest happens in the background.
    pub fn join(
        &self,
        to: &Invitation,
        mut hello: Hello,
        gate: Arc<Gate>,
        reserved: Box<dyn Fn() -> u64 + Send>,
        brain: Box<dyn Brain>,
    ) -> Seat {
        let id = 1 + self.seats.fetch_add(1, Ordering::Relaxed);
        let Timeouts { consensus, doubt } = self.options.timeouts;
        let longest = consensus.saturating_add(doubt).saturating_add(GRACE + Duration::from_secs(5));
        let longest = longest.min(Duration::from_secs(86_400));
        let place = Arc::new(Place::new(id, gate, Arc::clone(&self.mailbox), longest));
        hello.terms.insert(0, protocol_term(self.options.protocol));
        let joining = Joining { place: Arc::clone(&place), invitation: *to, hello, reserved, brain };
        if let Err(error) = self.put(Command::Join(Box::new(joining))) {
            place.settle(Settled::Off { reason: error.to_string() });
        }
        Seat { place }
    }

    fn put(&self, command: Command) -> io::Result<()> {
        if self.mailbox.put(command) {
            return Ok(());
        }
        let reason = self.mailbox.is_closed().unwrap_or_default();
        Err(io::Error::other(format!("the control thread has stopped: {reason}")))
    }

    /// For tests: what a defect in the thread would do.
    #[doc(hidden)]
    pub fn panic_for_tests(&self) {
        self.mailbox.put(Command::Panic);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if self.epoch != process::epoch() {
            return;
        }
        self.mailbox.put(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn protocol_term(protocol: u16) -> Term {
    Term { name: "protocol".into(), value: protocol.to_string() }
}
