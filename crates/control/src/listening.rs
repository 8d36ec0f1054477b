//! Listeners: one per local address, made by whichever thread needs it first, and kept.

use crate::descriptors::Ours;
use crate::mailbox::Mailbox;
use mio::net::TcpListener;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::PoisonError;

/// More local addresses than a host's vendor library would choose from.
const MOST: usize = 16;
/// Thousands of ranks may come at once.
const BACKLOG: i32 = 4096;

/// Where this process listens on that address; with the listener, for the thread, if it is new.
pub(crate) fn on(mailbox: &Mailbox, ip: IpAddr) -> io::Result<(SocketAddr, Option<Ours<TcpListener>>)> {
    let mut listening = mailbox.listening.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(address) = listening.get(&ip) {
        return Ok((*address, None));
    }
    if listening.len() >= MOST {
        return Err(io::Error::other("this process listens on too many addresses"));
    }
    let wanted = SocketAddr::new(ip, 0);
    let socket = Socket::new(Domain::for_address(wanted), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.bind(&wanted.into())?;
    socket.listen(BACKLOG)?;
    let listener = Ours::new(TcpListener::from_std(socket.into()))?;
    let address = listener.local_addr()?;
    listening.insert(ip, address);
    Ok((address, Some(listener)))
}
