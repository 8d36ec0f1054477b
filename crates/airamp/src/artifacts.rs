//! Finds the files that belong to `airamp`: its libraries and its rank program. They lie next to the
//! executable, in an install below ../lib (or where a system keeps its libraries), or where AIRAMP_HOME says; and
//! the NCCL of the Python environment that `airamp` was installed into. It builds and changes nothing.

use std::path::{Path, PathBuf};

/// Names the NCCL library to the rank program.
const RANKS_NCCL: &str = "AIRAMP_RANK_NCCL";

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
    pub(crate) const ADVICE: &str = "reinstall the package (in a checkout: `cargo build --release --workspace`), or set AIRAMP_HOME to the folder that \
         holds it";

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

/// Below a prefix: a tree, an image or a Python environment; Debian; Fedora and its kin.
const LIBRARY_FOLDERS: [&str; 3] = ["lib", debians_folder(), "lib64"];

const fn debians_folder() -> &'static str {
    if cfg!(target_arch = "aarch64") { "lib/aarch64-linux-gnu" } else { "lib/x86_64-linux-gnu" }
}

/// Where an install keeps what only `airamp` uses, below its folder of libraries.
const PRIVATE: &str = "airamp";

/// The folder of the executable, and those of an install or an image that has it in `bin`.
fn around(beside: &Path) -> Vec<PathBuf> {
    let below = |prefix: &Path| LIBRARY_FOLDERS.map(|folder| prefix.join(folder));
    let libraries = beside.parent().into_iter().flat_map(below);
    let installed = libraries.flat_map(|folder| [folder.join(PRIVATE), folder]);
    std::iter::once(beside.to_path_buf()).chain(installed).collect()
}

/// Whether artifacts in this folder belong to an install, whose folders are the installer's to change.
pub(crate) fn is_installed(folder: &Path) -> bool {
    let parent = folder.parent().unwrap_or(Path::new("/"));
    folder.file_name().is_some_and(|name| name == PRIVATE)
        && LIBRARY_FOLDERS.iter().any(|libraries| parent.ends_with(libraries))
}

/// The NCCL that pip put into the Python environment of this executable: nobody else would look for it there.
pub(crate) fn nccl_of_this_python() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    nccl_below(executable.parent()?.parent()?)
}

/// The same, as the rank program takes it; nothing where the user has named one.
pub(crate) fn nccl_for_ranks() -> Option<(String, String)> {
    let is_named = std::env::var_os(RANKS_NCCL).is_some_and(|value| !value.is_empty());
    let path = nccl_of_this_python().filter(|_| !is_named)?;
    Some((RANKS_NCCL.to_owned(), path.to_str()?.to_owned()))
}

fn nccl_below(prefix: &Path) -> Option<PathBuf> {
    let is_python = |name: &str| name.starts_with("python3");
    let folders = std::fs::read_dir(prefix.join("lib")).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let pythons =
        folders.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_python));
    let packages = pythons.flat_map(|path| ["site-packages", "dist-packages"].map(|name| path.join(name)));
    let libraries = packages.map(|path| path.join("nvidia/nccl/lib/libnccl.so.2"));
    // The same one each time, where there are several Pythons.
    libraries.filter(|path| path.is_file()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_misses_a_file_is_told_how_to_get_it_back() {
        let missing =
            MissingArtifact { artifact: Artifact::Library, folders: vec![PathBuf::from("/usr/bin")] };
        let said = missing.to_string();
        assert!(said.contains("is not in /usr/bin; reinstall the package"), "{said}");
        assert!(said.ends_with("or set AIRAMP_HOME to the folder that holds it"), "{said}");
    }

    #[test]
    fn a_tree_with_bin_and_lib_holds_what_belongs_to_it() {
        let folders = around(Path::new("/airamp/bin"));
        let first = ["/airamp/bin", "/airamp/lib/airamp", "/airamp/lib"].map(PathBuf::from);
        assert_eq!(folders[..3], first);
    }

    #[test]
    fn the_folders_of_debian_and_of_fedora_are_looked_at() {
        let folders = around(Path::new("/usr/bin"));
        for folder in [debians_folder(), "lib64"] {
            assert!(folders.contains(&Path::new("/usr").join(folder)), "{folders:?}");
            assert!(folders.contains(&Path::new("/usr").join(folder).join("airamp")), "{folders:?}");
        }
    }

    #[test]
    fn an_install_is_told_from_a_build_and_from_a_folder_of_the_users() {
        assert!(is_installed(Path::new("/usr/lib64/airamp")));
        assert!(is_installed(Path::new("/opt/airamp/lib/airamp")));
        assert!(!is_installed(Path::new("/home/me/airamp")));
        assert!(!is_installed(Path::new("/src/airamp/target/release")));
    }

    #[test]
    fn the_nccl_of_a_python_environment_is_found() {
        let prefix = tempfile::tempdir().expect("a folder");
        assert_eq!(nccl_below(prefix.path()), None);
        let folder = prefix.path().join("lib/python3.11/site-packages/nvidia/nccl/lib");
        std::fs::create_dir_all(&folder).expect("folders");
        assert_eq!(nccl_below(prefix.path()), None);
        std::fs::write(folder.join("libnccl.so.2"), "").expect("a file");
        assert_eq!(nccl_below(prefix.path()), Some(folder.join("libnccl.so.2")));
    }
}
