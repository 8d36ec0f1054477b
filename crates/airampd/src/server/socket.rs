//! A TCP connection that its HTTP half and its owner share: when HTTP is done with it, the owner can still read
//! away what the client was sending, so that a refusal reaches a client who has not finished speaking.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

/// A client who sends more after its answer loses the answer, as it would anywhere.
const MOST_READ_AWAY: usize = 1 << 20;
const LONGEST_READING_AWAY: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct Socket(Rc<TcpStream>);

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Answers are written whole; waiting for more would only delay them.
        let _ = stream.set_nodelay(true);
        Self(Rc::new(stream))
    }

    /// Says that nothing more comes, and reads until the client has seen it. Closing with unread bytes would make
    /// the kernel reset the connection, and the client might never see the answer.
    pub(crate) async fn part(&self) {
        if SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write).is_ok() {
            let _ = timeout(LONGEST_READING_AWAY, self.read_away()).await;
        }
    }

    async fn read_away(&self) {
        let (mut buffer, mut read) = ([0; 4096], 0);
        while read < MOST_READ_AWAY {
            if self.0.readable().await.is_err() {
                return;
            }
            match self.0.try_read(&mut buffer) {
                Ok(0) => return,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(into.initialize_unfilled()) {
                Ok(bytes) => {
                    into.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    /// Else an answer's body would be copied for every client.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write))
    }
}
