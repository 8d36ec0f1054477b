//! What a code object says it is, and whether all of it is there, read from its own
//! headers. A driver reads as far as those say, so that nothing unchecked may reach one.
//! Understands no instruction.

use crate::blob::Kind;

const ELF_HEADER: usize = 64;
const SECTION_HEADER: usize = 64;
/// A section that takes no room in the file.
const NOBITS: u32 = 8;
const EM_CUDA: u16 = 190;
const EM_AMDGPU: u16 = 224;
/// The version of CUBIN files from which on the flags have the architecture elsewhere.
const CUBIN_ABI_WIDE: u8 = 8;
/// The low byte of an HSACO file's flags.
const AMD_MACHINES: [(u32, &str); 3] = [(0x3f, "gfx90a"), (0x4c, "gfx942"), (0x4f, "gfx950")];

/// Of an architecture's number in PTX, as it gets into warnings.
const LONGEST_NUMBER: usize = 8;

/// What is found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// Whole by its own account, for the architecture of this name.
    Whole(String),
    Truncated,
    /// Nothing that we know, in words.
    Unknown(String),
}

pub fn inspect(bytes: &[u8], kind: Kind) -> Image {
    match kind {
        Kind::Ptx => text(bytes),
        Kind::Cubin | Kind::Hsaco => elf(bytes).unwrap_or(Image::Truncated),
    }
}

fn text(bytes: &[u8]) -> Image {
    let Some((0, text)) = bytes.split_last() else { return Image::Truncated };
    let text = String::from_utf8_lossy(text);
    let target = text.split(".target").nth(1).map(str::trim_start);
    let number = target.and_then(|target| target.strip_prefix("sm_"));
    match number.and_then(|number| number.split(|c: char| !c.is_ascii_alphanumeric()).next()) {
        Some(number) if number.len() <= LONGEST_NUMBER && text.contains(".version") => {
            Image::Whole(format!("compute_{number}"))
        }
        _ => Image::Unknown("not PTX".into()),
    }
}

/// `None` where the bytes end before what they announce.
fn elf(bytes: &[u8]) -> Option<Image> {
    if !bytes.starts_with(b"\x7fELF") {
        let empty = bytes.len() < 4;
        return (!empty).then(|| Image::Unknown("not an ELF file".into()));
    }
    let header = bytes.get(..ELF_HEADER)?;
    if header[4..6] != [2, 1] {
        return Some(Image::Unknown("not a 64-bit little-endian ELF file".into()));
    }
    let segments = table_end(header, 32, 54, 56)?;
    let sections = table_end(header, 40, 58, 60)?;
    if segments.max(sections) > bytes.len() || !sections_are_there(bytes)? {
        return None;
    }
    Some(match architecture(header) {
        Some(name) => Image::Whole(name),
        None => Image::Unknown(format!("an ELF file for machine {}", u16_at(header, 18)?)),
    })
}

/// Where a table ends whose offset, size of entry and count stand at these places.
fn table_end(header: &[u8], offset: usize, entry: usize, count: usize) -> Option<usize> {
    let bytes = usize::from(u16_at(header, entry)?) * usize::from(u16_at(header, count)?);
    usize::try_from(u64_at(header, offset)?).ok()?.checked_add(bytes)
}

fn sections_are_there(bytes: &[u8]) -> Option<bool> {
    let (first, count) = (u64_at(bytes, 40)? as usize, usize::from(u16_at(bytes, 60)?));
    if count > 0 && usize::from(u16_at(bytes, 58)?) != SECTION_HEADER {
        return Some(false);
    }
    for index in 0..count {
        let section = bytes.get(first + index * SECTION_HEADER..)?.get(..SECTION_HEADER)?;
        let end = u64_at(section, 24)?.checked_add(u64_at(section, 32)?)?;
        if u32_at(section, 4)? != NOBITS && end > bytes.len() as u64 {
            return Some(false);
        }
    }
    Some(true)
}

fn architecture(header: &[u8]) -> Option<String> {
    let flags = u32_at(header, 48)?;
    match u16_at(header, 18)? {
        EM_CUDA if header[8] >= CUBIN_ABI_WIDE => Some(format!("sm_{}", flags >> 8 & 0xff)),
        EM_CUDA => Some(format!("sm_{}", flags & 0xff)),
        EM_AMDGPU => {
            let known = AMD_MACHINES.iter().find(|(number, _)| *number == flags & 0xff);
            Some(known.map_or_else(|| format!("AMD machine {:#x}", flags & 0xff), |(_, name)| (*name).into()))
        }
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_whole_with_its_last_byte_only() {
        let ptx = b".version 7.0\n.target sm_80\n.entry kernel() {}\n\0";
        assert_eq!(inspect(ptx, Kind::Ptx), Image::Whole("compute_80".into()));
        assert_eq!(inspect(&ptx[..ptx.len() - 1], Kind::Ptx), Image::Truncated);
        assert_eq!(inspect(b"\0", Kind::Ptx), Image::Unknown("not PTX".into()));
    }

    #[test]
    fn a_name_is_short_whatever_stands_in_its_place() {
        let ptx = format!(".version 7.0\n.target sm_{}\n\0", "8".repeat(1000));
        assert_eq!(inspect(ptx.as_bytes(), Kind::Ptx), Image::Unknown("not PTX".into()));
    }

    #[test]
    fn a_file_that_is_not_for_a_gpu_is_unknown() {
        assert_eq!(inspect(b"noise", Kind::Cubin), Image::Unknown("not an ELF file".into()));
        let this_program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(matches!(inspect(&this_program, Kind::Cubin), Image::Unknown(_)));
    }

    #[test]
    fn no_header_whatever_makes_it_panic() {
        let mut header = vec![0xffu8; 200];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        for at in 6..header.len() {
            for byte in [0, 1, 0x80] {
                let mut changed = header.clone();
                changed[at] = byte;
                assert!(!matches!(inspect(&changed, Kind::Hsaco), Image::Whole(_)));
            }
        }
    }
}
