//! What the application's threads ask of the control thread. Putting something in never waits for it to be done.

use crate::brain::Brain;
use crate::descriptors::Ours;
use crate::reports;
use crate::seat::{Invitation, Place};
use airamp_agreement::{Capable, Hello, Order};
use mio::net::TcpListener;
use socket2::SockRef;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub(crate) enum Command {
    Listen(Ours<TcpListener>),
    /// Who brings this token is let in.
    Invite([u8; 16]),
    Join(Box<Joining>),
    Prepared(u64, Result<Capable, String>),
    Connected(u64, Result<(), String>),
    Order(u64, Order),
    End(u64),
    Stop,
    /// For tests: what a defect in the thread would do.
    Panic,
}

pub(crate) struct Joining {
    pub(crate) place: Arc<Place>,
    pub(crate) invitation: Invitation,
    pub(crate) hello: Hello,
    pub(crate) reserved: Box<dyn Fn() -> u64 + Send>,
    pub(crate) brain: Box<dyn Brain>,
}

pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
    waker: Ours<UnixStream>,
    /// The local addresses that this process listens on.
    pub(crate) listening: Mutex<HashMap<IpAddr, SocketAddr>>,
    /// Reports have their own places, so that a call never allocates or waits for one.
    pub(crate) reports: reports::Bell,
}

#[derive(Default)]
struct Inner {
    commands: Vec<Command>,
    places: Vec<Weak<Place>>,
    /// Why the thread has stopped.
    closed: Option<String>,
}

impl Mailbox {
    pub(crate) fn new(waker: Ours<UnixStream>) -> Self {
        Self {
            inner: Mutex::default(),
            waker,
            listening: Mutex::default(),
            reports: reports::Bell::default(),
        }
    }

    /// False if there is no thread any more.
    pub(crate) fn put(&self, command: Command) -> bool {
        let mut inner = self.lock();
        if inner.closed.is_some() {
            return false;
        }
        if let Command::Join(joining) = &command {
            inner.places.retain(|place| place.strong_count() > 0);
            inner.places.push(Arc::downgrade(&joining.place));
        }
        let first = inner.commands.is_empty();
        inner.commands.push(command);
        drop(inner);
        if first {
            self.wake();
        }
        true
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        std::mem::take(&mut self.lock().commands)
    }

    pub(crate) fn wake(&self) {
        // An application may close all descriptors; then the number may be its own by now.
        if self.waker.is_there() {
            // Full means that the thread has been woken often enough. Of one that has stopped no signal tells the program.
            let _ = SockRef::from(&*self.waker).send_with_flags(&[1], libc::MSG_NOSIGNAL);
        } else {
            self.close("its descriptors were closed");
        }
    }

    /// The thread has stopped, or can no longer be reached. No seat waits for it any more.
    pub(crate) fn close(&self, reason: &str) {
        let mut inner = self.lock();
        inner.closed.get_or_insert_with(|| reason.to_owned());
        let (commands, places) = (std::mem::take(&mut inner.commands), std::mem::take(&mut inner.places));
        drop(inner);
        drop(commands);
        places.iter().filter_map(Weak::upgrade).for_each(|place| place.thread_is_gone(reason));
    }

    pub(crate) fn is_closed(&self) -> Option<String> {
        self.lock().closed.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends of what wakes the thread.
pub(crate) fn waker() -> io::Result<(Ours<UnixStream>, Ours<mio::net::UnixStream>)> {
    let (write, read) = UnixStream::pair()?;
    write.set_nonblocking(true)?;
    read.set_nonblocking(true)?;
    Ok((Ours::new(write)?, Ours::new(mio::net::UnixStream::from_std(read))?))
}
