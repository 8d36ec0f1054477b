//! The kernel that keeps a device awake. It computes nothing, so that there is nothing to test, and it is loaded
//! apart from the others: who only wants this one does not pay for the rest.

use std::ffi::c_void;

use airamp_vendor::gpu::{Function, Gpu, GpuError, Grid, Stream};

use super::{LoadError, Loader, architecture, check, module};
use crate::blob::Kind;

/// A warp (half a wave) on one multiprocessor.
const GRID: Grid = Grid { blocks: 1, threads: 32 };

/// A kernel that does nothing for about a microsecond, ready to launch.
pub struct Ghost {
    function: Function,
}

impl Loader {
    /// Loads it into the context that is current. A code object without it, or one that the driver would first have
    /// to compile as a whole, is an error.
    pub fn load_ghost(&self, gpu: &Gpu) -> Result<Ghost, LoadError> {
        let _relaxed = gpu.relax_captures().map_err(LoadError::while_doing("loaded beside captures"))?;
        let ordinal = gpu.current_device().map_err(LoadError::while_doing("loaded: no current device"))?;
        let device = gpu.architecture(ordinal).map_err(LoadError::while_doing("chosen"))?;
        let wanted = architecture::blob_for(&device).filter(|(_, kind)| *kind != Kind::Ptx);
        let Some((wanted, kind)) = wanted else { return Err(LoadError::UnknownArchitecture(device)) };
        let found = self.find(wanted, kind)?;
        check(&found, wanted, kind)?;
        let function = module(gpu, &found)?.function(c"airamp_ghost").map_err(|error| {
            LoadError::MissingSymbol { name: found.name.clone(), symbol: "airamp_ghost".into(), error }
        })?;
        Ok(Ghost { function })
    }
}

impl Ghost {
    /// Enqueues it: `rounds` steps of a few cycles each.
    pub fn launch(&self, rounds: u32, stream: &Stream) -> Result<(), GpuError> {
        let arguments = [(&raw const rounds).cast::<c_void>()];
        // SAFETY: the kernel has one parameter of 32 bits, and uses no memory.
        unsafe { self.function.launch(GRID, stream, &arguments) }
    }
}
