//! Reads code objects: CUBIN and HSACO files (ELF) and PTX text. Takes the architecture
//! they are for and the names of their kernels, and nothing else.

use airamp_vendor_abi::cuda::CudaError;
use object::elf::{EM_AMDGPU, EM_CUDA, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSymbol, SymbolKind};

use crate::environment;
use crate::gpu::Fault;
use crate::gpu::process::{self, Vendor};

/// The version of CUBIN files from which on the flags have the architecture elsewhere.
const CUBIN_ABI_WIDE: u8 = 8;

/// The low byte of the flags of an HSACO file, by architecture.
const AMD_MACHINES: [(u32, &str); 12] = [
    (0x2c, "gfx900"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x36, "gfx1030"),
    (0x3f, "gfx90a"),
    (0x40, "gfx940"),
    (0x41, "gfx1100"),
    (0x4b, "gfx941"),
    (0x4c, "gfx942"),
    (0x4e, "gfx1201"),
    (0x48, "gfx1200"),
    (0x4f, "gfx950"),
];

/// What a device says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// The number after `sm_`.
    Sm(u32),
    /// The name from `gfx` on, without features.
    Gfx(String),
}

impl Architecture {
    /// The architecture that is set, or the vendor's usual one.
    pub fn reported() -> Self {
        let usual = match process::vendor() {
            Vendor::Nvidia => Self::Sm(90),
            Vendor::Amd => Self::Gfx("gfx942".to_owned()),
        };
        environment::parsed("AIRAMP_EMU_ARCH", "an architecture such as sm_90 or gfx942", Self::parse)
            .unwrap_or(usual)
    }

    pub fn parse(text: &str) -> Option<Self> {
        if let Some(number) = text.strip_prefix("sm_") {
            let number = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            return number.parse().ok().map(Self::Sm);
        }
        let name = text.split(':').next().filter(|name| name.starts_with("gfx"))?;
        Some(Self::Gfx(name.to_owned()))
    }

    /// Major and minor number as the attribute queries give them.
    pub fn capability(&self) -> (i32, i32) {
        match self {
            Self::Sm(number) => ((number / 10) as i32, (number % 10) as i32),
            Self::Gfx(name) => {
                let digits = name.trim_start_matches("gfx");
                let major = digits.get(..digits.len().saturating_sub(2));
                let minor = digits.chars().rev().nth(1).and_then(|c| c.to_digit(16));
                let major = major.and_then(|text| text.parse().ok());
                (major.unwrap_or(9), minor.unwrap_or(0) as i32)
            }
        }
    }

    /// Whether code for `built_for` runs on this: the same major number and no newer
    /// minor one with CUDA, the same name with HIP.
    fn runs(&self, built_for: &Self) -> bool {
        match (self, built_for) {
            (Self::Sm(device), Self::Sm(code)) => device / 10 == code / 10 && code <= device,
            (device, code) => device == code,
        }
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sm(number) => write!(f, "sm_{number}"),
            Self::Gfx(name) => f.write_str(name),
        }
    }
}

/// The names of the kernels in a code object that fits the device.
pub(super) fn functions(image: &[u8], device: &Architecture) -> Result<Vec<String>, Fault> {
    if image.starts_with(&object::elf::ELFMAG) {
        return elf_functions(image, device);
    }
    ptx_functions(image, device)
}

fn elf_functions(image: &[u8], device: &Architecture) -> Result<Vec<String>, Fault> {
    let unreadable = |error| {
        let message = format!("a code object cannot be read: {error}");
        Fault::new(CudaError::INVALID_IMAGE, message)
    };
    let file = ElfFile64::<LittleEndian>::parse(image).map_err(unreadable)?;
    let built_for = built_for(file.elf_header())?;
    if !device.runs(&built_for) {
        let message = format!("a code object for {built_for} does not run on {device}");
        return Err(Fault::new(CudaError::NO_BINARY_FOR_GPU, message));
    }
    let names = file.symbols().filter_map(|symbol| {
        let name = symbol.name().ok().filter(|_| symbol.is_definition())?;
        match built_for {
            Architecture::Sm(_) => (symbol.kind() == SymbolKind::Text && symbol.is_global()).then_some(name),
            Architecture::Gfx(_) => name.strip_suffix(".kd"),
        }
    });
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    // HSACO files may have their kernels in the dynamic symbols only.
    let dynamic = file.dynamic_symbols().filter_map(|symbol| {
        let name = symbol.name().ok()?.strip_suffix(".kd")?;
        Some(name.to_owned())
    });
    names.extend(dynamic.collect::<Vec<_>>());
    Ok(names)
}

fn built_for(header: &FileHeader64<LittleEndian>) -> Result<Architecture, Fault> {
    let flags = header.e_flags(LittleEndian);
    let machine = header.e_machine(LittleEndian);
    match machine {
        EM_CUDA if header.e_ident.abi_version >= CUBIN_ABI_WIDE => Ok(Architecture::Sm(flags >> 8 & 0xff)),
        EM_CUDA => Ok(Architecture::Sm(flags & 0xff)),
        EM_AMDGPU => {
            let known = AMD_MACHINES.iter().find(|(number, _)| *number == flags & 0xff);
            let name = known.map_or("gfx-unknown", |(_, name)| name);
            Ok(Architecture::Gfx(name.to_owned()))
        }
        other => {
            let message = format!("a code object for machine {other} is not for a GPU");
            Err(Fault::new(CudaError::NO_BINARY_FOR_GPU, message))
        }
    }
}

fn ptx_functions(image: &[u8], device: &Architecture) -> Result<Vec<String>, Fault> {
    let end = image.iter().position(|byte| *byte == 0).unwrap_or(image.len());
    let text = std::str::from_utf8(&image[..end]).ok();
    let Some(text) = text.filter(|text| text.contains(".version") && text.contains(".target")) else {
        let message = "a module is neither an ELF code object nor PTX";
        return Err(Fault::new(CudaError::INVALID_IMAGE, message));
    };
    let target = after_each(text, ".target").next().and_then(Architecture::parse);
    if let (Some(Architecture::Sm(code)), Architecture::Sm(device)) = (&target, device)
        && code <= device
    {
        return Ok(after_each(text, ".entry").map(str::to_owned).collect());
    }
    let message = format!("PTX for {target:?} cannot be compiled for {device}");
    Err(Fault::new(CudaError::INVALID_PTX, message))
}

/// The word after each occurrence of a directive.
fn after_each<'a>(text: &'a str, directive: &'a str) -> impl Iterator<Item = &'a str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    text.split(directive).skip(1).filter_map(move |rest| {
        let rest = rest.trim_start();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        rest.get(..end).filter(|word| !word.is_empty())
    })
}

/// How long the image at `image` is: its header says, or for text the NUL at its end.
///
/// # Safety
/// `image` points to a whole ELF file or to a C string.
pub unsafe fn image_len(image: *const u8) -> Option<usize> {
    // SAFETY: both kinds of image have at least four bytes, text including its NUL.
    let magic = unsafe { std::slice::from_raw_parts(image, 4) };
    if magic != object::elf::ELFMAG {
        // SAFETY: not an ELF file, so it is a C string.
        return Some(unsafe { std::ffi::CStr::from_ptr(image.cast()) }.count_bytes());
    }
    const HEADER: usize = size_of::<FileHeader64<LittleEndian>>();
    // SAFETY: an ELF file begins with its header.
    let header = unsafe { std::slice::from_raw_parts(image, HEADER) };
    let header = FileHeader64::<LittleEndian>::parse(header).ok()?;
    let entries = |at: u64, count: u16, size: u16| at as usize + count as usize * size as usize;
    let sections = entries(
        header.e_shoff.get(LittleEndian),
        header.e_shnum.get(LittleEndian),
        header.e_shentsize.get(LittleEndian),
    );
    let segments = entries(
        header.e_phoff.get(LittleEndian),
        header.e_phnum.get(LittleEndian),
        header.e_phentsize.get(LittleEndian),
    );
    let tables = sections.max(segments).max(HEADER);
    // SAFETY: the file is whole, so that it reaches to the end of its own tables.
    let file = unsafe { std::slice::from_raw_parts(image, tables) };
    let sections = header.section_headers(LittleEndian, file).ok()?;
    let ends = sections.iter().filter_map(|section| {
        let (offset, size) = section.file_range(LittleEndian)?;
        Some((offset + size) as usize)
    });
    Some(ends.fold(tables, usize::max))
}
