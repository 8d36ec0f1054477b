//! One rank at work: its device, its NCCL, its communicator over all ranks, a stream,
//! and two scratch buffers on which a collective is run and its result compared.

use std::path::Path;
use std::rc::Rc;

use airamp_vendor::gpu::{Buffer, Gpu, Kind, Stream};
use airamp_vendor_abi::nccl::{DataType, RedOp, UniqueId};

use crate::collective::{Call, Collective, Form};
use crate::digest::Digest;
use crate::error::RankError;
use crate::nccl::{Communicator, Making, Nccl};
use crate::pattern::{Reduction, agrees, input};
use crate::world::World;

/// Bytes before and after an output that nothing may touch.
const GUARD: usize = 256;
/// What untouched memory holds.
const UNTOUCHED: u8 = 0xa5;
/// 2.24 is the first NCCL with 8-bit floats.
const FIRST_WITH_FLOAT8: i32 = 22400;

pub(crate) struct Session {
    pub(crate) world: World,
    pub(crate) gpu: Gpu,
    pub(crate) nccl: Rc<Nccl>,
    pub(crate) version: i32,
    pub(crate) comm: Communicator,
    pub(crate) stream: Stream,
    pub(crate) send: Buffer,
    pub(crate) recv: Buffer,
}

/// One collective to run and compare.
#[derive(Clone, Copy)]
pub(crate) struct Trial {
    pub(crate) form: Form,
    pub(crate) collective: Collective,
    pub(crate) datatype: DataType,
    pub(crate) reduction: Reduction,
    pub(crate) op: RedOp,
    pub(crate) in_place: bool,
    pub(crate) count: usize,
    /// Elements by which the buffers are shifted, so that alignment varies.
    pub(crate) shift: usize,
    pub(crate) root: usize,
}

/// What a case saw: the bits of its outputs, and the first thing that was wrong.
pub(crate) struct Observed {
    pub(crate) digest: Digest,
    pub(crate) mismatch: Option<String>,
    /// The return code that the case is about; success unless it provokes an error.
    pub(crate) result: i32,
}

impl Observed {
    pub(crate) fn new() -> Self {
        Self { digest: Digest::new(), mismatch: None, result: 0 }
    }

    /// Notes a claim; the first one that does not hold is the mismatch.
    pub(crate) fn expect(&mut self, holds: bool, claim: impl FnOnce() -> String) {
        if !holds && self.mismatch.is_none() {
            self.mismatch = Some(claim());
        }
    }
}

impl Session {
    /// Meets the peers and makes the communicator over all of them. `scratch` is the
    /// most bytes that an input or an output will take.
    pub(crate) fn start(kind: Kind, scratch: usize) -> Result<Self, RankError> {
        let mut world = World::meet()?;
        let gpu = Gpu::open(kind)?;
        let devices = gpu.device_count()?.max(1);
        gpu.set_device(world.local_rank as i32 % devices)?;
        let nccl = Nccl::open(kind)?;
        let version = nccl.version()?;
        let comm = communicator_over(&mut world, &nccl, Making::Plain)?;
        let room = scratch + 4 * GUARD;
        if let Ok(memory) = gpu.memory_info() {
            check_room(2 * room, memory.free, gpu.library())?;
        }
        let (send, recv) = (gpu.alloc(room)?, gpu.alloc(room)?);
        let stream = gpu.stream(true)?;
        Ok(Self { world, gpu, nccl, version, comm, stream, send, recv })
    }

    /// Another communicator over all ranks, under a new id.
    pub(crate) fn another_communicator(&mut self, making: Making) -> Result<Communicator, RankError> {
        communicator_over(&mut self.world, &self.nccl, making)
    }

    /// Waits on the host until every rank is here: Abort and Revoke on one rank must not
    /// reach into a call that another rank is still in.
    pub(crate) fn wait_for_everyone(&mut self) -> Result<(), RankError> {
        self.world.all_gather(0).map(|_| ())
    }

    /// Whether NCCL and the device take this type in a reduction.
    pub(crate) fn supports(&self, datatype: DataType) -> bool {
        let small = matches!(datatype, DataType::FLOAT8_E4M3 | DataType::FLOAT8_E5M2);
        !small || self.version >= FIRST_WITH_FLOAT8 && self.device_reduces_float8()
    }

    fn device_reduces_float8(&self) -> bool {
        let ordinal = self.nccl.device(self.comm.raw()).unwrap_or(0);
        let architecture = self.gpu.architecture(ordinal).unwrap_or_default();
        match architecture.strip_prefix("sm_").map(str::parse::<u32>) {
            Some(capability) => capability.is_ok_and(|capability| capability >= 90),
            None => true,
        }
    }

    /// Runs a collective over `comm` and compares what it wrote with what it should.
    pub(crate) fn compare(
        &self,
        comm: &Communicator,
        stream: &Stream,
        trial: &Trial,
        observed: &mut Observed,
    ) -> Result<(), RankError> {
        let plan = Placement::of(trial, comm);
        let own = self.prepare(comm, trial, &plan)?;
        self.call(trial, &plan).enqueue(&self.nccl, comm.raw(), stream.raw())?;
        stream.synchronize()?;
        self.check(comm, trial, &plan, &own, observed)
    }

    /// Lays out memory that shows any stray write, and this rank's input in it.
    fn prepare(&self, comm: &Communicator, trial: &Trial, plan: &Placement) -> Result<Vec<u8>, RankError> {
        let own = input(trial.datatype, trial.reduction, comm.size, comm.rank, 0, plan.input_elements);
        self.recv.fill(plan.base - GUARD, plan.region + 2 * GUARD, UNTOUCHED)?;
        let into = if trial.in_place { &self.recv } else { &self.send };
        into.write(plan.input_at, &own)?;
        // Fills and copies of the default stream are not ordered with a non-blocking one.
        self.gpu.synchronize()?;
        Ok(own)
    }

    fn call(&self, trial: &Trial, plan: &Placement) -> Call {
        let from = if trial.in_place { &self.recv } else { &self.send };
        Call {
            form: trial.form,
            collective: trial.collective,
            send: from.at(plan.input_at),
            recv: self.recv.at(plan.output_at),
            count: trial.count,
            datatype: trial.datatype,
            op: trial.op,
            root: trial.root as i32,
        }
    }

    fn check(
        &self,
        comm: &Communicator,
        trial: &Trial,
        plan: &Placement,
        own: &[u8],
        observed: &mut Observed,
    ) -> Result<(), RankError> {
        let mut memory = vec![0; plan.region + 2 * GUARD];
        self.recv.read(plan.base - GUARD, &mut memory)?;
        let start = plan.output_at + GUARD - plan.base;
        let output = &memory[start..start + plan.output_bytes];
        let place = (comm.size, comm.rank, trial.root);
        let expected = trial.collective.expected(trial.datatype, trial.reduction, place, trial.count);
        let untouched = || match (trial.in_place, trial.collective) {
            (true, Collective::Reduce) => own.to_vec(),
            _ => vec![UNTOUCHED; plan.output_bytes],
        };
        // Where nothing is written, an in-place gather holds its own input among the rest.
        let unchecked = expected.is_none() && trial.in_place && trial.collective == Collective::Gather;
        let expected = expected.unwrap_or_else(untouched);
        let right = unchecked || agrees(trial.datatype, trial.reduction, comm.size, output, &expected);
        observed.expect(right, || format!("count {}: {}", trial.count, first_difference(output, &expected)));
        let guards = memory[..GUARD].iter().chain(&memory[GUARD + plan.region..]);
        observed.expect(guards.copied().all(|byte| byte == UNTOUCHED), || {
            format!("count {}: wrote outside its output", trial.count)
        });
        observed.digest.add(output);
        self.check_input(trial, plan, own, observed)
    }

    fn check_input(
        &self,
        trial: &Trial,
        plan: &Placement,
        own: &[u8],
        observed: &mut Observed,
    ) -> Result<(), RankError> {
        if trial.in_place {
            return Ok(());
        }
        let mut after = vec![0; own.len()];
        self.send.read(plan.input_at, &mut after)?;
        observed.expect(after == own, || format!("count {}: changed its input", trial.count));
        Ok(())
    }
}

/// Says what is missing before an allocation fails with a bare number.
fn check_room(needed: usize, free: usize, library: &str) -> Result<(), RankError> {
    if needed <= free {
        return Ok(());
    }
    let file = Path::new(library).canonicalize().unwrap_or_else(|_| library.into());
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let advice = match name.starts_with("libairamp_emulated_") {
        true => "; AIRAMP_EMU_MEMORY_BYTES gives an emulated GPU more",
        false => "",
    };
    Err(RankError::NoRoom { needed, free, advice })
}

fn first_difference(actual: &[u8], expected: &[u8]) -> String {
    match actual.iter().zip(expected).position(|(actual, expected)| actual != expected) {
        Some(at) => format!("byte {at} is {:#04x}, not {:#04x}", actual[at], expected[at]),
        None => format!("{} bytes, not {}", actual.len(), expected.len()),
    }
}

/// Where a trial's input and output lie, in bytes.
struct Placement {
    base: usize,
    /// Bytes of the receive buffer that the call may be about, from `base` on.
    region: usize,
    input_at: usize,
    input_elements: usize,
    output_at: usize,
    output_bytes: usize,
}

impl Placement {
    fn of(trial: &Trial, comm: &Communicator) -> Self {
        let size = trial.datatype.size().unwrap_or(1);
        let base = GUARD + trial.shift * size;
        let (input, output) = trial.collective.elements(trial.count, comm.size);
        let (input_place, output_place) = match trial.in_place {
            true => trial.collective.places_in_place(trial.count, comm.rank),
            false => (0, 0),
        };
        let elements = if trial.in_place { input.max(output) } else { output };
        Self {
            base,
            region: elements * size,
            input_at: base + input_place * size,
            input_elements: input,
            output_at: base + output_place * size,
            output_bytes: output * size,
        }
    }
}

fn communicator_over(world: &mut World, nccl: &Rc<Nccl>, making: Making) -> Result<Communicator, RankError> {
    let mut id = UniqueId { internal: [0; 128] };
    if world.rank == 0 {
        id = nccl.unique_id()?;
    }
    world.broadcast(&mut id.internal)?;
    Communicator::init(nccl, making, id, world.rank, world.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_names_the_setting_that_an_emulated_gpu_has_for_it() {
        let told = |library| check_room(9, 8, library).expect_err("too little").to_string();
        assert!(told("/a/libairamp_emulated_cuda.so").contains("AIRAMP_EMU_MEMORY_BYTES"));
        assert_eq!(told("/a/libcuda.so.1"), "9 bytes of device memory are needed and 8 are free");
        assert!(check_room(8, 8, "/a/libcuda.so.1").is_ok());
    }
}
