//! CUDA's run-time compiler, loaded from its package: CUDA C++ to CUBIN and PTX, without a GPU.
//! Sources are handed over as text, so no path gets into what it makes.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use airamp_kernels::{Kind, MAIN_SOURCE, sources};

use super::KernelsError;
use super::targets::{NVRTC, Target};

const LIBRARY: &str = "nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
/// Drivers refuse PTX of a version that is newer than they are; the kernels need nothing newer than this.
const PTX_VERSION: &str = ".version 7.0";

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Contents = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;

/// The compiler's functions. The library stays open: it does not survive being closed.
pub(super) struct Nvrtc {
    create: Create,
    compile: Compile,
    log: (Size, Contents),
    cubin: (Size, Contents),
    ptx: (Size, Contents),
    destroy: Destroy,
}

impl Nvrtc {
    pub(super) fn open(package: &Path) -> Result<Self, KernelsError> {
        let path = CString::new(package.join(LIBRARY).into_os_string().into_encoded_bytes());
        let path = path.map_err(|error| unusable(error.to_string()))?;
        // SAFETY: `path` is a C string; NVRTC's constructors ask nothing of the process that loads it.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(unusable(last_error()));
        }
        // SAFETY: each name has the type that nvrtc.h gives it, and the library is never closed.
        unsafe {
            Ok(Self {
                create: function(library, c"nvrtcCreateProgram")?,
                compile: function(library, c"nvrtcCompileProgram")?,
                log: (
                    function(library, c"nvrtcGetProgramLogSize")?,
                    function(library, c"nvrtcGetProgramLog")?,
                ),
                cubin: (function(library, c"nvrtcGetCUBINSize")?, function(library, c"nvrtcGetCUBIN")?),
                ptx: (function(library, c"nvrtcGetPTXSize")?, function(library, c"nvrtcGetPTX")?),
                destroy: function(library, c"nvrtcDestroyProgram")?,
            })
        }
    }

    pub(super) fn build(&self, target: &Target) -> Result<Vec<u8>, KernelsError> {
        let program = Program::new(self)?;
        program.compile(target)?;
        if target.kind == Kind::Cubin {
            return program.contents(self.cubin);
        }
        let text = String::from_utf8_lossy(&program.contents(self.ptx)?).into_owned();
        Ok(with_older_version(&text).into_bytes())
    }
}

/// The text with its `.version` line replaced; the NUL at its end stays.
fn with_older_version(ptx: &str) -> String {
    let version = |line: &str| line.starts_with(".version");
    let lines = ptx.split('\n').map(|line| if version(line) { PTX_VERSION } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

struct Program<'nvrtc> {
    nvrtc: &'nvrtc Nvrtc,
    handle: Handle,
}

impl<'nvrtc> Program<'nvrtc> {
    fn new(nvrtc: &'nvrtc Nvrtc) -> Result<Self, KernelsError> {
        let c_string = |text: &str| CString::new(text).map_err(|error| unusable(error.to_string()));
        let mut texts = Vec::new();
        let mut names = Vec::new();
        for source in sources() {
            texts.push(c_string(source.text)?);
            names.push(c_string(source.file)?);
        }
        let main = sources().iter().position(|source| source.file == MAIN_SOURCE).unwrap_or_default();
        let (text_pointers, name_pointers) = (pointers(&texts), pointers(&names));
        let mut handle = ptr::null_mut();
        // SAFETY: all pointers are to C strings that outlive the call, as many as the count says.
        let result = unsafe {
            let (count, main_text) = (texts.len() as c_int, texts[main].as_ptr());
            let (texts, names) = (text_pointers.as_ptr(), name_pointers.as_ptr());
            (nvrtc.create)(&mut handle, main_text, name_pointers[main], count, texts, names)
        };
        if result != 0 {
            return Err(unusable(format!("nvrtcCreateProgram returned {result}")));
        }
        Ok(Self { nvrtc, handle })
    }

    fn compile(&self, target: &Target) -> Result<(), KernelsError> {
        let architecture = format!("--gpu-architecture={}", target.architecture);
        let options = NVRTC.options.iter().copied().chain([architecture.as_str()]);
        let options: Vec<CString> = options.filter_map(|option| CString::new(option).ok()).collect();
        let pointers = pointers(&options);
        // SAFETY: the handle is of a live program; the options outlive the call.
        let result = unsafe { (self.nvrtc.compile)(self.handle, options.len() as c_int, pointers.as_ptr()) };
        if result == 0 {
            return Ok(());
        }
        let log = self.contents(self.nvrtc.log)?;
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
        Err(KernelsError::Compiler { architecture: target.architecture, log })
    }

    fn contents(&self, (size, contents): (Size, Contents)) -> Result<Vec<u8>, KernelsError> {
        let mut length = 0;
        // SAFETY: the handle is of a live program, and the second function writes as many bytes as the first
        // one announced.
        let (mut bytes, result) = unsafe {
            let mut result = size(self.handle, &mut length);
            let mut bytes = vec![0u8; length];
            if result == 0 {
                result = contents(self.handle, bytes.as_mut_ptr().cast());
            }
            (bytes, result)
        };
        bytes.truncate(length);
        if result == 0 { Ok(bytes) } else { Err(unusable(format!("NVRTC returned {result}"))) }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is of a live program and is not used again.
        unsafe { (self.nvrtc.destroy)(&mut self.handle) };
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}

/// # Safety
/// `F` is the type of the function of this name, and `library` stays open.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Result<F, KernelsError> {
    // SAFETY: `library` is a handle of dlopen and `name` a C string.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() {
        return Err(unusable(last_error()));
    }
    // SAFETY: the caller vouches for the type, a function pointer, which is as large as the address.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

fn last_error() -> String {
    // SAFETY: dlerror returns null or a C string that lives until the next call of its kind in this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".into();
    }
    // SAFETY: as above; it is copied at once.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn unusable(reason: String) -> KernelsError {
    KernelsError::Library { what: "NVRTC", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_keeps_everything_but_its_version() {
        let text = "// by NVRTC\n.version 8.8\n.target sm_80\n\0";
        assert_eq!(with_older_version(text), "// by NVRTC\n.version 7.0\n.target sm_80\n\0");
    }
}
