//! Types of `nccl.h` 2.32 and of `rccl.h`, which share one ABI.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// `ncclComm_t`: an address that the vendor recycles.
pub type Comm = *mut c_void;
/// `cudaStream_t` or `hipStream_t`.
pub type Stream = *mut c_void;

/// `ncclResult_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcclResult(pub c_int);

impl NcclResult {
    pub const SUCCESS: Self = Self(0);
    pub const UNHANDLED_CUDA_ERROR: Self = Self(1);
    pub const SYSTEM_ERROR: Self = Self(2);
    pub const INTERNAL_ERROR: Self = Self(3);
    pub const INVALID_ARGUMENT: Self = Self(4);
    pub const INVALID_USAGE: Self = Self(5);
    pub const REMOTE_ERROR: Self = Self(6);
    pub const IN_PROGRESS: Self = Self(7);
    pub const TIMEOUT: Self = Self(8);

    /// Success, or work that a non-blocking communicator goes on with.
    pub fn is_accepted(self) -> bool {
        self == Self::SUCCESS || self == Self::IN_PROGRESS
    }
}

/// `ncclDataType_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataType(pub c_int);

impl DataType {
    pub const INT8: Self = Self(0);
    pub const UINT8: Self = Self(1);
    pub const INT32: Self = Self(2);
    pub const UINT32: Self = Self(3);
    pub const INT64: Self = Self(4);
    pub const UINT64: Self = Self(5);
    pub const FLOAT16: Self = Self(6);
    pub const FLOAT32: Self = Self(7);
    pub const FLOAT64: Self = Self(8);
    pub const BFLOAT16: Self = Self(9);
    pub const FLOAT8_E4M3: Self = Self(10);
    pub const FLOAT8_E5M2: Self = Self(11);

    /// Every type of the header with its name, in numeric order.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::INT8, "int8"),
        (Self::UINT8, "uint8"),
        (Self::INT32, "int32"),
        (Self::UINT32, "uint32"),
        (Self::INT64, "int64"),
        (Self::UINT64, "uint64"),
        (Self::FLOAT16, "float16"),
        (Self::FLOAT32, "float32"),
        (Self::FLOAT64, "float64"),
        (Self::BFLOAT16, "bfloat16"),
        (Self::FLOAT8_E4M3, "float8e4m3"),
        (Self::FLOAT8_E5M2, "float8e5m2"),
    ];

    /// Bytes per element; `None` for a value that the header does not name.
    pub fn size(self) -> Option<usize> {
        Some(match self.0 {
            0 | 1 | 10 | 11 => 1,
            6 | 9 => 2,
            2 | 3 | 7 => 4,
            4 | 5 | 8 => 8,
            _ => return None,
        })
    }

    pub fn name(self) -> Option<&'static str> {
        let index = usize::try_from(self.0).ok()?;
        Self::ALL.get(index).map(|(_, name)| *name)
    }
}

/// `ncclRedOp_t`. Values from 5 on are handles of PreMulSum operators, recycled.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RedOp(pub c_int);

impl RedOp {
    pub const SUM: Self = Self(0);
    pub const PROD: Self = Self(1);
    pub const MAX: Self = Self(2);
    pub const MIN: Self = Self(3);
    pub const AVG: Self = Self(4);
    /// The first value that is a handle and not a built-in reduction.
    pub const FIRST_HANDLE: c_int = 5;

    /// The built-in reductions with their names, in numeric order.
    pub const BUILT_IN: [(Self, &'static str); 5] = [
        (Self::SUM, "sum"),
        (Self::PROD, "prod"),
        (Self::MAX, "max"),
        (Self::MIN, "min"),
        (Self::AVG, "avg"),
    ];
}

/// `ncclScalarResidence_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalarResidence(pub c_int);

impl ScalarResidence {
    pub const DEVICE: Self = Self(0);
    pub const HOST_IMMEDIATE: Self = Self(1);
}

pub const UNIQUE_ID_BYTES: usize = 128;
pub const CONFIG_UNDEF_INT: c_int = c_int::MIN;
pub const SPLIT_NOCOLOR: c_int = -1;
pub const SHRINK_DEFAULT: c_int = 0;
pub const SHRINK_ABORT: c_int = 1;
pub const API_MAGIC: c_uint = 0xcafe_beef;
pub const SIM_INFO_MAGIC: c_uint = 0x7468_5283;

/// `ncclUniqueId`, passed by value.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId {
    pub internal: [u8; UNIQUE_ID_BYTES],
}

/// The fields of `ncclConfig_t` that have kept their place since 2.14. What a
/// caller passes may be shorter or longer: `size` says how much of it is there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub blocking: c_int,
    pub cga_cluster_size: c_int,
    pub min_ctas: c_int,
    pub max_ctas: c_int,
    pub net_name: *const c_char,
    pub split_share: c_int,
}

impl Config {
    /// A configuration that leaves everything to the vendor, as its initializer does.
    pub fn undefined(version: c_uint) -> Self {
        Self {
            size: size_of::<Self>(),
            magic: API_MAGIC,
            version,
            blocking: CONFIG_UNDEF_INT,
            cga_cluster_size: CONFIG_UNDEF_INT,
            min_ctas: CONFIG_UNDEF_INT,
            max_ctas: CONFIG_UNDEF_INT,
            net_name: std::ptr::null(),
            split_share: CONFIG_UNDEF_INT,
        }
    }
}

/// `ncclCollConfig_t`, seen only as an address.
pub type CollConfig = c_void;

/// `ncclSimInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SimInfo {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub estimated_time: f32,
}

/// What a forwarded function returns, so that a missing vendor has an answer
/// that the caller can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// `ncclResult_t`, `int`, `void` or a small struct: an integer register.
    Result,
    /// `const char*`.
    Text,
}

/// A name of the surface tables, written with its final NUL, as a C string.
pub const fn c_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only NUL"),
    }
}
