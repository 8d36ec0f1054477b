//! `airamp kernels`: the GPU kernels' code objects. Builds them from the embedded source with compilers
//! from package registries, lists them, and checks them against their manifest. Needs no GPU and runs no
//! kernel: that is the loader's.

mod build;
mod code_object;
mod hip;
mod list;
mod nvrtc;
mod packages;
mod targets;
mod verify;

use std::io;
use std::path::{Path, PathBuf};

use crate::cli::CommandError;

const AFTER_HELP: &str = "\
Exit code: 0 done, 1 `verify` found a difference, 2 wrong arguments, 125 airamp failed.

Examples:
  airamp kernels list                                   what this airamp has embedded
  airamp kernels verify                                 do blobs, manifest and sources agree?
  airamp kernels build --out my-kernels                 build all of them again
  AIRAMP_KERNEL_DIR=my-kernels airamp bench             and measure those

The library reads AIRAMP_KERNEL_DIR too, where it compresses.";

/// The GPU kernels: build, list and verify their code objects
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Compile the embedded source for every architecture, with compilers from PyPI
    Build {
        /// The folder for the code objects and their manifest
        #[arg(long, value_name = "DIR", default_value = "airamp-kernels")]
        out: PathBuf,
        /// Only this architecture, such as sm_90 or gfx942; may be given several times
        #[arg(long, value_name = "ARCH")]
        only: Vec<String>,
    },
    /// Show the code objects: architecture, size, registers, hash
    List {
        /// One JSON object instead of the table
        #[arg(long)]
        json: bool,
        /// The code objects of this folder instead of the embedded ones
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Check code objects and sources against the manifest; exit code 1 if they differ
    Verify {
        /// The code objects of this folder instead of the embedded ones
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Why kernels were not built or could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KernelsError {
    #[error("no architecture {given:?}: there are {known}")]
    UnknownArchitecture { given: String, known: String },
    #[error(
        "cannot get {package} from PyPI: {reason}\n(python3 with pip is needed: apt-get install python3-pip)"
    )]
    Package { package: String, reason: String },
    #[error("{what} cannot be loaded: {reason}")]
    Library { what: &'static str, reason: String },
    #[error("the kernels do not compile for {architecture}:\n{log}")]
    Compiler { architecture: &'static str, log: String },
    #[error("the code object for {architecture} is not what was asked for: {reason}")]
    CodeObject { architecture: String, reason: String },
    #[error("{}: {reason}", path.display())]
    Manifest { path: PathBuf, reason: String },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
}

impl KernelsError {
    fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.into(), error }
    }
}

/// The architectures of the embedded code objects, or of a folder's; an error says how they, their
/// manifest and the sources differ.
pub(crate) fn verified(dir: Option<&Path>) -> Result<Vec<String>, String> {
    let set = verify::Set::open(dir).map_err(|error| error.to_string())?;
    match set.differences().as_slice() {
        [] => Ok(set.manifest.blobs.into_iter().map(|blob| blob.architecture).collect()),
        [only] => Err(only.clone()),
        [first, others @ ..] => {
            Err(format!("{first}, and {} more (`airamp kernels verify` names them)", others.len()))
        }
    }
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    match &args.command {
        Command::Build { out, only } => build::execute(out, only)?,
        Command::List { json, dir } => list::execute(dir.as_deref(), *json)?,
        Command::Verify { dir } => return verify::execute(dir.as_deref()),
    }
    Ok(0)
}
