//! The job's ranks, and a plain TCP star around rank 0 that carries what NCCL cannot:
//! the unique ids, and agreement on whether a case went well. Every wait is bounded.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use crate::error::RankError;

const MEETING_TIME: Duration = Duration::from_secs(60);
const MESSAGE_TIME: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_millis(10);

/// This rank's place in the job.
pub(crate) struct World {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) local_rank: usize,
    address: String,
    /// On rank 0 the peers in rank order, elsewhere only rank 0.
    links: Vec<TcpStream>,
}

impl World {
    /// Reads the environment and connects to the peers. Alone without RANK and WORLD_SIZE.
    pub(crate) fn meet() -> Result<Self, RankError> {
        let (rank, size) = place()?;
        if std::env::var_os("WORLD_SIZE").is_none() {
            let address = String::new();
            return Ok(Self { rank, size, local_rank: 0, address, links: Vec::new() });
        }
        let host = std::env::var("MASTER_ADDR").unwrap_or_else(|_| "127.0.0.1".into());
        let address = if size == 1 { host } else { format!("{host}:{}", number("MASTER_PORT")?) };
        let links = match (rank, size) {
            (_, 1) => Ok(Vec::new()),
            (0, _) => accept_peers(&address, size),
            _ => call_rank_zero(&address, rank),
        };
        let links = links.map_err(|source| RankError::World { address: address.clone(), source })?;
        Ok(Self { rank, size, local_rank: number("LOCAL_RANK").unwrap_or(rank), address, links })
    }

    /// Gives every rank the bytes of rank 0.
    pub(crate) fn broadcast(&mut self, bytes: &mut [u8]) -> Result<(), RankError> {
        let sent = if self.rank == 0 {
            self.links.iter_mut().try_for_each(|link| link.write_all(bytes))
        } else {
            self.links.iter_mut().try_for_each(|link| link.read_exact(bytes))
        };
        self.named(sent)
    }

    /// Gives every rank the bytes of all ranks, in rank order.
    pub(crate) fn all_gather(&mut self, own: u8) -> Result<Vec<u8>, RankError> {
        let mut all = vec![own; self.size];
        let gathered = if self.rank == 0 {
            let mut places = all[1..].chunks_mut(1);
            self.links.iter_mut().zip(&mut places).try_for_each(|(link, place)| link.read_exact(place))
        } else {
            self.links.iter_mut().try_for_each(|link| link.write_all(&[own]))
        };
        self.named(gathered)?;
        self.broadcast(&mut all)?;
        Ok(all)
    }

    /// The connections of the star, for who ends all others.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.links.iter().map(AsRawFd::as_raw_fd).collect()
    }

    fn named<T>(&self, done: std::io::Result<T>) -> Result<T, RankError> {
        done.map_err(|source| RankError::World { address: self.address.clone(), source })
    }
}

/// This process's rank and how many there are, before they meet. Alone without WORLD_SIZE.
pub(crate) fn place() -> Result<(usize, usize), RankError> {
    match std::env::var_os("WORLD_SIZE") {
        None => Ok((0, 1)),
        Some(_) => Ok((number("RANK")?, number("WORLD_SIZE")?)),
    }
}

fn number(name: &'static str) -> Result<usize, RankError> {
    let value = std::env::var(name).map_err(|_| RankError::Environment(name))?;
    value.parse().map_err(|_| RankError::Environment(name))
}

fn accept_peers(address: &str, size: usize) -> std::io::Result<Vec<TcpStream>> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + MEETING_TIME;
    let mut peers: Vec<Option<TcpStream>> = (1..size).map(|_| None).collect();
    while peers.iter().any(Option::is_none) {
        match listener.accept() {
            Ok((stream, _)) => {
                let (rank, stream) = greet(stream)?;
                let place = rank.checked_sub(1).and_then(|index| peers.get_mut(index));
                *place.ok_or_else(|| std::io::Error::other(format!("a caller says it is rank {rank}")))? =
                    Some(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(RETRY);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(peers.into_iter().flatten().collect())
}

fn greet(mut stream: TcpStream) -> std::io::Result<(usize, TcpStream)> {
    stream.set_nonblocking(false)?;
    prepare(&stream)?;
    let mut rank = [0; 4];
    stream.read_exact(&mut rank)?;
    Ok((u32::from_le_bytes(rank) as usize, stream))
}

fn call_rank_zero(address: &str, rank: usize) -> std::io::Result<Vec<TcpStream>> {
    let deadline = Instant::now() + MEETING_TIME;
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) if Instant::now() < deadline => std::thread::sleep(RETRY),
            Err(error) => return Err(error),
        }
    };
    prepare(&stream)?;
    stream.write_all(&(rank as u32).to_le_bytes())?;
    Ok(vec![stream])
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(MESSAGE_TIME))
}
