"""What a linked ELF file asks of the system that loads it: libraries, symbol versions, hardening. Reads 64-bit little-endian
files and nothing else; a file that is none is an error. Used by check-binaries and by the packages, for what they depend on."""

import struct

PT_GNU_STACK, PT_GNU_RELRO, PT_DYNAMIC, PT_LOAD = 0x6474E551, 0x6474E552, 2, 1
DT_NEEDED, DT_STRTAB, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_FLAGS, DT_FLAGS_1 = 1, 5, 14, 15, 29, 30, 0x6FFFFFFB
DT_SYMTAB, DT_VERNEED, DT_VERNEEDNUM, DT_VERSYM = 6, 0x6FFFFFFE, 0x6FFFFFFF, 0x6FFFFFF0
SHT_DYNSYM, SHT_SYMTAB = 11, 2
BIND_NOW, NOW, NODELETE = 0x8, 0x1, 0x8
# By the number of the machine in the header, as Rust and RPM call them.
PROCESSORS = {62: "x86_64", 183: "aarch64"}


class Elf:
    def __init__(self, path):
        self.path = path
        self.bytes = path.read_bytes()
        if self.bytes[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path}: no 64-bit little-endian ELF file")
        machine = struct.unpack_from("<H", self.bytes, 18)[0]
        if machine not in PROCESSORS:
            raise ValueError(f"{path}: for a processor that no release is built for (machine {machine})")
        self.processor = PROCESSORS[machine]
        self._read_headers()
        self._read_dynamic()

    def _read_headers(self):
        offset, sections, = struct.unpack_from("<QQ", self.bytes, 32)
        size, count, section_size, section_count = struct.unpack_from("<HHHH", self.bytes, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.bytes, offset + i * size) for i in range(count)]
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.bytes, sections + i * section_size)
                         for i in range(section_count)]

    def _offset(self, address):
        for kind, _, offset, at, _, size, _, _ in self.segments:
            if kind == PT_LOAD and at <= address < at + size:
                return offset + address - at
        raise ValueError(f"{self.path}: nothing is loaded at {address:#x}")

    def _text(self, offset):
        start = self.strings + offset
        return self.bytes[start:self.bytes.index(b"\0", start)].decode()

    def _read_dynamic(self):
        entries = []
        for kind, _, offset, _, _, size, _, _ in self.segments:
            if kind == PT_DYNAMIC:
                entries = list(struct.iter_unpack("<qQ", self.bytes[offset:offset + size]))
        one = dict(entries)
        self.dynamic = one
        self.strings = self._offset(one[DT_STRTAB]) if DT_STRTAB in one else None
        self.needed = [self._text(value) for tag, value in entries if tag == DT_NEEDED]
        self.soname = self._text(one[DT_SONAME]) if DT_SONAME in one else None
        self.search_path = [self._text(one[tag]) for tag in (DT_RPATH, DT_RUNPATH) if tag in one]
        self.is_bound_now = bool(one.get(DT_FLAGS, 0) & BIND_NOW or one.get(DT_FLAGS_1, 0) & NOW)
        self.is_nodelete = bool(one.get(DT_FLAGS_1, 0) & NODELETE)

    @property
    def has_relro(self):
        return any(segment[0] == PT_GNU_RELRO for segment in self.segments)

    @property
    def has_executable_stack(self):
        """A file that says nothing about its stack gets an executable one."""
        return not any(segment[0] == PT_GNU_STACK and not segment[1] & 1 for segment in self.segments)

    @property
    def page(self):
        """The largest page of memory with which it can be loaded."""
        return min(segment[7] for segment in self.segments if segment[0] == PT_LOAD)

    @property
    def is_stripped(self):
        return not any(section[1] == SHT_SYMTAB for section in self.sections)

    def symbols(self):
        """Of the dynamic table: name, section, bind and type, version index."""
        table = next(section for section in self.sections if section[1] == SHT_DYNSYM)
        offset, size = table[4], table[5]
        versions = self._offset(self.dynamic[DT_VERSYM]) if DT_VERSYM in self.dynamic else None
        for index in range(1, size // 24):
            name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", self.bytes, offset + index * 24)
            version = struct.unpack_from("<H", self.bytes, versions + 2 * index)[0] & 0x7FFF if versions else 0
            yield self._text(name), section, info, version

    def exported(self):
        return sorted(name for name, section, _, _ in self.symbols() if section != 0)

    def versions(self):
        """Version index to (library, version), as the file needs them."""
        found, at = {}, self._offset(self.dynamic[DT_VERNEED]) if DT_VERNEED in self.dynamic else None
        for _ in range(self.dynamic.get(DT_VERNEEDNUM, 0)):
            _, count, library, first, following = struct.unpack_from("<HHIII", self.bytes, at)
            entry = at + first
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from("<IHHII", self.bytes, entry)
                found[index] = (self._text(library), self._text(name))
                entry += step
            at += following
        return found

    def imports(self):
        """Every symbol that is taken from elsewhere: name, library and version (or None)."""
        versions = self.versions()
        return [(name, *versions.get(version, (None, None)))
                for name, section, _, version in self.symbols() if section == 0 and name]

    def glibc(self):
        """The glibc that it takes, as (2, 28): the highest version of a symbol, or that the file names besides."""
        named = [version for _, version in self.versions().values() if version.startswith("GLIBC_2")]
        return max((number(version) for version in named), default=(0, 0))


def number(version):
    """'GLIBC_2.2.5' as (2, 2, 5)."""
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))


def in_tree(tree):
    """Every ELF file of a tree, each once."""
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [Elf(path) for path in files if path.read_bytes()[:4] == b"\x7fELF"]
