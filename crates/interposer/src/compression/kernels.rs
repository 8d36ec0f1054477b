//! The kernels of each device, loaded and tested once per process.

use airamp_kernels::loader::LoadError;
use airamp_kernels::{KernelSet, Loader};
use airamp_vendor::gpu::Gpu;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

static LOADED: Mutex<Vec<(i32, Arc<KernelSet>)>> = Mutex::new(Vec::new());

/// The kernels for the current device, which is `device`. Inside a communicator's creation only: it may
/// wait for the device.
pub(super) fn of_device(gpu: &Gpu, device: i32, folder: Option<&Path>) -> Result<Arc<KernelSet>, LoadError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, kernels)) = loaded.iter().find(|(of, _)| *of == device) {
        return Ok(Arc::clone(kernels));
    }
    let kernels = Arc::new(Loader::new(folder.map(Path::to_path_buf)).load(gpu)?);
    loaded.push((device, Arc::clone(&kernels)));
    Ok(kernels)
}
