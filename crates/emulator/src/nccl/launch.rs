//! From a closed group to work on streams: connect what is new, then one operation per communicator.
//!
//! A group that uses several streams of a communicator behaves as if posted on each: its first
//! stream waits for the others before, the others wait for it after. The ticket that orders a
//! communicator's operations is drawn when the device enqueues, so a captured operation draws
//! one per replay.

use std::sync::Arc;

use airamp_vendor_abi::cuda::{CudaError, EVENT_DISABLE_TIMING};

use super::call::{Collective, Kind, Message, Work};
use super::communicator::Communicator;
use super::communicator::connecting::{self, Needs};
use super::communicator::graphs::Captured;
use super::communicator::health::Phase;
use super::communicator::reductions::Scalar;
use super::communicator::turns::Ticket;
use super::error::{NcclError, Outcome};
use super::execute;
use crate::gpu::{self, Operation, Touch, event, stream};

/// All that a group does on one communicator.
pub(crate) struct Batch {
    pub(crate) comm: Arc<Communicator>,
    pub(crate) collectives: Vec<Collective>,
    pub(crate) sends: Vec<Message>,
    pub(crate) recvs: Vec<Message>,
    streams: Vec<usize>,
}

impl Batch {
    pub(crate) fn new(comm: Arc<Communicator>) -> Self {
        Self { comm, collectives: Vec::new(), sends: Vec::new(), recvs: Vec::new(), streams: Vec::new() }
    }

    pub(crate) fn add(&mut self, work: Work, stream: usize) {
        self.collectives.extend(work.collective);
        self.sends.extend(work.sends);
        self.recvs.extend(work.recvs);
        if !self.streams.contains(&stream) {
            self.streams.push(stream);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let messages = self.sends.iter().chain(&self.recvs).map(Message::bytes);
        self.collectives.iter().map(Collective::bytes).chain(messages).sum()
    }

    fn needs(&self) -> Outcome<Needs> {
        let own = self.comm.membership()?;
        let others =
            |messages: &[Message]| messages.iter().map(|m| m.peer).filter(|peer| *peer != own.rank).collect();
        // Gather and Scatter move nothing around the ring and are announced elsewhere.
        let on_ring = |collective: &Collective| !matches!(collective.kind, Kind::Gather | Kind::Scatter);
        let ring = own.size() > 1 && self.collectives.iter().any(on_ring);
        Ok(Needs { ring, to: others(&self.sends), from: others(&self.recvs), purpose: self.names() })
    }

    /// A rank's messages to itself have to pair up within the group.
    fn check_own_messages(&self) -> Outcome {
        let rank = self.comm.membership()?.rank;
        let own = |messages: &[Message]| -> Vec<usize> {
            messages.iter().filter(|message| message.peer == rank).map(Message::bytes).collect()
        };
        if own(&self.sends) == own(&self.recvs) {
            return Ok(());
        }
        let text = format!("rank {rank} sends to itself what it does not receive in the same group");
        super::error::announce(&text);
        Err(NcclError::InvalidUsage(text))
    }

    fn refuse_destroyed(&self) -> Outcome {
        if self.comm.health.phase() != Phase::Destroyed {
            return Ok(());
        }
        let text = format!("a communicator was destroyed inside a group that uses it for {}", self.names());
        super::error::announce(&text);
        Err(NcclError::InvalidUsage(text))
    }

    /// Looks at the streams, and says what a first use will be: its host call may wait for ever.
    fn prepare(&self, needs: &Needs) -> Outcome {
        let device = self.comm.device;
        gpu::set_current(device).map_err(|code| device_error("cudaSetDevice", code))?;
        let mut captured = 0;
        for stream in &self.streams {
            let owner = stream::device_of(*stream).map_err(|code| device_error("a stream", code))?;
            if owner != device {
                let text = format!(
                    "{} was given a stream of device {owner} and a communicator of device {device}",
                    self.names()
                );
                super::error::announce(&text);
                return Err(NcclError::Device(text));
            }
            let capturing = stream::is_capturing(*stream).map_err(|code| device_error("a stream", code))?;
            captured += usize::from(capturing);
        }
        if captured != 0 && captured != self.streams.len() {
            let text = "the streams of a group are neither all captured nor all not captured";
            return Err(NcclError::InvalidUsage(text.into()));
        }
        // What a graph will run has no number yet.
        if captured == 0 && connecting::is_first_use(&self.comm, needs)? {
            execute::intend(&self.comm, &self.collectives);
        }
        Ok(())
    }

    fn touches(&self) -> Outcome<Vec<Touch>> {
        let own = self.comm.membership()?;
        let mut touches = Vec::new();
        for collective in &self.collectives {
            collective_touches(collective, own.rank, own.size(), &mut touches);
        }
        touches.extend(self.sends.iter().map(|message| Touch::read(message.ptr, message.bytes())));
        touches.extend(self.recvs.iter().map(|message| Touch::write(message.ptr, message.bytes())));
        touches.retain(|touch| touch.len > 0);
        Ok(touches)
    }

    fn names(&self) -> String {
        let collectives = self.collectives.iter().map(|collective| collective.kind.name());
        // The messages of AlltoAll and its kin carry their collective's name already.
        let plain = self.collectives.is_empty();
        let sends = (plain && !self.sends.is_empty()).then_some("Send");
        let recvs = (plain && !self.recvs.is_empty()).then_some("Recv");
        let names: Vec<&str> = collectives.chain(sends).chain(recvs).collect();
        names.join("+")
    }
}

fn collective_touches(collective: &Collective, rank: usize, size: usize, touches: &mut Vec<Touch>) {
    let bytes = collective.bytes();
    let is_root = collective.root == rank;
    let (read, written) = match collective.kind {
        Kind::AllReduce => (bytes, bytes),
        Kind::Reduce => (bytes, if is_root { bytes } else { 0 }),
        Kind::ReduceScatter => (bytes * size, bytes),
        Kind::AllGather => (bytes, bytes * size),
        Kind::Broadcast => (if is_root { bytes } else { 0 }, bytes),
        // Their data are messages.
        _ => (0, 0),
    };
    touches.push(Touch::read(collective.send, read));
    touches.push(Touch::write(collective.recv, written));
    if collective.bias != 0 {
        touches.push(Touch::read(collective.bias, bytes));
    }
    if let Some(Scalar::Device(ptr)) = collective.scalar {
        touches.push(Touch::read(ptr, collective.element()));
    }
}

/// Connects and submits what a group has gathered.
pub(crate) fn launch(batches: Vec<Batch>) -> Outcome {
    let before = gpu::current_device().map_err(|code| device_error("cudaGetDevice", code))?;
    let launched = connect(&batches).and_then(|()| batches.into_iter().try_for_each(submit));
    gpu::set_current(before).map_err(|code| device_error("cudaSetDevice", code))?;
    launched
}

/// Checks everything that can be known before anybody waits, then makes the missing links.
fn connect(batches: &[Batch]) -> Outcome {
    let mut needs = Vec::with_capacity(batches.len());
    for batch in batches {
        batch.refuse_destroyed()?;
        batch.check_own_messages()?;
        needs.push((batch.comm.clone(), batch.needs()?));
    }
    let connected = batches
        .iter()
        .zip(&needs)
        .try_for_each(|(batch, (_, needs))| batch.prepare(needs))
        .and_then(|()| connecting::connect(&needs));
    connected.inspect_err(|error| {
        // The peers would wait for ever, and a pair that is connected on one side only can
        // never be used again.
        for (comm, _) in &needs {
            comm.fail(error.clone());
            comm.name_trouble();
        }
    })
}

fn submit(batch: Batch) -> Outcome {
    let comm = batch.comm.clone();
    gpu::set_current(comm.device).map_err(|code| device_error("cudaSetDevice", code))?;
    let streams = batch.streams.clone();
    let Some((first, others)) = streams.split_first() else {
        return Ok(());
    };
    for other in others {
        order(*other, *first)?;
    }
    let (label, touches) = (format!("nccl {}", batch.names()), batch.touches()?);
    let batch = Arc::new(batch);
    let capturing = stream::is_capturing(*first).map_err(|code| device_error("a stream", code))?;
    let captured = capturing.then(|| Captured::new(&comm));
    let prepare = Arc::new(move || -> gpu::Run {
        let _ = &captured;
        let (batch, ticket) = (batch.clone(), Ticket::draw(&batch.comm, batch.collectives.len()));
        Box::new(move || execute::run(&batch, ticket))
    });
    let submitted = stream::submit_in(&comm.chain, *first, Operation { label, touches, prepare });
    submitted.map_err(|code| device_error("the launch", code))?;
    others.iter().try_for_each(|other| order(*first, *other))
}

/// Makes what comes next on `later` wait for what is on `earlier` now.
fn order(earlier: usize, later: usize) -> Outcome {
    let ordered = event::create(EVENT_DISABLE_TIMING).and_then(|handle| {
        let ordered = event::record(earlier, handle).and_then(|()| event::wait(later, handle));
        event::destroy(handle).and(ordered)
    });
    ordered.map_err(|code| device_error("joining the streams of a group", code))
}

fn device_error(what: &str, code: CudaError) -> NcclError {
    NcclError::Device(format!("{what} failed with CUDA error {}", code.0))
}
