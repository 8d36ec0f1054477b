//! A shared object as it lies in memory: where it is, and its dynamic symbol table.

use crate::HideError;
use libc::{Elf64_Phdr, Elf64_Sym, c_int, c_void, dl_phdr_info};
use std::ffi::CStr;

const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

#[repr(C)]
struct DynamicEntry {
    tag: i64,
    value: u64,
}

/// One loaded object: its load bias and program headers.
pub(crate) struct LoadedObject {
    bias: usize,
    headers: &'static [Elf64_Phdr],
}

impl LoadedObject {
    /// The object one of whose segments contains `address`.
    pub(crate) fn containing(address: usize) -> Option<Self> {
        let mut search = Search { address, found: None };
        // SAFETY: the callback matches the C prototype, and `search` outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    fn segment(&self, address: usize) -> Option<&Elf64_Phdr> {
        self.headers.iter().find(|header| {
            let start = self.bias + header.p_vaddr as usize;
            header.p_type == libc::PT_LOAD && (start..start + header.p_memsz as usize).contains(&address)
        })
    }

    /// # Safety
    /// The object must stay loaded, and be relocated.
    pub(crate) unsafe fn symbols(&self) -> Option<Symbols> {
        let dynamic = self.headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let mut entry = (self.bias + dynamic.p_vaddr as usize) as *const DynamicEntry;
        let (mut strings, mut table, mut hash) = (0, 0, 0);
        // SAFETY: the dynamic section ends with an entry of tag 0, and the caller says it is mapped.
        while let DynamicEntry { tag: tag @ 1.., value } = unsafe { entry.read() } {
            let slot = match tag {
                DT_STRTAB => Some(&mut strings),
                DT_SYMTAB => Some(&mut table),
                DT_GNU_HASH => Some(&mut hash),
                _ => None,
            };
            if let Some(slot) = slot {
                *slot = self.absolute(value as usize);
            }
            // SAFETY: the terminating entry has not been reached, so one more follows.
            entry = unsafe { entry.add(1) };
        }
        let complete = strings != 0 && table != 0 && hash != 0;
        complete.then_some(Symbols { strings, table, hash })
    }

    /// glibc writes absolute addresses into the dynamic section; other linkers leave offsets.
    fn absolute(&self, value: usize) -> usize {
        if value < self.bias { self.bias + value } else { value }
    }

    pub(crate) fn make_writable(&self, symbols: &Symbols) -> Result<Writable, HideError> {
        let segment = self.segment(symbols.table).ok_or(HideError::NoSymbolTable)?;
        if segment.p_flags & libc::PF_X != 0 {
            return Err(HideError::Executable);
        }
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let start = (self.bias + segment.p_vaddr as usize) & !(page - 1);
        let end = self.bias + (segment.p_vaddr + segment.p_memsz) as usize;
        let writable = Writable { start, bytes: end - start, restore: segment.p_flags & libc::PF_W == 0 };
        writable.protect(libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(writable)
    }
}

/// The symbol table's segment while it may be written; read-only again when dropped.
pub(crate) struct Writable {
    start: usize,
    bytes: usize,
    restore: bool,
}

impl Writable {
    fn protect(&self, protection: c_int) -> Result<(), HideError> {
        // SAFETY: the range is one mapped segment without code, and stays readable throughout.
        let done = unsafe { libc::mprotect(self.start as *mut c_void, self.bytes, protection) };
        if done == 0 { Ok(()) } else { Err(HideError::Protected) }
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        if self.restore {
            // A segment that stays writable is no worse than data.
            let _ = self.protect(libc::PROT_READ);
        }
    }
}

/// Addresses of the dynamic string table, symbol table and GNU hash table.
pub(crate) struct Symbols {
    strings: usize,
    table: usize,
    hash: usize,
}

impl Symbols {
    /// The defined symbol of that name, found as the dynamic linker does.
    pub(crate) fn find(&self, name: &CStr) -> Option<*mut Elf64_Sym> {
        let wanted = gnu_hash(name);
        let [buckets, first, bloom_words, _] = [0, 1, 2, 3].map(|index| self.word(index));
        let bucket_base = 4 + 2 * bloom_words as usize;
        let mut index = self.word(bucket_base + (wanted % buckets) as usize);
        if index < first {
            return None;
        }
        loop {
            let chain = self.word(bucket_base + (buckets + index - first) as usize);
            let symbol = (self.table as *mut Elf64_Sym).wrapping_add(index as usize);
            if chain | 1 == wanted | 1 && self.name(symbol) == name {
                return Some(symbol);
            }
            if chain & 1 == 1 {
                return None;
            }
            index += 1;
        }
    }

    /// Word `index` of the hash table, which is an array of 32-bit words (the bloom
    /// filter's 64-bit ones are skipped as pairs).
    fn word(&self, index: usize) -> u32 {
        // SAFETY: `find` walks the table within the bounds that its own header gives.
        unsafe { (self.hash as *const u32).add(index).read() }
    }

    fn name(&self, symbol: *const Elf64_Sym) -> &CStr {
        // SAFETY: `symbol` is an entry of this table, and names are NUL-terminated in the string table.
        unsafe { CStr::from_ptr((self.strings as *const libc::c_char).add((*symbol).st_name as usize)) }
    }

    pub(crate) fn zero(&self, symbol: *mut Elf64_Sym) {
        // SAFETY: `find` gave an entry of this table, which `Writable` has made writable. Aligned
        // stores: a concurrent look-up sees the symbol or does not.
        unsafe {
            (&raw mut (*symbol).st_value).write_volatile(0);
            (&raw mut (*symbol).st_shndx).write_volatile(0);
        }
    }
}

fn gnu_hash(name: &CStr) -> u32 {
    name.to_bytes().iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

struct Search {
    address: usize,
    found: Option<LoadedObject>,
}

unsafe extern "C" fn visit(info: *mut dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid info, and `containing` passed the search.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the headers stay mapped as long as the object, which the caller of `hide` keeps loaded.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let object = LoadedObject { bias: info.dlpi_addr as usize, headers };
    let found = object.segment(search.address).is_some();
    if found {
        search.found = Some(object);
    }
    c_int::from(found)
}
