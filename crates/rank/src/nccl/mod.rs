//! The NCCL or RCCL library of this rank, found by name or by AIRAMP_RANK_NCCL and
//! called through `dlsym`, as frameworks that bypass the linker do. What a version
//! lacks is an error when called, never a crash.

mod communicator;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::path::Path;
use std::rc::Rc;

use airamp_vendor::Functions;
use airamp_vendor::gpu::Kind;
use airamp_vendor_abi::nccl::{Comm, NcclResult, UniqueId};

pub(crate) use communicator::{Communicator, Making};

use crate::error::RankError;

type QueryFn = unsafe extern "C" fn(Comm, *mut c_int) -> NcclResult;
type VersionFn = unsafe extern "C" fn(*mut c_int) -> NcclResult;
type ErrorStringFn = unsafe extern "C" fn(NcclResult) -> *const c_char;
type LastErrorFn = unsafe extern "C" fn(Comm) -> *const c_char;

/// An opened NCCL.
pub(crate) struct Nccl {
    /// As long as the library, which is never closed.
    pub(crate) functions: &'static Functions,
    get_version: Option<VersionFn>,
    get_error_string: Option<ErrorStringFn>,
    get_last_error: Option<LastErrorFn>,
    comm_count: Option<QueryFn>,
    comm_user_rank: Option<QueryFn>,
    comm_device: Option<QueryFn>,
    comm_async_error: Option<QueryFn>,
    pub(crate) path: String,
}

/// Calls a vendor's function by its header name; anything but success is an error.
macro_rules! invoke {
    ($nccl:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $nccl.functions.$name {
            // SAFETY: the table gives the function its header's signature; handles come
            // from this library and buffers outlive the stream work that uses them.
            // Wrong arguments are passed only where the vendor checks them.
            Some(function) => $nccl.checked(stringify!($name), unsafe { function($($argument),*) }),
            None => Err($crate::error::RankError::MissingFunction(stringify!($name))),
        }
    };
}
pub(crate) use invoke;

impl Nccl {
    pub(crate) fn open(kind: Kind) -> Result<Rc<Self>, RankError> {
        let (handle, name) = open_library(kind)?;
        let look_up = |name: &CStr| -> *const c_void {
            // SAFETY: the handle is open and is never closed. Plain dlsym on purpose:
            // a preloaded interposer must see this look-up.
            unsafe { libc::dlsym(handle, name.as_ptr()) }
        };
        // SAFETY: the library calls itself NCCL or RCCL, and stays loaded.
        let functions = Box::leak(Box::new(unsafe { Functions::load(look_up) }));
        // SAFETY: each signature is the one that nccl.h gives to the name.
        unsafe {
            Ok(Rc::new(Self {
                functions,
                get_version: transmute::<*const c_void, Option<VersionFn>>(look_up(c"ncclGetVersion")),
                get_error_string: transmute::<*const c_void, Option<ErrorStringFn>>(look_up(
                    c"ncclGetErrorString",
                )),
                get_last_error: transmute::<*const c_void, Option<LastErrorFn>>(look_up(c"ncclGetLastError")),
                comm_count: transmute::<*const c_void, Option<QueryFn>>(look_up(c"ncclCommCount")),
                comm_user_rank: transmute::<*const c_void, Option<QueryFn>>(look_up(c"ncclCommUserRank")),
                comm_device: transmute::<*const c_void, Option<QueryFn>>(look_up(c"ncclCommCuDevice")),
                comm_async_error: transmute::<*const c_void, Option<QueryFn>>(look_up(
                    c"ncclCommGetAsyncError",
                )),
                path: path_of(look_up(c"ncclGetVersion"), &name),
            }))
        }
    }

    pub(crate) fn checked(&self, function: &'static str, result: NcclResult) -> Result<(), RankError> {
        if result == NcclResult::SUCCESS {
            return Ok(());
        }
        Err(RankError::Nccl { function, code: result.0, text: self.error_string(result) })
    }

    /// The version code, as 23203 for 2.32.3.
    pub(crate) fn version(&self) -> Result<i32, RankError> {
        let function = self.get_version.ok_or(RankError::MissingFunction("ncclGetVersion"))?;
        let mut version = 0;
        // SAFETY: the function writes one integer.
        self.checked("ncclGetVersion", unsafe { function(&raw mut version) })?;
        Ok(version)
    }

    pub(crate) fn error_string(&self, result: NcclResult) -> String {
        let Some(function) = self.get_error_string else { return "no text".into() };
        // SAFETY: the function answers any value with a static string.
        text(unsafe { function(result) })
    }

    pub(crate) fn last_error(&self, comm: Comm) -> String {
        let Some(function) = self.get_last_error else { return "no text".into() };
        // SAFETY: the function answers with a string that lives as long as the library.
        text(unsafe { function(comm) })
    }

    pub(crate) fn unique_id(&self) -> Result<UniqueId, RankError> {
        let mut id = UniqueId { internal: [0; 128] };
        invoke!(self, ncclGetUniqueId(&raw mut id))?;
        Ok(id)
    }

    pub(crate) fn count(&self, comm: Comm) -> Result<i32, RankError> {
        self.query("ncclCommCount", self.comm_count, comm)
    }

    pub(crate) fn user_rank(&self, comm: Comm) -> Result<i32, RankError> {
        self.query("ncclCommUserRank", self.comm_user_rank, comm)
    }

    pub(crate) fn device(&self, comm: Comm) -> Result<i32, RankError> {
        self.query("ncclCommCuDevice", self.comm_device, comm)
    }

    /// The communicator's asynchronous state, a result code.
    pub(crate) fn async_error(&self, comm: Comm) -> Result<i32, RankError> {
        self.query("ncclCommGetAsyncError", self.comm_async_error, comm)
    }

    fn query(&self, name: &'static str, query: Option<QueryFn>, comm: Comm) -> Result<i32, RankError> {
        let function = query.ok_or(RankError::MissingFunction(name))?;
        let mut value = 0;
        // SAFETY: the communicator is live, or null which the vendor refuses.
        self.checked(name, unsafe { function(comm, &raw mut value) })?;
        Ok(value)
    }
}

/// The handle, and the name under which it was opened.
fn open_library(kind: Kind) -> Result<(*mut c_void, String), RankError> {
    let names = match (std::env::var("AIRAMP_RANK_NCCL"), kind) {
        (Ok(path), _) if !path.is_empty() => vec![path],
        (_, Kind::Cuda) => vec!["libnccl.so.2".to_owned()],
        (_, Kind::Hip) => vec!["librccl.so.1".to_owned(), "librccl.so".to_owned()],
    };
    let mut refusals = Vec::new();
    for name in &names {
        let path = CString::new(name.as_str()).map_err(|_| RankError::NoNccl(format!("{name:?}")))?;
        // SAFETY: opening runs the constructors of the library that the user named.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !handle.is_null() {
            return Ok((handle, name.clone()));
        }
        // SAFETY: dlerror returns null or a string valid until the next dl* call.
        refusals.push(text(unsafe { libc::dlerror() }));
    }
    Err(RankError::NoNccl(refusals.join("; ")))
}

/// The file that holds a function. One file can be mapped under another of its names
/// first; then the one that was asked for is told, if it lies beside.
fn path_of(address: *const c_void, opened: &str) -> String {
    let Some(owner) = airamp_vendor::dl::owner_of(address) else { return String::new() };
    let (mapped, beside) = (Path::new(&owner.path), Path::new(&owner.path).with_file_name(opened));
    match (mapped.canonicalize(), beside.canonicalize()) {
        (Ok(mapped), Ok(asked)) if mapped == asked => beside.to_string_lossy().into_owned(),
        _ => owner.path,
    }
}

fn text(address: *const c_char) -> String {
    if address.is_null() {
        return String::new();
    }
    // SAFETY: not null, and a C string by the contract of every caller.
    unsafe { CStr::from_ptr(address) }.to_string_lossy().into_owned()
}
