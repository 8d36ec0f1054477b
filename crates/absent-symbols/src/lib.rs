//! Makes exported symbols of a loaded shared object look absent.
//!
//! A library that stands in for another one must not offer what the other lacks:
//! callers probe with `dlsym` and weak references, and a function that fails when
//! called is not the same as no function. The dynamic linker skips a symbol whose
//! value is zero, so zeroing it in the loaded symbol table is enough, for every
//! way of looking it up. References that were bound before keep their address.
//!
//! Used by the interposer (for what the vendor lacks) and by the emulator (to
//! play an older vendor). Works on glibc; elsewhere it hides nothing.

mod loaded_object;

use loaded_object::LoadedObject;
use std::ffi::CStr;

/// Why nothing could be hidden.
#[derive(Debug, PartialEq, Eq)]
pub enum HideError {
    /// No loaded object contains the given address.
    NotFound,
    /// The object's dynamic section lacks a table that is needed.
    NoSymbolTable,
    /// The symbol table lies in an executable segment, whose protection we leave alone.
    Executable,
    /// The kernel refused to make the symbol table writable.
    Protected,
}

impl std::fmt::Display for HideError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no loaded object contains the address",
            Self::NoSymbolTable => "the object has no GNU-hashed symbol table",
            Self::Executable => "the symbol table lies in an executable segment",
            Self::Protected => "the symbol table could not be made writable",
        })
    }
}

impl std::error::Error for HideError {}

/// Hides `names` in the shared object that contains `anchor`, and says how many it found there.
///
/// # Safety
/// `anchor` must lie in an object that stays loaded. Nothing may rely on looking the
/// names up in it afterwards.
pub unsafe fn hide(anchor: *const (), names: &[&CStr]) -> Result<usize, HideError> {
    let object = LoadedObject::containing(anchor as usize).ok_or(HideError::NotFound)?;
    // SAFETY: the caller keeps the object loaded, and the dynamic linker has mapped and
    // relocated all of its dynamic section before any of its code could run.
    let symbols = unsafe { object.symbols() }.ok_or(HideError::NoSymbolTable)?;
    let _writable = object.make_writable(&symbols)?;
    let hidden = names.iter().filter_map(|name| symbols.find(name));
    Ok(hidden.map(|symbol| symbols.zero(symbol)).count())
}
