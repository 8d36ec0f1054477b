//! Modules: code objects as they are, from which the functions' names are taken, and
//! launches of those functions.
//!
//! Runs none of the code: a function does what [`kernels`] has under its name. A code
//! object for another architecture is refused as a driver would.

mod code_object;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use airamp_vendor_abi::cuda::CudaError;

use super::completion::lock;
use super::device::Device;
use super::handles::Handles;
use super::kernels::{self, Kernel, Launch};
use super::work::{Operation, Run};
use super::{Answer, Fault, capture, context, memory, report, slumber, stream};
use crate::environment;

pub use code_object::{Architecture, image_len};

struct Module {
    functions: Vec<String>,
    device: &'static Device,
    /// How often the device had been reset by then.
    resets: u64,
    /// The device memory that the code takes up.
    room: u64,
    given: Mutex<Vec<(String, usize)>>,
}

struct Function {
    name: String,
    device: &'static Device,
    resets: u64,
}

static MODULES: Handles<Module> = Handles::new();
static FUNCTIONS: Handles<Function> = Handles::new();

/// Loads a code object or the text of a PTX program.
pub fn load(image: &[u8]) -> Answer<usize> {
    let device = context::current()?;
    device.check()?;
    capture::refuse_unsafe_call()?;
    let functions = code_object::functions(image, &Architecture::reported()).map_err(Fault::told)?;
    if environment::number("AIRAMP_EMU_ALLOC_SYNC") > 0 {
        device.wait_for_all();
    }
    let room = memory::take_room(device, image.len())?;
    let resets = device.resets();
    Ok(MODULES.insert(Module { functions, device, resets, room, given: Mutex::default() }))
}

pub fn unload(module: usize) -> Answer<()> {
    let device = context::current()?;
    capture::refuse_unsafe_call()?;
    device.wait_for_all();
    let module = MODULES.remove(module)?;
    for (_, function) in lock(&module.given).drain(..) {
        FUNCTIONS.remove(function)?;
    }
    memory::give_room_back(module.device, module.room).map_err(Fault::told)
}

/// The function of that name, if the code object has it.
pub fn function(module: usize, name: &str) -> Answer<usize> {
    context::current()?;
    let module = MODULES.get(module)?;
    if !module.functions.iter().any(|known| known == name) {
        return Err(CudaError::NOT_FOUND);
    }
    let mut given = lock(&module.given);
    if let Some((_, handle)) = given.iter().find(|(known, _)| known == name) {
        return Ok(*handle);
    }
    let name = name.to_owned();
    let Module { device, resets, .. } = *module;
    let handle = FUNCTIONS.insert(Function { name: name.clone(), device, resets });
    given.push((name, handle));
    Ok(handle)
}

/// The sizes of a function's parameters, to read the arguments of a launch by.
pub fn parameters(function: usize) -> Answer<&'static [usize]> {
    context::current()?;
    Ok(implementation(function)?.1.parameters)
}

fn implementation(function: usize) -> Answer<(String, Kernel)> {
    let known = FUNCTIONS.get(function)?;
    let name = known.name.clone();
    if known.device.resets() != known.resets {
        report(&format!("the kernel {name} was loaded before its device was reset"));
        return Err(CudaError::INVALID_HANDLE);
    }
    let Some(kernel) = kernels::find(&name) else {
        report(&format!("the kernel {name} has no implementation here"));
        return Err(CudaError::NOT_SUPPORTED);
    };
    Ok((name, kernel))
}

/// Launches a function behind what is on the stream.
pub fn launch(function: usize, stream: usize, launch: Launch) -> Answer<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (name, kernel) = implementation(function)?;
    if stream::device_of(stream)? != context::current_device()? {
        return Err(CudaError::INVALID_HANDLE);
    }
    let threads: u64 = launch.block.iter().map(|n| u64::from(*n)).product();
    let blocks: u64 = launch.grid.iter().map(|n| u64::from(*n)).product();
    if !(1..=1024).contains(&threads) || blocks == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if count == environment::number("AIRAMP_EMU_REFUSE_LAUNCH") {
        return Err(CudaError::LAUNCH_OUT_OF_RESOURCES);
    }
    let fails = count == environment::number("AIRAMP_EMU_FAIL_LAUNCH");
    let label = format!("kernel {name}");
    let failure = Fault::new(CudaError::LAUNCH_FAILED, format!("{label} fails, as asked for"));
    let touches = (kernel.touches)(&launch);
    let spoiled = touches.iter().find(|touch| touch.write && !touch.atomic).map(|touch| touch.ptr);
    let spoiled = spoiled.filter(|_| environment::text("AIRAMP_EMU_WRONG_KERNEL") == name);
    let launch = Arc::new(launch);
    let prepare = move || -> Run {
        let launch = Arc::clone(&launch);
        let failure = fails.then(|| failure.clone());
        Box::new(move || {
            slumber::wake();
            failure.map_or_else(|| (kernel.run)(&launch), Err)?;
            spoiled.map_or(Ok(()), kernels::flip_a_bit)
        })
    };
    let operation = Operation { label, touches, prepare: Arc::new(prepare) };
    stream::submit(stream, operation)
}
