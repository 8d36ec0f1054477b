//! Any text as names and values of variables: lines of `NAME=value`, where a number stands for a setting.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use airamp_settings::{Environment, TABLE, resolve};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let environment: Environment = bytes.split(|byte| *byte == b'\n').filter_map(variable).collect();
    airamp_fuzz::check(&resolve(&environment, Path::new("/nonexistent/airamp.conf")));
});

fn variable(line: &[u8]) -> Option<(OsString, OsString)> {
    let equals = line.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&line[..equals], &line[equals + 1..]);
    let setting = str::from_utf8(name).ok().and_then(|name| name.parse::<usize>().ok());
    let name = match setting {
        Some(index) => OsString::from(TABLE[index % TABLE.len()].env),
        None => OsString::from_vec([b"AIRAMP_", name].concat()),
    };
    // AIRAMP_CONFIG would make the target read files of this machine.
    (name != "AIRAMP_CONFIG").then(|| (name, OsString::from_vec(value.to_vec())))
}
