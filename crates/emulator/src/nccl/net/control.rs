//! The control ring: each rank is connected to the next and to the one before, and a thread listens.
//!
//! It carries what the data links cannot: that a peer died, why a communicator failed, that a
//! rank took its leave, and announcements of operations whose data does not pass every rank.
//! The thread makes no GPU call. Its events go to the communicator, which decides.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::time::Duration;

use super::wire::{Reader, Writer};
use crate::nccl::lock;

/// The longest message; anything longer is not ours.
const MOST_BYTES: u32 = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbour {
    Next,
    Previous,
}

#[derive(Debug)]
pub(crate) enum Event {
    /// A fault that some rank found: result code and text.
    Fault(u32, String),
    /// The header of an operation that the neighbour has begun.
    Announcement(Vec<u8>),
    /// The neighbour's connection ended; `true` after a farewell.
    Left(bool),
}

const FAULT: u32 = 1;
const ANNOUNCEMENT: u32 = 2;
const FAREWELL: u32 = 3;

pub(crate) struct Control {
    next: Mutex<TcpStream>,
    previous: Mutex<TcpStream>,
}

/// Hears one event of a neighbour.
pub(crate) type Listener = Box<dyn Fn(Neighbour, Event) + Send>;

impl Control {
    /// Takes the two connections; nothing is heard yet.
    pub(crate) fn new(next: TcpStream, previous: TcpStream) -> std::io::Result<Self> {
        for stream in [&next, &previous] {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        }
        Ok(Self { next: next.into(), previous: previous.into() })
    }

    /// Starts the thread that listens to both neighbours.
    pub(crate) fn listen(&self, listener: Listener) -> std::io::Result<()> {
        let ears = vec![
            (Neighbour::Next, lock(&self.next).try_clone()?),
            (Neighbour::Previous, lock(&self.previous).try_clone()?),
        ];
        let thread = std::thread::Builder::new().name("airamp-nccl-ctrl".into());
        drop(thread.spawn(move || listen(ears, &listener))?);
        Ok(())
    }

    pub(crate) fn tell_fault(&self, to: Neighbour, code: u32, text: &str) {
        let mut body = Writer::default();
        body.u32(code);
        body.bytes.extend(text.as_bytes());
        self.send(to, FAULT, &body.bytes);
    }

    pub(crate) fn announce(&self, header: &[u8]) {
        self.send(Neighbour::Next, ANNOUNCEMENT, header);
    }

    /// Says that this rank leaves in peace, then closes.
    pub(crate) fn farewell(&self) {
        for neighbour in [Neighbour::Next, Neighbour::Previous] {
            self.send(neighbour, FAREWELL, &[]);
        }
        self.close();
    }

    pub(crate) fn close(&self) {
        for stream in [&self.next, &self.previous] {
            let _ = lock(stream).shutdown(Shutdown::Both);
        }
    }

    /// Best effort: a neighbour that cannot be written to is gone, which its end of the
    /// connection tells the listener.
    fn send(&self, to: Neighbour, kind: u32, body: &[u8]) {
        let mut writer = Writer::default();
        writer.u32(kind);
        writer.u32(body.len() as u32);
        writer.bytes.extend(body);
        let stream = match to {
            Neighbour::Next => &self.next,
            Neighbour::Previous => &self.previous,
        };
        let _ = lock(stream).write_all(&writer.bytes);
    }
}

fn listen(mut ears: Vec<(Neighbour, TcpStream)>, listener: &Listener) {
    while !ears.is_empty() {
        let mut wanted: Vec<libc::pollfd> = ears
            .iter()
            .map(|(_, stream)| libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        if super::link::wait(&mut wanted, None).is_err() {
            return;
        }
        let mut index = 0;
        ears.retain_mut(|(neighbour, stream)| {
            let ready = wanted[index].revents != 0;
            index += 1;
            !ready || hear(*neighbour, stream, listener)
        });
    }
}

/// Reads one message; answers whether more can come.
fn hear(neighbour: Neighbour, stream: &mut TcpStream, listener: &Listener) -> bool {
    let event = match read_message(stream) {
        Some((FAULT, body)) => {
            let mut reader = Reader(&body);
            let code = reader.u32().unwrap_or(0);
            Event::Fault(code, String::from_utf8_lossy(reader.0).into_owned())
        }
        Some((ANNOUNCEMENT, body)) => Event::Announcement(body),
        Some((FAREWELL, _)) => Event::Left(true),
        _ => Event::Left(false),
    };
    let goes_on = !matches!(event, Event::Left(_));
    listener(neighbour, event);
    goes_on
}

fn read_message(stream: &mut TcpStream) -> Option<(u32, Vec<u8>)> {
    let mut head = [0; 8];
    stream.read_exact(&mut head).ok()?;
    let mut reader = Reader(&head);
    let (kind, length) = (reader.u32()?, reader.u32()?);
    if length > MOST_BYTES {
        return None;
    }
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body).ok()?;
    Some((kind, body))
}
