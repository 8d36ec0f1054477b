//! Reads what lies in a folder of code objects: regular files of a bounded size, without waiting for anyone. A FIFO in
//! a manifest's place must not hold up a job. The loader and `airamp kernels` call it.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The largest embedded code object has 8 MB.
const MOST_BYTES: u64 = 256 << 20;
const MOST_MANIFEST_BYTES: u64 = 1 << 20;

pub fn manifest(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path, MOST_MANIFEST_BYTES)?).map_err(|_| io::Error::other("it is no text"))
}

pub fn code_object(path: &Path) -> io::Result<Vec<u8>> {
    read(path, MOST_BYTES)
}

fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Looked at before it is opened, because opening a device can have effects of its own, and again after it: what
    // stood there may have been replaced.
    check(&fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

fn check(found: &Metadata) -> io::Result<()> {
    if found.is_file() { Ok(()) } else { Err(io::Error::other("it is no regular file")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_fifo_is_refused_and_not_waited_for() {
        let path = std::env::temp_dir().join(format!("airamp-kernels-fifo-{}", std::process::id()));
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: `name` is a C string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let refused = [manifest(&path).map(drop), code_object(&path).map(drop)];
        fs::remove_file(&path).unwrap();
        for refused in refused {
            assert!(refused.unwrap_err().to_string().contains("no regular file"));
        }
    }

    #[test]
    fn what_is_larger_than_allowed_is_refused() {
        let path = std::env::temp_dir().join(format!("airamp-kernels-large-{}", std::process::id()));
        fs::write(&path, [0; 9]).unwrap();
        let outcomes = [read(&path, 8), read(&path, 9)];
        fs::remove_file(&path).unwrap();
        let [too_large, fits] = outcomes;
        assert!(too_large.unwrap_err().to_string().contains("larger than 8 bytes"));
        assert_eq!(fits.unwrap(), [0; 9]);
    }
}
