//! The life of the daemon: start, reload, end. It ties the looking thread, the server and the signals together
//! and keeps nothing of what they do.

use std::io::Write;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::LocalSet;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, sleep};

use crate::arguments::Arguments;
use crate::board::Board;
use crate::configuration::{Configuration, Evidence};
use crate::evidence::{Folder, Writer};
use crate::failure::Failure;
use crate::itself;
use crate::log::say;
use crate::looks::Looking;
use crate::notify::Notify;
use crate::server::{Server, Terms};

/// Whoever waits for the first look can be told after this that there is none yet.
const LONGEST_FIRST_LOOK: Duration = Duration::from_secs(5);

/// Who comes in a flood is kept waiting by the kernel, not turned away for a second.
const BACKLOG: u32 = 1024;

/// systemd should restart a daemon whose looks are stuck.
const WATCHDOG_FED_WITHIN: Duration = Duration::from_secs(30);

/// Serves until it is told to end.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let configuration = Configuration::load(arguments)?;
    tell(&configuration);
    let runtime = runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build()?;
    let ended = LocalSet::new().block_on(&runtime, Daemon::live(arguments, configuration));
    // A disk that hangs must not keep the process from ending.
    runtime.shutdown_background();
    ended
}

fn tell(configuration: &Configuration) {
    configuration.warnings.iter().chain(&configuration.notice).for_each(say);
}

struct Daemon<'a> {
    arguments: &'a Arguments,
    listener: TcpListener,
    /// As asked for; the port may be 0.
    listen: SocketAddr,
    evidence: (Evidence, Option<Kept>),
    board: Arc<Board>,
    looking: Looking,
    server: Rc<Server>,
    notify: Notify,
}

/// Where evidence goes, and who writes it.
#[derive(Clone)]
struct Kept {
    folder: Arc<Folder>,
    writer: Writer,
}

struct Signals {
    reload: Signal,
    terminate: Signal,
    interrupt: Signal,
}

enum Told {
    Reload,
    End,
}

impl<'a> Daemon<'a> {
    async fn live(arguments: &'a Arguments, configuration: Configuration) -> Result<(), Failure> {
        // Before anything else: a signal during the start counts too.
        let mut signals = Signals::watch()?;
        let mut daemon = Self::start(arguments, configuration)?;
        daemon.announce().await?;
        loop {
            let told = tokio::select! {
                told = signals.next() => told,
                () = daemon.server.accept(&daemon.listener) => continue,
                () = daemon.keep_watchdog_quiet() => continue,
            };
            match told {
                Told::Reload => daemon.reload()?,
                Told::End => break,
            }
        }
        daemon.notify.stopping();
        let Self { listener, server, .. } = daemon;
        drop(listener);
        server.end().await;
        Ok(())
    }

    fn start(arguments: &'a Arguments, configuration: Configuration) -> Result<Self, Failure> {
        let listener = listen(configuration.listen)?;
        let board = Arc::new(Board::new(itself::unix_ms()));
        let kept = keep_evidence(&configuration.evidence, &board);
        let writer = kept.as_ref().map(|kept| kept.writer.clone());
        let server = Server::new(terms(&configuration, &kept), Arc::clone(&board));
        let looking = Looking::start(configuration.looks, writer, Arc::clone(&board))?;
        Ok(Self {
            arguments,
            listener,
            listen: configuration.listen,
            evidence: (configuration.evidence, kept),
            board,
            looking,
            server,
            notify: Notify::from_environment(),
        })
    }

    /// Once there is something to serve, so that who waits for it need not ask twice.
    async fn announce(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + LONGEST_FIRST_LOOK;
        while self.board.age().is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(5)).await;
        }
        let address = self.listener.local_addr()?;
        if self.arguments.listen.is_some() {
            let mut output = std::io::stdout().lock();
            let _ = writeln!(output, "{address}").and_then(|()| output.flush());
        }
        self.notify.ready();
        Ok(())
    }

    /// What cannot be honoured leaves everything as it was, except that an address that was given up and cannot
    /// be had again ends the daemon.
    fn reload(&mut self) -> Result<(), Failure> {
        self.notify.reloading();
        match Configuration::load(self.arguments) {
            Ok(configuration) => {
                tell(&configuration);
                self.change_to(configuration)?;
                self.board.counts.reloads.fetch_add(1, Relaxed);
                say("settings, token and certificate were read again");
            }
            Err(failure) => say(format_args!("nothing was changed: {failure}")),
        }
        self.notify.ready();
        Ok(())
    }

    fn change_to(&mut self, mut configuration: Configuration) -> Result<(), Failure> {
        if configuration.listen != self.listen {
            self.listen_elsewhere(configuration.listen)?;
            configuration.listen = self.listen;
        }
        if configuration.evidence != self.evidence.0 {
            let kept = keep_evidence(&configuration.evidence, &self.board);
            self.evidence = (configuration.evidence.clone(), kept);
        }
        let writer = self.evidence.1.as_ref().map(|kept| kept.writer.clone());
        self.server.change(terms(&configuration, &self.evidence.1));
        self.looking.change(configuration.looks, writer);
        Ok(())
    }

    /// The old address is given up first: 0.0.0.0 cannot be had while 127.0.0.1 holds the port.
    fn listen_elsewhere(&mut self, address: SocketAddr) -> Result<(), Failure> {
        let placeholder = listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let before = self.listener.local_addr()?;
        drop(std::mem::replace(&mut self.listener, placeholder));
        match listen(address) {
            Ok(listener) => {
                self.listener = listener;
                self.listen = address;
                say(format_args!("serving at {address} from now on"));
            }
            Err(failure) => {
                say(format_args!("still serving at {before}: {failure}"));
                self.listener = listen(before)?;
            }
        }
        Ok(())
    }

    async fn keep_watchdog_quiet(&self) {
        let Some(every) = self.notify.every() else { return std::future::pending().await };
        let mut ticks = interval(every.max(Duration::from_millis(10)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.board.silence() < WATCHDOG_FED_WITHIN {
                self.notify.alive();
            }
        }
    }
}

impl Signals {
    fn watch() -> Result<Self, Failure> {
        Ok(Self {
            reload: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.reload.recv() => Told::Reload,
            _ = self.terminate.recv() => Told::End,
            _ = self.interrupt.recv() => Told::End,
        }
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listening = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listening().map_err(|error| Failure::listening(address, error))
}

fn terms(configuration: &Configuration, kept: &Option<Kept>) -> Terms {
    Terms {
        access: configuration.access.clone(),
        listen: configuration.listen,
        evidence: kept.as_ref().map(|kept| Arc::clone(&kept.folder)),
    }
}

/// Without evidence the daemon still serves.
fn keep_evidence(choice: &Evidence, board: &Arc<Board>) -> Option<Kept> {
    let opened = Folder::open(choice).and_then(|folder| {
        let Some(folder) = folder.map(Arc::new) else { return Ok(None) };
        let writer = Writer::start(Arc::clone(&folder), Arc::clone(board))?;
        Ok(Some(Kept { folder, writer }))
    });
    opened.unwrap_or_else(|error| {
        let (Evidence::In(path) | Evidence::Usual(path)) = choice;
        say(format_args!("no evidence is kept: {} cannot be written to: {error}", path.display()));
        None
    })
}
