//! The folder of the emulated libraries: links under the names that programs look for. Made on first use,
//! by any number of processes at once, next to the libraries or, in an install and where we may not write, in a
//! folder that only this user can change: what an installer put somewhere, it must be able to remove.

use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::artifacts::{self, Artifact, MissingArtifact};
use crate::cli::CommandError;
use crate::streams;

const CUDA_NAMES: [&str; 7] = [
    "libcuda.so.1",
    "libcuda.so",
    "libcudart.so",
    "libcudart.so.12",
    "libcudart.so.13",
    "libnccl.so.2",
    "libnccl.so",
];
const HIP_NAMES: [&str; 4] = ["libamdhip64.so", "libamdhip64.so.6", "librccl.so.1", "librccl.so"];

const AFTER_HELP: &str = "\
Example:
  LD_LIBRARY_PATH=$(airamp emulator dir) ./program      what `airamp run --emulate` does";

/// The emulated GPU and NCCL
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the folder that holds the emulated libcuda.so.1, libnccl.so.2, libamdhip64.so and librccl.so.1
    Dir {
        /// The folder that holds only the HIP and RCCL names
        #[arg(long)]
        hip: bool,
    },
}

/// Which vendors' names a folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    Both,
    HipOnly,
}

/// Why there is no folder of emulated libraries.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmulatorError {
    #[error(transparent)]
    Missing(#[from] MissingArtifact),
    #[error("cannot make the folder of the emulated libraries: {}: {error}", path.display())]
    Folder { path: PathBuf, error: io::Error },
    #[error("{} belongs to somebody else or others may write to it; remove it", path.display())]
    NotOurs { path: PathBuf },
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let Command::Dir { hip } = args.command;
    let vendor = if hip { Vendor::HipOnly } else { Vendor::Both };
    streams::print(&format!("{}\n", folder(vendor)?.display()))?;
    Ok(0)
}

/// The folder to put first in LD_LIBRARY_PATH.
pub(crate) fn folder(vendor: Vendor) -> Result<PathBuf, EmulatorError> {
    let cuda = artifacts::find(Artifact::EmulatedCuda);
    let hip = artifacts::find(Artifact::EmulatedHip);
    let links = match vendor {
        Vendor::HipOnly => links(&HIP_NAMES, &hip?),
        Vendor::Both => {
            let mut links = links(&CUDA_NAMES, &cuda?);
            links.extend(hip.iter().flat_map(|hip| self::links(&HIP_NAMES, hip)));
            links
        }
    };
    let home = links[0].target.parent().unwrap_or(Path::new("/")).to_path_buf();
    let beside = vendor.below(home.join("emulator"));
    if !artifacts::is_installed(&home) && make(&beside, &links).is_ok() {
        return Ok(beside);
    }
    folder_of_this_user(&home, vendor, &links)
}

impl Vendor {
    fn below(self, folder: PathBuf) -> PathBuf {
        match self {
            Self::Both => folder,
            Self::HipOnly => folder.join("hip"),
        }
    }
}

struct Link {
    name: &'static str,
    target: PathBuf,
}

fn links(names: &[&'static str], target: &Path) -> Vec<Link> {
    names.iter().map(|name| Link { name, target: target.to_path_buf() }).collect()
}

fn make(folder: &Path, links: &[Link]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    links.iter().try_for_each(|link| make_link(folder, link))
}

/// Makes the link aside and renames it into place: another process sees the old one or the new one.
fn make_link(folder: &Path, link: &Link) -> io::Result<()> {
    let place = folder.join(link.name);
    if fs::read_link(&place).is_ok_and(|target| target == link.target) {
        return Ok(());
    }
    let aside = folder.join(format!(".{}.{}", link.name, std::process::id()));
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => symlink(&link.target, &aside)?,
    }
    fs::rename(&aside, &place)
}

/// Each install has its own, by a hash of its place.
fn folder_of_this_user(home: &Path, vendor: Vendor, links: &[Link]) -> Result<PathBuf, EmulatorError> {
    let mut hasher = DefaultHasher::new();
    home.hash(&mut hasher);
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let ours = runtime.unwrap_or_else(|| PathBuf::from("/tmp")).join(format!("airamp-{user}"));
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |error| EmulatorError::Folder { path, error }
    };
    match DirBuilder::new().mode(0o700).create(&ours) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&ours)(error)),
        _ => {}
    }
    // In /tmp somebody else may have been there first, with a link to libraries of his own.
    let found = fs::symlink_metadata(&ours).map_err(failed(&ours))?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o022 != 0 {
        return Err(EmulatorError::NotOurs { path: ours });
    }
    let folder = vendor.below(ours.join(format!("emulator-{:016x}", hasher.finish())));
    make(&folder, links).map_err(failed(&folder))?;
    Ok(folder)
}
