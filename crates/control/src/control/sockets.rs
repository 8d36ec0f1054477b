//! Sockets of the control thread: accepting, reading, writing, and what the loss of one means. A stranger costs
//! bounded memory here and one line in the log.

use super::connection::{Connection, Role, Stream};
use super::{Control, Work};
use crate::descriptors::Ours;
use crate::timers::Alarm;
use crate::wire;
use airamp_agreement::{LeaderEvent, ToLeader};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

const MOST_CONNECTIONS: usize = 8192;
const MOST_UNOPENED: usize = 64;
/// A connection says what it is for within this time.
const SILENCE: Duration = Duration::from_secs(5);
/// Descriptors may be short for a while.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// Reads of one connection before others have their turn.
const TURN: usize = 8;
/// Newcomers before others have theirs: strangers may come faster than they are shown out.
const ADMITTED: usize = 64;

impl Control {
    pub(super) fn listen(&mut self, mut listener: Ours<TcpListener>) {
        let token = self.token();
        match self.poll.registry().register(&mut *listener, token, Interest::READABLE) {
            Ok(()) => drop(self.listeners.insert(token, listener)),
            Err(error) => (self.options.log.warn)(&format!("cannot wait for connections: {error}")),
        }
    }

    pub(super) fn accept(&mut self, token: Token) {
        for _ in 0..ADMITTED {
            let Some(listener) = self.listeners.get(&token).filter(|listener| listener.is_there()) else {
                return;
            };
            match listener.accept() {
                Ok((stream, from)) => self.admit(stream, from),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => return self.timers.start(Alarm::Accept(token), ACCEPT_AGAIN),
            }
        }
        self.has_more(token);
    }

    fn admit(&mut self, stream: TcpStream, from: SocketAddr) {
        if self.connections.len() >= MOST_CONNECTIONS {
            return self.stranger(&format!("{from}: too many connections"));
        }
        if self.unopened.len() >= MOST_UNOPENED
            && let Some(oldest) = self.unopened.front().copied()
        {
            // It may have spoken while others were accepted.
            self.read(oldest);
            if self.unopened.front() == Some(&oldest) {
                self.lose(oldest, "too many connections that say nothing");
            }
        }
        tune(&stream);
        let Ok(stream) = Ours::new(stream) else { return };
        let Some(token) = self.adopt(Connection::new(Stream::Tcp(stream), Role::Unopened)) else { return };
        self.unopened.push_back(token);
        self.timers.start(Alarm::Silence(token), SILENCE);
        self.read(token);
        self.work_off();
    }

    /// Registers a connection; `None` if that fails, and it is gone.
    pub(super) fn adopt(&mut self, mut connection: Connection) -> Option<Token> {
        let token = self.token();
        let (registry, both) = (self.poll.registry(), Interest::READABLE | Interest::WRITABLE);
        let registered = match &mut connection.stream {
            Stream::Tcp(stream) => registry.register(&mut **stream, token, both),
            Stream::Unix(stream) => registry.register(&mut **stream, token, both),
        };
        registered.ok()?;
        self.connections.insert(token, connection);
        Some(token)
    }

    /// The socket of a seat that calls somebody. `None` if it fails at once.
    pub(super) fn call(&mut self, address: SocketAddr, role: Role) -> Option<Token> {
        let stream = TcpStream::connect(address).ok()?;
        tune(&stream);
        self.adopt(Connection::new(Stream::Tcp(Ours::new(stream).ok()?), role))
    }

    pub(super) fn ready(&mut self, token: Token, event: &Event) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if connection.is_ringing {
            match connection.is_answered() {
                Ok(true) => connection.is_ringing = false,
                Ok(false) if !event.is_error() => return,
                Ok(false) => return self.lose(token, "nobody answers"),
                Err(error) => return self.lose(token, &error.to_string()),
            }
            self.is_answered(token);
        }
        if event.is_writable() {
            self.flush(token);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(token);
        }
    }

    pub(super) fn flush(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match connection.flush() {
            Ok(()) if connection.role == Role::Closing && connection.has_written_all() => {
                self.drop_connection(token)
            }
            Ok(()) => {}
            Err(error) => self.lose(token, &error.to_string()),
        }
    }

    pub(super) fn read(&mut self, token: Token) {
        for _ in 0..TURN {
            let Some(connection) = self.connections.get_mut(&token) else { return };
            match connection.fill() {
                Ok(None) => return,
                Ok(Some(true)) => self.take_frames(token),
                Ok(Some(false)) => return self.lose(token, "it was closed"),
                Err(error) => return self.lose(token, &error.to_string()),
            }
        }
        self.has_more(token);
    }

    /// It has its next turn behind the others, and not two of them.
    fn has_more(&mut self, token: Token) {
        if !self.unfinished.contains(&token) {
            self.unfinished.push(token);
        }
    }

    fn take_frames(&mut self, token: Token) {
        while let Some(connection) = self.connections.get_mut(&token) {
            match connection.next_frame() {
                Ok(None) => return,
                Ok(Some(_)) if connection.role == Role::Closing => {}
                Ok(Some(frame)) => {
                    self.on_frame(token, frame);
                    self.count_for_cut(token);
                }
                Err(error) => return self.lose(token, &error.to_string()),
            }
        }
    }

    fn on_frame(&mut self, token: Token, frame: wire::Frame) {
        let Some(connection) = self.connections.get(&token) else { return };
        let role = connection.role;
        match role {
            Role::Unopened => self.open(token, &frame),
            Role::Operator => self.take_order(token, &frame.body),
            Role::ToIntroducer(id) | Role::ToLeader(id) if frame.protocol != self.options.protocol => {
                self.leader_speaks(id, token, frame.protocol);
            }
            Role::ToIntroducer(id) | Role::ToLeader(id) => match wire::decode(&frame.body) {
                Ok(down) => self.is_told(id, token, down),
                Err(error) => self.lose(token, &error.to_string()),
            },
            Role::Member { leader, rank } => match wire::decode::<ToLeader>(&frame.body) {
                Ok(message) if frame.protocol == self.options.protocol => {
                    self.work.push_back(Work::Leader(leader, LeaderEvent::From(rank, message)));
                }
                _ => self.lose(token, "it sent what makes no sense"),
            },
            // Whoever waits to hear of the leader has nothing to say.
            Role::Introduced { .. } => self.lose(token, "it spoke out of turn"),
            Role::Closing => {}
        }
    }

    pub(super) fn send(&mut self, token: Token, body: &[u8]) {
        let Ok(bytes) = wire::frame(self.options.protocol, body) else {
            return self.lose(token, "a message was too long");
        };
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match connection.send(&bytes) {
            Ok(()) => self.count_for_cut(token),
            Err(error) => self.lose(token, &error.to_string()),
        }
    }

    /// Writes what is left to write, then closes. The role's end is the caller's affair.
    pub(super) fn finish(&mut self, token: Token) {
        self.forget_unopened(token);
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.role = Role::Closing;
        if connection.has_written_all() || connection.is_ringing {
            self.drop_connection(token);
        } else {
            self.timers.start(Alarm::Silence(token), SILENCE);
        }
    }

    /// The connection is gone, or has to go.
    pub(super) fn lose(&mut self, token: Token, why: &str) {
        let Some(connection) = self.connections.get(&token) else { return };
        let role = connection.role;
        if role == Role::Unopened {
            let from = match &connection.stream {
                Stream::Tcp(stream) => stream.peer_addr().map(|from| from.to_string()).unwrap_or_default(),
                Stream::Unix(_) => String::new(),
            };
            self.stranger(&format!("{from}: {why}"));
        }
        self.drop_connection(token);
        match role {
            Role::Introduced { token: of, clique, rank } => {
                self.introductions.is_gone(&of, clique, rank, token);
                self.introductions.tidy(&of, clique);
            }
            Role::Member { leader, rank } => self.link_of_member_is_lost(leader, rank, token),
            Role::ToIntroducer(id) | Role::ToLeader(id) => self.call_is_lost(id, token, why),
            Role::Unopened | Role::Operator | Role::Closing => {}
        }
    }

    fn drop_connection(&mut self, token: Token) {
        self.forget_unopened(token);
        self.timers.stop(Alarm::Silence(token));
        if let Some(mut connection) = self.connections.remove(&token)
            && connection.is_there()
        {
            // Closing does it too, unless a forked child still holds the socket.
            let registry = self.poll.registry();
            let _ = match &mut connection.stream {
                Stream::Tcp(stream) => registry.deregister(&mut **stream),
                Stream::Unix(stream) => registry.deregister(&mut **stream),
            };
        }
    }

    pub(super) fn forget_unopened(&mut self, token: Token) {
        if let Some(at) = self.unopened.iter().position(|other| *other == token) {
            self.unopened.remove(at);
            self.timers.stop(Alarm::Silence(token));
        }
    }

    /// Somebody who is none of ours. Told once; the rest is counted.
    fn stranger(&mut self, who: &str) {
        self.strangers += 1;
        if self.strangers == 1 {
            let who = wire::plain(who);
            (self.options.log.warn)(&format!(
                "a connection to the control port was refused ({who}); later ones are not reported"
            ));
        }
    }
}

/// What makes no difference to correctness, and may fail.
fn tune(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(Duration::from_secs(60)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listening;
    use crate::mailbox::{self, Mailbox};
    use crate::options::{Log, Options, Timeouts};
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    #[test]
    fn strangers_that_come_without_end_leave_others_their_turn() {
        const STRANGERS: usize = 300;
        let (write, read) = mailbox::waker().unwrap();
        let mailbox = Arc::new(Mailbox::new(write));
        let timeouts = Timeouts { consensus: SILENCE, doubt: SILENCE };
        let log = Log { warn: |_| {}, info: |_| {}, debug: |_| {} };
        let mut control = Control::new(Options::new(timeouts, "", log), Arc::clone(&mailbox), read).unwrap();
        let (address, listener) = listening::on(&mailbox, Ipv4Addr::LOCALHOST.into()).unwrap();
        control.listen(listener.unwrap());
        let listener = *control.listeners.keys().next().unwrap();
        let came: Vec<_> = (0..STRANGERS).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let (mut turns, before) = (0, control.tokens);
        control.accept(listener);
        while !control.unfinished.is_empty() {
            // As an event says that there are more.
            control.accept(listener);
            assert!(control.unfinished.len() <= 1, "one turn at a time, however often it is told");
            control.go_on();
            turns += 1;
        }
        assert_eq!(control.tokens - before, came.len());
        assert!(turns >= STRANGERS / ADMITTED / 2, "{turns}");
    }
}
