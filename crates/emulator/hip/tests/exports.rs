//! The library as programs use it: by the C names of HIP.

#[path = "../../tests/gpu/library.rs"]
mod library;

use airamp_vendor_abi::hip::ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
use library::Library;

fn open() -> Library {
    Library::open("libairamp_emulated_hip.so")
}

#[test]
fn hip_and_rccl_are_in_one_file() {
    let library = open();
    for name in ["hipInit", "hipModuleLaunchKernel", "hipStreamBeginCapture", "ncclAllReduce"] {
        assert!(library.has(name), "{name}");
    }
    assert!(!library.has("cuInit") && !library.has("cudaMalloc"));
}

#[test]
fn the_device_is_an_amd_one() {
    let library = open();
    let mut properties = vec![0u8; 1472];
    library.must("hipGetDevicePropertiesR0600", &[properties.as_mut_ptr() as usize, 0]);
    assert_eq!(&properties[1160..1167], b"gfx942\0");
    let major = library.make("hipDeviceGetAttribute", &[ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as usize, 0]);
    assert_eq!(major, 9);
}

#[test]
fn memory_goes_to_the_device_and_back() {
    let library = open();
    let stream = library.make("hipStreamCreateWithFlags", &[1]);
    let ptr = library.make("hipMalloc", &[16]);
    let (data, mut back) = ([7u8; 16], [0u8; 16]);
    library.must("hipMemcpyHtoDAsync", &[ptr, data.as_ptr() as usize, 16, stream]);
    library.must("hipMemcpyAsync", &[back.as_mut_ptr() as usize, ptr, 16, 2, stream]);
    assert_eq!(back, data);
    library.must("hipFree", &[ptr]);
}
