//! Does this process have a GPU runtime that we could work with? Looks at libraries
//! and symbols only and never initialises a GPU: the interposer asks inside
//! applications that may fork or pick their device later.

use std::ffi::CStr;

use super::library::Library;
use crate::dl;

/// The runtime found, with the file that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    Cuda { library: String },
    Hip { library: String },
}

/// Every library that was tried: those that are not there, and why each other was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("no usable GPU runtime: {}", self.reasons().join("; "))]
pub struct ProbeError {
    pub not_found: Vec<&'static str>,
    pub refusals: Vec<String>,
}

impl ProbeError {
    fn reasons(&self) -> Vec<String> {
        let mut reasons = self.refusals.clone();
        if !self.not_found.is_empty() {
            reasons.push(format!("not found: {}", self.not_found.join(", ")));
        }
        reasons
    }

    fn refuse(&mut self, refusal: String) {
        // A mapped library that lacks a symbol is met again in the second round.
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }
}

struct Candidate {
    /// How the file name of every version begins.
    stem: &'static str,
    names: &'static [&'static str],
    /// What the interposer must be able to ask: the device, and whether a stream is
    /// being captured. A runtime without them is older than any NCCL we know.
    symbols: &'static [&'static CStr],
    found: fn(String) -> Runtime,
}

const CANDIDATES: [Candidate; 3] = [
    Candidate {
        stem: "libcuda.so",
        names: &["libcuda.so.1"],
        symbols: &[c"cuInit", c"cuCtxGetDevice", c"cuStreamIsCapturing"],
        found: |library| Runtime::Cuda { library },
    },
    Candidate {
        stem: "libcudart",
        names: &[
            "libcudart.so.13",
            "libcudart.so.12",
            "libcudart.so.11.0",
            "libcudart.so.11",
            "libcudart.so.14",
            "libcudart.so",
        ],
        symbols: &[c"cudaGetDevice", c"cudaStreamIsCapturing"],
        found: |library| Runtime::Cuda { library },
    },
    Candidate {
        stem: "libamdhip64",
        names: &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"],
        symbols: &[c"hipGetDevice", c"hipStreamIsCapturing"],
        found: |library| Runtime::Hip { library },
    },
];

/// Finds the GPU runtime: one that the process has mapped before one that must be
/// opened, CUDA before HIP.
pub fn probe() -> Result<Runtime, ProbeError> {
    probe_among(&CANDIDATES)
}

fn probe_among(candidates: &[Candidate]) -> Result<Runtime, ProbeError> {
    let mut error = ProbeError::default();
    let names =
        || candidates.iter().flat_map(|candidate| candidate.names.iter().map(move |name| (candidate, *name)));
    // Not being mapped is no refusal: the library is opened in the second round.
    let mapped = names().filter_map(|(candidate, name)| Some((candidate, Library::mapped(name)?)));
    let mapped = mapped.chain(unusually_named(candidates));
    for (candidate, library) in mapped {
        match accept(candidate, &library) {
            Ok(runtime) => return Ok(runtime),
            Err(refusal) => error.refuse(refusal),
        }
    }
    for (candidate, name) in names() {
        match Library::open(name).map(|library| accept(candidate, &library)) {
            Ok(Ok(runtime)) => return Ok(runtime),
            Ok(Err(refusal)) => error.refuse(refusal),
            Err(reason) if reason.ends_with("No such file or directory") => error.not_found.push(name),
            Err(reason) => error.refuse(reason),
        }
    }
    Err(error)
}

/// Mapped libraries of a candidate under a name that is not in its list: another major version,
/// or a copy that a Python package has given a name of its own.
fn unusually_named(candidates: &[Candidate]) -> impl Iterator<Item = (&Candidate, Library)> {
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    dl::mapped_paths().into_iter().filter_map(move |path| {
        let file = file_name(&path);
        let candidate = candidates.iter().find(|candidate| file.starts_with(candidate.stem))?;
        Some((candidate, Library::mapped(&path)?))
    })
}

fn accept(candidate: &Candidate, library: &Library) -> Result<Runtime, String> {
    match candidate.symbols.iter().find(|symbol| library.symbol(symbol).is_none()) {
        Some(missing) => Err(format!("{} has no {}", library.name(), missing.to_string_lossy())),
        None => Ok((candidate.found)(library.path_of(candidate.symbols[0]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(names: &'static [&'static str], symbols: &'static [&'static CStr]) -> Candidate {
        Candidate { stem: "libairamp-no-such", names, symbols, found: |library| Runtime::Cuda { library } }
    }

    #[test]
    fn every_library_that_was_tried_is_in_the_error() {
        let missing = candidate(&["libairamp-not-there.so.9"], &[c"cuInit"]);
        let incompatible = candidate(&["libc.so.6"], &[c"getpid", c"airamp_not_there"]);
        let error = probe_among(&[missing, incompatible]).unwrap_err().to_string();
        assert!(error.contains("libairamp-not-there.so.9"), "{error}");
        assert_eq!(error.matches("libc.so.6 has no airamp_not_there").count(), 1, "{error}");
    }

    #[test]
    fn a_library_with_every_symbol_is_found_by_its_file() {
        let runtime = probe_among(&[candidate(&["libc.so.6"], &[c"getpid"])]).unwrap();
        let Runtime::Cuda { library } = runtime else { panic!("{runtime:?}") };
        assert!(library.ends_with("libc.so.6"), "{library}");
    }

    #[test]
    fn a_mapped_library_is_found_under_an_unusual_name() {
        let unlisted =
            Candidate { stem: "libc.so", ..candidate(&["libairamp-not-there.so.9"], &[c"getpid"]) };
        assert!(matches!(probe_among(&[unlisted]), Ok(Runtime::Cuda { .. })));
    }

    #[test]
    fn a_mapped_library_is_preferred_to_one_that_must_be_opened() {
        let unmapped = candidate(&["libanl.so.1"], &[c"getpid"]);
        let mapped = candidate(&["libc.so.6"], &[c"getpid"]);
        let runtime = probe_among(&[unmapped, mapped]).unwrap();
        assert!(matches!(runtime, Runtime::Cuda { library } if library.ends_with("libc.so.6")));
    }
}
