//! Any bytes as a code object or PTX text, given to the emulated device: refused or loaded, never a panic.
#![no_main]

use airamp_emulator::gpu::module;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(loaded) = module::load(bytes) {
        // A name that no linker would accept.
        assert!(module::function(loaded, "\0").is_err());
        module::unload(loaded).expect("what was loaded can be unloaded");
    }
});
