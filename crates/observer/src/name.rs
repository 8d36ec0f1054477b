//! How identifiers of telemetry files are written for people.

/// Sixteen hexadecimal digits; empty where it is not known.
pub(crate) fn communicator(name: u64) -> String {
    if name == 0 { String::new() } else { format!("{name:016x}") }
}

/// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`; empty where it is not known.
pub(crate) fn device(uuid: &[u8; 16]) -> String {
    if uuid.iter().all(|byte| *byte == 0) {
        return String::new();
    }
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("GPU-{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// A name padded with zeros, of somebody else's: any bytes.
pub(crate) fn padded(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let harmless = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(&bytes[..end]).chars().map(harmless).collect()
}

pub(crate) fn mode(number: u8) -> &'static str {
    match number {
        0 => "observe",
        1 => "shadow",
        2 => "on",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_written_as_the_drivers_tools_write_it() {
        let uuid = [0x5f, 0x2c, 0x9a, 0x10, 0x6d, 0x1e, 0x4b, 0x7a, 0x9c, 0x33, 10, 11, 12, 13, 14, 15];
        assert_eq!(device(&uuid), "GPU-5f2c9a10-6d1e-4b7a-9c33-0a0b0c0d0e0f");
        assert_eq!((device(&[0; 16]), communicator(0)), (String::new(), String::new()));
    }

    #[test]
    fn an_interface_name_ends_at_its_padding() {
        assert_eq!(padded(b"eth0\0\0\0\0\0\0\0\0\0\0\0\0"), "eth0");
        assert_eq!(padded(b"sixteen-letters!"), "sixteen-letters!");
    }

    #[test]
    fn an_interface_name_that_was_made_up_has_no_control_characters() {
        assert_eq!(padded(b"eth0\n\x1b[2J\x01\0\0\0\0\0\0"), "eth0\u{fffd}\u{fffd}[2J\u{fffd}");
    }
}
