//! What a device says about itself: attributes under the numbers of both vendors, name,
//! identifier and place on the bus.

use airamp_vendor_abi::cuda::CudaError;

use super::device::Device;
use super::module::Architecture;
use super::process::{self, Vendor};
use super::{Answer, memory};

/// A number of CUDA, the number that HIP has for the same thing, and its value.
type Row = (i32, i32, fn(&Device) -> i32);

const ROWS: &[Row] = &[
    (1, 56, |_| 1024), // threads per block
    (2, 26, |_| 1024), // block dimensions
    (3, 27, |_| 1024),
    (4, 28, |_| 64),
    (5, 29, |_| i32::MAX), // grid dimensions
    (6, 30, |_| 65_535),
    (7, 31, |_| 65_535),
    (8, 74, |_| 48 << 10), // shared memory per block
    (9, 83, |_| 64 << 10), // constant memory
    (10, 87, |_| warp_size()),
    (12, 71, |_| 65_536),                  // registers per block
    (13, 5, |_| 1_980_000),                // clock rate in kHz
    (15, 12, |_| 1),                       // copies overlap
    (16, 63, |_| 132),                     // multiprocessors
    (17, 18, |_| 0),                       // kernel time limit
    (18, 16, |_| 0),                       // integrated
    (19, 3, |_| 1),                        // can map host memory
    (20, 6, |_| 0),                        // compute mode
    (31, 8, |_| 1),                        // concurrent kernels
    (32, 0, |_| 1),                        // ECC
    (33, 67, |device| device.ordinal + 1), // PCI bus
    (34, 68, |_| 0),                       // PCI device
    (36, 60, |_| 2_619_000),               // memory clock in kHz
    (37, 59, |_| 5120),                    // memory bus width
    (38, 19, |_| 50 << 20),                // L2 cache
    (39, 57, |_| 2048),                    // threads per multiprocessor
    (40, 2, |_| 3),                        // copy engines
    (41, 85, |_| 1),                       // unified addressing
    (50, 69, |_| 0),                       // PCI domain
    (75, 23, |_| Architecture::reported().capability().0),
    (76, 61, |_| Architecture::reported().capability().1),
    (78, 78, |_| 1),         // stream priorities
    (81, 76, |_| 228 << 10), // shared memory per multiprocessor
    (83, 24, |_| 0),         // managed memory
    (95, 10, |_| 0),         // cooperative launch
    (97, 75, |_| 227 << 10), // opt-in shared memory
    (102, 89, |_| 0),        // virtual memory management
    (115, 88, |_| 0),        // memory pools
];

fn warp_size() -> i32 {
    match Architecture::reported() {
        Architecture::Sm(_) => 32,
        Architecture::Gfx(_) => 64,
    }
}

/// The value of an attribute by the number of the vendor whose interface this is. One that
/// is not known but may exist is 0, as a driver answers for what a device lacks.
pub fn attribute(device: &Device, number: i32) -> Answer<i32> {
    let known = ROWS.iter().find(|(cuda, hip, _)| match process::vendor() {
        Vendor::Nvidia => *cuda == number,
        Vendor::Amd => *hip == number,
    });
    match known {
        Some((_, _, value)) => Ok(value(device)),
        None if (0..=10_200).contains(&number) => Ok(0),
        None => Err(CudaError::INVALID_VALUE),
    }
}

pub fn name(_device: &Device) -> String {
    format!("AIRamp emulated GPU ({})", Architecture::reported())
}

/// The same in every process of a machine, different for each device.
pub fn uuid(device: &Device) -> [u8; 16] {
    let mut uuid = *b"airamp-emulate\0\0";
    uuid[15] = device.ordinal as u8;
    uuid
}

pub fn pci_bus_id(device: &Device) -> String {
    format!("0000:{:02x}:00.0", device.ordinal + 1)
}

pub fn total_memory(device: &Device) -> u64 {
    memory::info(device).1
}
