//! What a message costs the leader's thread in system calls, measured on loopback sockets of this machine.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const CONNECTIONS: u32 = 200;
const MESSAGES: u32 = 20_000;
/// About the size of a proposal with its header.
const BYTES: usize = 80;

#[derive(Clone, Copy)]
pub(crate) struct SocketCost {
    pub(crate) accept: Duration,
    pub(crate) receive: Duration,
    pub(crate) send: Duration,
}

impl SocketCost {
    pub(crate) fn measure() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut accept = Vec::new();
        let mut pairs = Vec::new();
        for _ in 0..CONNECTIONS {
            let far = TcpStream::connect(listener.local_addr()?)?;
            let began = Instant::now();
            let (near, _) = listener.accept()?;
            near.set_nonblocking(true)?;
            near.set_nodelay(true)?;
            accept.push(began.elapsed());
            pairs.push((near, far));
        }
        let (mut send, mut receive) = (Vec::new(), Vec::new());
        let mut buffer = [0_u8; BYTES];
        for turn in 0..MESSAGES {
            let (near, far) = &mut pairs[(turn % CONNECTIONS) as usize];
            let began = Instant::now();
            near.write_all(&buffer)?;
            send.push(began.elapsed());
            far.read_exact(&mut buffer)?;
            far.write_all(&buffer)?;
            let began = Instant::now();
            let got = near.read(&mut buffer)?;
            receive.push(began.elapsed());
            assert_eq!(got, BYTES, "loopback delivers a small message at once");
        }
        Ok(Self { accept: middle(accept), receive: middle(receive), send: middle(send) })
    }
}

/// The machine may have other things to do now and then; the mean would be theirs.
fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
