//! NVML's field values: NVLink and PCIe counters of one device, all by one call. The wrapper's function cannot name a
//! field's scope, which NVLink's counters need, so the call is made here.

use nvml_wrapper::Device;
use nvml_wrapper::sys_exports::field_id as id;
use nvml_wrapper_sys::bindings as raw;

/// The scope that stands for all links together.
const ALL_LINKS: u32 = u32::MAX;
const SUCCESS: u32 = 0;

const NVLINK_SENT_KIB: usize = 0;
const NVLINK_RECEIVED_KIB: usize = 1;
const PCIE_SENT: usize = 2;
const PCIE_RECEIVED: usize = 3;
const FIRST_ERROR: usize = 4;
/// Field and scope, at the places that the names above give them. Errors: flow control and data with a bad checksum,
/// replays, recoveries.
const ASKED: [(u32, u32); 8] = [
    (id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
    (id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
    (id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
    (id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
    (id::NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 0),
    (id::NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 0),
    (id::NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 0),
    (id::NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 0),
];

#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) nvlink_sent_bytes: Option<u64>,
    pub(crate) nvlink_received_bytes: Option<u64>,
    pub(crate) nvlink_errors: Option<u64>,
    pub(crate) pcie_sent_bytes: Option<u64>,
    pub(crate) pcie_received_bytes: Option<u64>,
}

impl Fields {
    pub(crate) fn read(device: &Device<'_>) -> Self {
        let Some(values) = ask(device) else { return Self::default() };
        let bytes = |kib: Option<u64>| kib.map(|kib| kib.saturating_mul(1024));
        let errors = values.iter().skip(FIRST_ERROR).flatten();
        Self {
            nvlink_sent_bytes: bytes(values[NVLINK_SENT_KIB]),
            nvlink_received_bytes: bytes(values[NVLINK_RECEIVED_KIB]),
            nvlink_errors: errors.copied().reduce(u64::saturating_add),
            pcie_sent_bytes: values[PCIE_SENT],
            pcie_received_bytes: values[PCIE_RECEIVED],
        }
    }
}

fn ask(device: &Device<'_>) -> Option<[Option<u64>; ASKED.len()]> {
    let function = *device.nvml().lib().nvmlDeviceGetFieldValues.as_ref().ok()?;
    let mut fields = ASKED.map(|(field, scope)| raw::nvmlFieldValue_t {
        fieldId: field,
        scopeId: scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: 0,
        nvmlReturn: SUCCESS,
        value: raw::nvmlValue_t { ullVal: 0 },
    });
    // SAFETY: the handle is that of a device of the library that is loaded as long as `device` lives; the function
    // writes to the entries of the array, of which it is told the number.
    let result = unsafe { function(device.handle(), ASKED.len() as i32, fields.as_mut_ptr()) };
    (result == SUCCESS).then(|| fields.map(|field| unsigned(&field)))
}

fn unsigned(field: &raw::nvmlFieldValue_t) -> Option<u64> {
    if field.nvmlReturn != SUCCESS {
        return None;
    }
    let value = field.value;
    // SAFETY: every member of the union is a plain number within its eight bytes, which were all initialised above.
    unsafe {
        match field.valueType {
            raw::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => Some(u64::from(value.uiVal)),
            raw::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => Some(value.ulVal),
            raw::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => Some(value.ullVal),
            raw::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG => u64::try_from(value.sllVal).ok(),
            _ => None,
        }
    }
}
