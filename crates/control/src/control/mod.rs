//! The control thread: one per process. It waits for sockets, commands and alarms, drives the machines of
//! `airamp-agreement` and does what they say. It sleeps without a time-out while no alarm is set, takes no signals, and
//! makes no GPU or NCCL call. A panic in here ends the thread, not the process.

mod connection;
mod dialling;
mod driving;
mod introducing;
mod introductions;
mod opening;
mod ordering;
mod sockets;
mod table;

use crate::descriptors::Ours;
use crate::mailbox::{self, Command, Mailbox};
use crate::options::Options;
use crate::timers::{Alarm, Timers};
use airamp_agreement::{LeaderEvent, MemberEvent};
use connection::Connection;
use introductions::Introductions;
use mio::net::{TcpListener, UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use table::Chair;

const WAKE: Token = Token(0);
const STACK_BYTES: usize = 1 << 20;

pub(crate) fn start(options: &Options) -> io::Result<(Arc<Mailbox>, JoinHandle<()>)> {
    let (write, read) = mailbox::waker()?;
    let mailbox = Arc::new(Mailbox::new(write));
    let mut control = Control::new(options.clone(), Arc::clone(&mailbox), read)?;
    let (of_thread, log) = (Arc::clone(&mailbox), options.log);
    let body = move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| control.run()));
        // Closes all connections, so that the peers learn of it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(control)));
        let reason = match outcome {
            Ok(Ok(())) => "it was told to".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "an internal error".to_owned(),
        };
        if reason != "it was told to" {
            (log.warn)(&format!("the control thread has stopped: {reason}; no plan will change any more"));
        }
        of_thread.close(&reason);
    };
    let thread =
        without_signals(|| Builder::new().name("airamp-control".into()).stack_size(STACK_BYTES).spawn(body))?;
    Ok((mailbox, thread))
}

/// Makes a thread that takes no signals, since one inherits the mask of the thread that makes it. Signals of the thread's own faults stay: a debugger or a
/// crash reporter of the application wants to see those.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are initialised by the calls that get their addresses before anything reads them.
    unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT] {
            libc::sigdelset(blocked.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
    }
    let result = start();
    // SAFETY: `before` was filled by the first call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

/// Something for a machine to handle. Actions make more of it; it is worked off in order.
enum Work {
    Member(u64, MemberEvent),
    Leader(u64, LeaderEvent),
}

struct Control {
    options: Options,
    mailbox: Arc<Mailbox>,
    poll: ManuallyDrop<Ours<Poll>>,
    waker: Ours<UnixStream>,
    /// Tokens are not used twice.
    tokens: usize,
    listeners: HashMap<Token, Ours<TcpListener>>,
    order_socket: Option<(Token, Ours<UnixListener>)>,
    asked_for_orders: bool,
    connections: HashMap<Token, Connection>,
    /// Accepted, and nothing said yet; oldest first.
    unopened: VecDeque<Token>,
    /// More to read, or to accept, than one turn allows.
    unfinished: Vec<Token>,
    timers: Timers,
    chairs: HashMap<u64, Chair>,
    introductions: Introductions,
    work: VecDeque<Work>,
    strangers: u64,
    stopped: bool,
}

impl Drop for Control {
    fn drop(&mut self) {
        // Polls cannot be told apart as sockets can: if the one is gone, the other's number is not ours either.
        if self.waker.is_there() {
            // SAFETY: dropped here and nowhere else, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.poll) };
        }
    }
}

impl Control {
    fn new(options: Options, mailbox: Arc<Mailbox>, mut waker: Ours<UnixStream>) -> io::Result<Self> {
        let poll = Ours::unlisted(Poll::new()?)?;
        poll.registry().register(&mut *waker, WAKE, Interest::READABLE)?;
        Ok(Self {
            options,
            mailbox,
            poll: ManuallyDrop::new(poll),
            waker,
            tokens: 0,
            listeners: HashMap::new(),
            order_socket: None,
            asked_for_orders: false,
            connections: HashMap::new(),
            unopened: VecDeque::new(),
            unfinished: Vec::new(),
            timers: Timers::default(),
            chairs: HashMap::new(),
            introductions: Introductions::default(),
            work: VecDeque::new(),
            strangers: 0,
            stopped: false,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        while !self.stopped {
            let sleep = if self.unfinished.is_empty() { self.timers.sleep() } else { Some(Duration::ZERO) };
            let begin = Instant::now();
            let outcome = self.poll.poll(&mut events, sleep);
            let slept_too_long = sleep.map_or(Duration::ZERO, |asked| begin.elapsed().saturating_sub(asked));
            self.timers.make_up_for(slept_too_long);
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                outcome => outcome?,
            }
            if !self.waker.is_there() {
                return Err(io::Error::other("its descriptors were closed"));
            }
            self.take_commands();
            for event in &events {
                self.on_event(event);
                self.work_off();
            }
            self.go_on();
            self.take_commands();
            self.take_reports();
            while let Some(alarm) = self.timers.next_due() {
                self.on_alarm(alarm);
                self.work_off();
            }
        }
        Ok(())
    }

    /// Another turn for those that had more than one allows.
    fn go_on(&mut self) {
        for token in std::mem::take(&mut self.unfinished) {
            if self.listeners.contains_key(&token) {
                self.accept(token);
            } else {
                self.read(token);
            }
            self.work_off();
        }
    }

    fn on_event(&mut self, event: &mio::event::Event) {
        let token = event.token();
        if token == WAKE {
            let mut bytes = [0; 64];
            while matches!(self.waker.read(&mut bytes), Ok(count) if count > 0) {}
        } else if self.listeners.contains_key(&token) {
            self.accept(token);
        } else if self.order_socket.as_ref().is_some_and(|(of, _)| *of == token) {
            self.accept_orders();
        } else {
            self.ready(token, event);
        }
    }

    fn take_commands(&mut self) {
        for command in self.mailbox.take() {
            self.on_command(command);
            self.work_off();
        }
    }

    fn on_command(&mut self, command: Command) {
        let member = |id, event| Some(Work::Member(id, event));
        let work = match command {
            Command::Listen(listener) => {
                self.listen(listener);
                None
            }
            Command::Invite(token) => {
                self.introductions.invite(token);
                None
            }
            Command::Join(joining) => {
                self.join(*joining);
                None
            }
            Command::Prepared(id, capable) => {
                self.is_present(id);
                member(id, MemberEvent::Prepared(capable))
            }
            Command::Connected(id, result) => member(id, MemberEvent::Connected(result)),
            Command::Order(id, order) => member(id, MemberEvent::Order(order)),
            Command::End(id) => {
                self.end(id);
                None
            }
            Command::Stop => {
                self.stopped = true;
                None
            }
            Command::Panic => panic!("asked for by a test"),
        };
        self.work.extend(work);
    }

    fn take_reports(&mut self) {
        if !self.mailbox.reports.answer() {
            return;
        }
        for (id, chair) in &self.chairs {
            let reports = chair.place.reports.take().into_iter();
            self.work.extend(reports.map(|report| Work::Member(*id, MemberEvent::Report(report))));
        }
        self.work_off();
    }

    fn on_alarm(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Member(id, timer) => self.work.push_back(Work::Member(id, MemberEvent::TimeIsUp(timer))),
            Alarm::Leader(id, timer) => self.work.push_back(Work::Leader(id, LeaderEvent::TimeIsUp(timer))),
            Alarm::Redial(id) => self.dial(id),
            Alarm::Leaderless(id) => self.nobody_leads(id),
            Alarm::HangUp(id) => self.hang_up(id),
            Alarm::Brain(id) => self.ask_brain(id),
            Alarm::Silence(token) => self.lose(token, "it said nothing in time"),
            Alarm::Accept(token) if self.listeners.contains_key(&token) => self.accept(token),
            Alarm::Accept(_) => self.accept_orders(),
        }
    }

    fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }
}
