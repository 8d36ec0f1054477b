//! Where a benchmark runs: the emulator, or this machine's GPUs. Turns a number of ranks and a link
//! into a job for the launcher; both kinds of benchmark start their ranks by it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Args;
use super::link::Link;
use super::loopback::Shaped;
use crate::artifacts::{self, Artifact};
use crate::cli::CommandError;
use crate::emulator::{self, Vendor};
use crate::launch::{Job, Meeting, Output};

/// Makes NCCL take ranks for machines of their own: it then connects them by sockets, and lets several
/// of them share a GPU.
pub(crate) const AS_A_MACHINE_OF_ITS_OWN: &str =
    r#"NCCL_HOSTID="airamp-rank-$RANK"; export NCCL_HOSTID; exec "$@""#;
pub(crate) const SOCKETS_ON_LOOPBACK: [(&str, &str); 3] =
    [("NCCL_SOCKET_IFNAME", "lo"), ("NCCL_NET", "Socket"), ("NCCL_IB_DISABLE", "1")];

pub(super) struct Cluster {
    rank_program: PathBuf,
    /// The emulated libraries; none on a GPU.
    emulator: Option<PathBuf>,
    hip: bool,
}

impl Cluster {
    pub(super) fn find(args: &Args) -> Result<Self, CommandError> {
        let vendor = if args.hip { Vendor::HipOnly } else { Vendor::Both };
        let emulator = if args.gpu { None } else { Some(emulator::folder(vendor)?) };
        Ok(Self { rank_program: artifacts::find(Artifact::RankProgram)?, emulator, hip: args.hip })
    }

    pub(super) fn is_emulated(&self) -> bool {
        self.emulator.is_some()
    }

    /// What has to last as long as jobs run on the link.
    pub(super) fn prepare(&self, link: Link) -> Result<Option<Shaped>, CommandError> {
        if self.is_emulated() { Ok(None) } else { Shaped::to(link) }
    }

    /// Runs the rank program with these arguments to its end, each line that it prints to `read`.
    pub(super) fn run(
        &self,
        ranks: u32,
        link: Link,
        mut words: Vec<String>,
        preload: Option<&Path>,
        read: impl FnMut(u32, &str) + 'static,
    ) -> Result<u8, CommandError> {
        words.extend(self.hip.then(|| "--hip".to_owned()));
        let words = words.into_iter().map(OsString::from);
        let program = self.rank_program.clone();
        let is_apart = !self.is_emulated() && link != Link::Vendors;
        let mut job = if is_apart {
            let shell = ["-c", AS_A_MACHINE_OF_ITS_OWN, "rank"].map(OsString::from).into_iter();
            Job::new("/bin/sh", shell.chain([program.into()]).chain(words).collect())
        } else {
            Job::new(program, words.collect())
        };
        job.ranks = Some(ranks);
        job.meeting = Meeting::Here;
        job.preload = preload.map(Path::to_path_buf);
        job.library_dirs.extend(self.emulator.clone());
        job.env = self.environment(link);
        job.output = Output::Lines(Box::new(read));
        Ok(job.run()?)
    }

    fn environment(&self, link: Link) -> Vec<(String, String)> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        match (self.is_emulated(), link) {
            (true, Link::Rate(gbps)) => vec![owned(("AIRAMP_EMU_LINK_GBPS", &gbps.to_string()))],
            (true, _) => vec![owned(("AIRAMP_EMU_LINK_GBPS", "0"))],
            (false, Link::Vendors) => artifacts::nccl_for_ranks().into_iter().collect(),
            (false, _) => {
                SOCKETS_ON_LOOPBACK.map(owned).into_iter().chain(artifacts::nccl_for_ranks()).collect()
            }
        }
    }
}
