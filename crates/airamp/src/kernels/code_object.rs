//! What a code object says about its kernels: their names, the registers that each thread takes, and the
//! bytes of stack, which are zero unless registers were spilled.

use airamp_kernels::Kind;
use object::Endianness;
use object::elf::{FileHeader64, SHT_DYNSYM, SHT_SYMTAB};
use object::read::elf::{FileHeader, SectionHeader, Sym};

/// A kernel in a code object. PTX has not been compiled to the end and knows only names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    pub(super) symbol: String,
    pub(super) registers: Option<u32>,
    pub(super) stack_bytes: Option<u32>,
}

/// The kernels, by name; the error is in words.
pub(super) fn kernels(bytes: &[u8], kind: Kind) -> Result<Vec<Kernel>, String> {
    let mut kernels = match kind {
        Kind::Ptx => in_ptx(&String::from_utf8_lossy(bytes)),
        Kind::Cubin => in_cubin(bytes).map_err(|error| error.to_string())?,
        Kind::Hsaco => in_hsaco(bytes).map_err(|error| error.to_string())?,
    };
    kernels.sort_by(|a, b| a.symbol.cmp(&b.symbol));
    Ok(kernels)
}

fn in_ptx(text: &str) -> Vec<Kernel> {
    let names = text.split(".entry ").skip(1).filter_map(|rest| rest.split('(').next());
    let kernel = |name: &str| Kernel { symbol: name.trim().into(), registers: None, stack_bytes: None };
    names.map(kernel).collect()
}

type Elf = FileHeader64<Endianness>;

/// The section `.nv.info` holds entries of format, attribute and size; those that we read name a symbol by its
/// index and give a number.
const NUMBER_OF_A_SYMBOL: u8 = 4;
const STACK_BYTES: u8 = 0x11;
const REGISTERS: u8 = 0x2f;

fn in_cubin(bytes: &[u8]) -> object::read::Result<Vec<Kernel>> {
    let header = Elf::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let symbols = sections.symbols(endian, bytes, SHT_SYMTAB)?;
    let Some((_, info)) = sections.section_by_name(endian, b".nv.info") else { return Ok(Vec::new()) };
    let mut kernels: Vec<Kernel> = Vec::new();
    for (attribute, symbol, value) in symbol_numbers(info.data(endian, bytes)?) {
        let symbol = symbols.symbol(object::SymbolIndex(symbol as usize))?;
        let name = String::from_utf8_lossy(symbol.name(endian, symbols.strings())?).into_owned();
        if attribute != STACK_BYTES && attribute != REGISTERS || symbol.st_type() != object::elf::STT_FUNC {
            continue;
        }
        let place = kernels.iter().position(|kernel| kernel.symbol == name).unwrap_or_else(|| {
            kernels.push(Kernel { symbol: name, registers: None, stack_bytes: None });
            kernels.len() - 1
        });
        match attribute {
            STACK_BYTES => kernels[place].stack_bytes = Some(value),
            _ => kernels[place].registers = Some(value),
        }
    }
    // What the compiler calls internally, such as a division, is no kernel of ours.
    kernels.retain(|kernel| kernel.symbol.starts_with("airamp_"));
    Ok(kernels)
}

/// Attribute, symbol and value of the entries that have them.
fn symbol_numbers(mut info: &[u8]) -> Vec<(u8, u32, u32)> {
    let mut found = Vec::new();
    while let [format, attribute, low, high, rest @ ..] = info {
        let size = usize::from(u16::from_le_bytes([*low, *high]));
        // Other formats keep their value where the size is.
        let payload = if *format == NUMBER_OF_A_SYMBOL { rest.get(..size).unwrap_or(rest) } else { &[] };
        if let ([symbol, value], []) = payload.as_chunks::<4>() {
            found.push((*attribute, u32::from_le_bytes(*symbol), u32::from_le_bytes(*value)));
        }
        info = &rest[payload.len()..];
    }
    found
}

/// A kernel's descriptor has the name of the kernel and this.
const DESCRIPTOR: &str = ".kd";
/// Where the descriptor has them: bytes of stack, and the vector registers in units of eight, less one.
const DESCRIPTOR_STACK: usize = 4;
const DESCRIPTOR_REGISTERS: usize = 48;
const REGISTER_UNITS: u32 = 0x3f;

fn in_hsaco(bytes: &[u8]) -> object::read::Result<Vec<Kernel>> {
    let header = Elf::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let symbols = sections.symbols(endian, bytes, SHT_DYNSYM)?;
    let mut kernels = Vec::new();
    for symbol in symbols.iter() {
        let name = String::from_utf8_lossy(symbol.name(endian, symbols.strings())?);
        let Some(kernel) = name.strip_suffix(DESCRIPTOR) else { continue };
        let section = sections.section(object::SectionIndex(symbol.st_shndx(endian).into()))?;
        let at = (symbol.st_value(endian) - section.sh_addr(endian)) as usize;
        let descriptor = section.data(endian, bytes)?.get(at..).unwrap_or_default();
        let number = |at: usize| Some(u32::from_le_bytes(*descriptor.get(at..)?.first_chunk()?));
        kernels.push(Kernel {
            symbol: kernel.into(),
            registers: number(DESCRIPTOR_REGISTERS).map(|word| ((word & REGISTER_UNITS) + 1) * 8),
            stack_bytes: number(DESCRIPTOR_STACK),
        });
    }
    Ok(kernels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_code_object_has_every_kernel_and_none_spills() {
        let mut expected: Vec<String> = Vec::new();
        for kernel in ["quantise", "dequantise", "dequantise_sum", "reduce"] {
            for element in ["f16", "bf16", "f32"] {
                let formats = ["e4m3", "e5m2", "int8", "auto"];
                expected.extend(formats.map(|format| format!("airamp_{kernel}_{element}_{format}")));
            }
        }
        expected.push("airamp_ghost".into());
        expected.sort();
        for blob in airamp_kernels::blobs() {
            let kernels = kernels(blob.bytes, blob.kind).unwrap();
            let names: Vec<&str> = kernels.iter().map(|kernel| kernel.symbol.as_str()).collect();
            assert_eq!(names, expected, "{}", blob.architecture);
            for kernel in kernels.iter().filter(|_| blob.kind != Kind::Ptx) {
                assert_eq!(kernel.stack_bytes, Some(0), "{} of {}", kernel.symbol, blob.architecture);
                // A lane of a CDNA device can have 512, half of them for accumulation.
                let most = if blob.kind == Kind::Hsaco { 512 } else { 255 };
                let least = if kernel.symbol == "airamp_ghost" { 1 } else { 16 };
                assert!(kernel.registers.is_some_and(|count| (least..=most).contains(&count)), "{kernel:?}");
            }
        }
    }

    #[test]
    fn noise_is_an_error_and_not_a_panic() {
        assert!(kernels(b"\x7fELFnoise", Kind::Cubin).is_err());
        assert!(kernels(b"", Kind::Hsaco).is_err());
        assert_eq!(kernels(b"noise", Kind::Ptx), Ok(Vec::new()));
    }
}
