//! The HTTP server: one thread, so many connections, bounded in size and time. It knows what is asked and who
//! may ask (`admission`), who is connected (`room`) and what to answer (`answers`); it never looks at a process.

mod admission;
mod answers;
pub mod host;
pub mod query;
mod room;
mod socket;

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::board::Board;
use crate::configuration::Access;
use crate::evidence::Folder;
use crate::itself;
use crate::log::say;
use room::{Room, Seat};
use socket::Socket;

const MOST_CONNECTIONS: usize = 256;

/// The whole head of a request; more is answered with 431.
const MOST_HEAD_BYTES: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;

/// At the end, for answers that are on their way.
const LONGEST_GOODBYE: Duration = Duration::from_secs(2);

/// When no connection can be accepted, for want of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Under which conditions questions are answered; a reload replaces it for the next question of everybody.
pub(crate) struct Terms {
    pub(crate) access: Access,
    pub(crate) listen: SocketAddr,
    pub(crate) evidence: Option<Arc<Folder>>,
}

impl Terms {
    /// Whether only this machine can reach the address.
    pub(crate) fn loopback(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }

    /// Whether who is connected under these terms is connected as the other ones would have it.
    fn connects_like(&self, other: &Self) -> bool {
        self.listen == other.listen && self.access.tls.is_some() == other.access.tls.is_some()
    }
}

pub(crate) struct Server {
    terms: RefCell<Rc<Terms>>,
    room: Rc<Room>,
    board: Arc<Board>,
    /// Told to the connections there are: they end with the answer that is on its way.
    farewell: watch::Sender<()>,
}

impl Server {
    pub(crate) fn new(terms: Terms, board: Arc<Board>) -> Rc<Self> {
        let room = Room::new(connections_at_once(), Arc::clone(&board));
        Rc::new(Self { terms: RefCell::new(Rc::new(terms)), room, board, farewell: watch::Sender::new(()) })
    }

    /// Nobody goes on in clear, or from where nobody can connect any more.
    pub(crate) fn change(&self, terms: Terms) {
        let terms = Rc::new(terms);
        let before = self.terms.replace(Rc::clone(&terms));
        if !before.connects_like(&terms) {
            self.farewell.send_replace(());
        }
    }

    /// Accepts for as long as it is polled.
    pub(crate) async fn accept(self: &Rc<Self>, listener: &TcpListener) {
        let mut was_well = true;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    self.welcome(stream);
                    was_well = true;
                }
                Err(error) if is_about_one_client(&error) => {}
                Err(error) => {
                    if was_well {
                        say(format_args!("no connection can be accepted: {error}"));
                    }
                    was_well = false;
                    self.room.send_one_away();
                    sleep(PAUSE).await;
                }
            }
            // Those who were sent away must get their turn to leave.
            tokio::task::yield_now().await;
        }
    }

    fn welcome(self: &Rc<Self>, stream: TcpStream) {
        let (server, seated) = (Rc::clone(self), self.room.enter());
        let farewell = self.farewell.subscribe();
        tokio::task::spawn_local(async move {
            let socket = Socket::new(stream);
            tokio::select! {
                () = server.converse(&socket, &seated.seat, farewell) => {}
                () = seated.seat.until_over() => {}
            }
        });
    }

    async fn converse(self: &Rc<Self>, socket: &Socket, seat: &Rc<Seat>, farewell: watch::Receiver<()>) {
        let tls = self.terms.borrow().access.tls.clone();
        match tls {
            None => self.speak_http(socket.clone(), seat, farewell).await,
            Some(config) => {
                if let Ok(stream) = TlsAcceptor::from(config).accept(socket.clone()).await {
                    self.speak_http(stream, seat, farewell).await;
                }
            }
        }
        socket.part().await;
    }

    async fn speak_http(
        self: &Rc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        seat: &Rc<Seat>,
        mut farewell: watch::Receiver<()>,
    ) {
        let service = service_fn(|question| {
            seat.asked();
            let (server, terms) = (Rc::clone(self), Rc::clone(&self.terms.borrow()));
            async move {
                let (parts, _unread): (_, hyper::body::Incoming) = hyper::Request::into_parts(question);
                Ok::<_, Infallible>(answers::answer(&parts, terms, &server.board).await)
            }
        });
        // Time limits are the seat's, hence none of hyper's.
        let mut connection = pin!(
            http1::Builder::new()
                .max_buf_size(MOST_HEAD_BYTES)
                .max_headers(MOST_HEADERS)
                .header_read_timeout(None)
                .serve_connection(TokioIo::new(stream), service)
        );
        tokio::select! {
            // First, so that no question is read that came after it.
            biased;
            _ = farewell.changed() => connection.as_mut().graceful_shutdown(),
            _ = connection.as_mut() => return,
        }
        let _ = connection.await;
    }

    /// Lets answers that are on their way arrive, for a little while.
    pub(crate) async fn end(&self) {
        self.farewell.send_replace(());
        let _ = timeout(LONGEST_GOODBYE, self.room.until_empty()).await;
    }
}

/// The connection was gone before it was accepted; the next one may be well.
fn is_about_one_client(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// Half of the descriptors at most: the other half is for telemetry files, one per process that is watched.
fn connections_at_once() -> usize {
    (itself::descriptors() / 2).clamp(4, MOST_CONNECTIONS)
}
