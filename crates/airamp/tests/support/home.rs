//! A folder with airamp's artifacts, of which only the rank program does anything: a shell script.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{airamp, shell};

pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["libairamp_accel.so", "libairamp_emulated_cuda.so", "libairamp_emulated_hip.so"] {
            fs::write(folder.path().join(name), "").expect("written");
        }
        let (text, program) = (folder.path().join("script"), folder.path().join("airamp-rank"));
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).expect("written");
        shell("cp \"$1\" \"$2\"; chmod 755 \"$2\"", &[&text, &program]);
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn bench(&self, args: &[&str]) -> Command {
        let mut command = airamp(&[&["bench"], args].concat());
        command.env("AIRAMP_HOME", self.path());
        command
    }

    /// What the script has written to `$AIRAMP_HOME/seen`.
    pub(crate) fn seen(&self) -> String {
        fs::read_to_string(self.path().join("seen")).expect("written by the ranks")
    }
}
