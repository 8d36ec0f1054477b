//! Code objects made by hand, with symbols and no code.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) const EM_CUDA: u16 = 190;
pub(crate) const EM_AMDGPU: u16 = 224;
const SM_90: u32 = 90;
pub(crate) const GFX942: u32 = 0x4c;

/// A symbol for the file below: name, and whether it is a function.
pub(crate) type Symbol<'a> = (&'a str, bool);

/// A minimal ELF file with one text section and the given symbols.
pub(crate) fn code_object(machine: u16, flags: u32, symbols: &[Symbol<'_>]) -> Vec<u8> {
    let mut names = vec![0u8];
    let mut table = vec![0u8; 24];
    for (name, is_function) in symbols {
        table.extend((names.len() as u32).to_le_bytes());
        table.extend([0x10 | if *is_function { 2 } else { 1 }, 0]);
        table.extend(1u16.to_le_bytes());
        table.extend([0; 16]);
        names.extend(name.bytes().chain([0]));
    }
    let (text_at, table_at) = (64u64, 80u64);
    let names_at = table_at + table.len() as u64;
    let sections_at = (names_at + names.len() as u64).next_multiple_of(8);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2u16, machine].iter().flat_map(|n| n.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 0, sections_at].iter().flat_map(|n| n.to_le_bytes()));
    file.extend(flags.to_le_bytes());
    file.extend([64u16, 56, 0, 64, 4, 3].iter().flat_map(|n| n.to_le_bytes()));
    file.resize(table_at as usize, 0);
    file.extend(&table);
    file.extend(&names);
    file.resize(sections_at as usize, 0);
    let mut section = |kind: u32, flags: u64, at: u64, len: usize, link: u32, entry: u64| {
        file.extend([0u32, kind].iter().flat_map(|n| n.to_le_bytes()));
        file.extend([flags, 0, at, len as u64].iter().flat_map(|n| n.to_le_bytes()));
        file.extend([link, u32::from(entry > 0)].iter().flat_map(|n| n.to_le_bytes()));
        file.extend([8u64, entry].iter().flat_map(|n| n.to_le_bytes()));
    };
    section(0, 0, 0, 0, 0, 0);
    section(1, 6, text_at, 16, 0, 0);
    section(2, 0, table_at, table.len(), 3, 24);
    section(3, 0, names_at, names.len(), 0, 0);
    file
}

pub(crate) fn cubin(names: &[&str]) -> Vec<u8> {
    let symbols: Vec<Symbol<'_>> = names.iter().map(|name| (*name, true)).collect();
    code_object(EM_CUDA, SM_90, &symbols)
}
