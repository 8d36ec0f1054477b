//! Finds the files that belong to `airamp`: its libraries and its rank program. They lie next to the
//! executable, in an install under ../lib/airamp or ../lib, or where AIRAMP_HOME says. It builds and changes nothing.

use std::path::{Path, PathBuf};

/// A file that belongs to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Artifact {
    Library,
    RankProgram,
    EmulatedCuda,
    EmulatedHip,
}

impl Artifact {
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::Library => "libairamp_accel.so",
            Self::RankProgram => "airamp-rank",
            Self::EmulatedCuda => "libairamp_emulated_cuda.so",
            Self::EmulatedHip => "libairamp_emulated_hip.so",
        }
    }

    fn purpose(self) -> &'static str {
        match self {
            Self::Library => "the library to preload",
            Self::RankProgram => "the rank program",
            Self::EmulatedCuda => "the emulated CUDA and NCCL",
            Self::EmulatedHip => "the emulated HIP and RCCL",
        }
    }
}

/// A file of ours that is nowhere to be found.
#[derive(Debug, thiserror::Error)]
#[error("{}; {}", self.found(), Self::ADVICE)]
pub(crate) struct MissingArtifact {
    artifact: Artifact,
    folders: Vec<PathBuf>,
}

impl MissingArtifact {
    pub(crate) const ADVICE: &str =
        "build it with `cargo build --release --workspace`, or set AIRAMP_HOME to the folder that holds it";

    pub(crate) fn found(&self) -> String {
        let (name, purpose) = (self.artifact.file_name(), self.artifact.purpose());
        format!("{name} ({purpose}) is not in {}", shown(&self.folders))
    }
}

fn shown(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" or ")
}

/// The absolute path of the artifact.
pub(crate) fn find(artifact: Artifact) -> Result<PathBuf, MissingArtifact> {
    let folders = folders();
    let found = folders.iter().map(|folder| folder.join(artifact.file_name())).find(|path| path.is_file());
    // A relative AIRAMP_HOME must hold for a program that changes its folder.
    found.and_then(|path| std::path::absolute(path).ok()).ok_or(MissingArtifact { artifact, folders })
}

fn folders() -> Vec<PathBuf> {
    let home = std::env::var_os("AIRAMP_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(PathBuf::from));
    home.into_iter().chain(beside.as_deref().into_iter().flat_map(around)).collect()
}

/// The folder of the executable, and those of an install or an image that has it in `bin`.
fn around(beside: &Path) -> Vec<PathBuf> {
    let below = |prefix: &Path| [prefix.join("lib/airamp"), prefix.join("lib")];
    let installed = beside.parent().into_iter().flat_map(below);
    std::iter::once(beside.to_path_buf()).chain(installed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_with_bin_and_lib_holds_what_belongs_to_it() {
        let folders = around(Path::new("/airamp/bin"));
        assert_eq!(folders, ["/airamp/bin", "/airamp/lib/airamp", "/airamp/lib"].map(PathBuf::from));
    }
}
