//! A base folder for one test, and the short ways to what is in it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this module")]

use std::path::{Path, PathBuf};

use airamp_telemetry::*;

pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn base(&self) -> &Path {
        self.0.path()
    }

    pub fn writer(&self) -> Writer {
        create(Some(self.base()), &identity()).unwrap()
    }

    pub fn folder(&self) -> Found {
        folders(Some(self.base())).pop().unwrap()
    }

    pub fn only(&self) -> Reader {
        Reader::open(&self.folder(), &self.name()).unwrap()
    }

    pub fn name(&self) -> String {
        let names = self.folder().files();
        assert_eq!(names.len(), 1, "{names:?}");
        names.into_iter().next().unwrap()
    }

    pub fn file(&self) -> PathBuf {
        self.folder().path().join(self.name())
    }
}

pub fn identity() -> Identity {
    Identity {
        job: String::new(),
        job_source: JobSource::Slurm,
        pod: "pod-1".to_owned(),
        node: "node-1".to_owned(),
        step_id: "0".to_owned(),
        world_rank: 3,
        local_rank: -1,
        version: "0.1.0".to_owned(),
        vendor: String::new(),
        mode: 2,
        command: "python3".to_owned(),
    }
}

pub fn call(slot: u8) -> CallRecord {
    CallRecord {
        flags: CallRecord::GROUP,
        sequence: 1,
        entered: now(),
        vendor_ticks: 100,
        hook_ticks: 20,
        ..CallRecord::new(slot, Kind::AllReduce, airamp_telemetry::Path::Vendor, Datatype(6), 8192)
    }
}
