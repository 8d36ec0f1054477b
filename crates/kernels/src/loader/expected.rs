//! What the kernels make of the self-test's elements, as digests that were computed once. Nothing is
//! computed from numbers while a job runs: its process may flush subnormal numbers to zero, and the
//! reference would then be the one that is wrong.

use airamp_codec::{Element, Format};
use sha2::{Digest, Sha256};

/// The results of one type of element in one format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// Digests of what each kernel writes.
    pub(super) quantise: u64,
    pub(super) dequantise: u64,
    pub(super) dequantise_sum: u64,
    pub(super) reduce: u64,
    /// Saturated elements and non-finite blocks, quantised and reduced.
    pub(super) quantised: [u64; 2],
    pub(super) reduced: [u64; 2],
}

/// The first eight bytes of the SHA-256.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    Sha256::digest(bytes)[..8].iter().fold(0, |digest, byte| digest << 8 | u64::from(*byte))
}

pub(super) fn of(element: Element, format: Format) -> &'static Expected {
    &EXPECTED[element as usize][format as usize]
}

#[rustfmt::skip]
const EXPECTED: [[Expected; 4]; 3] = [
    [
        Expected { quantise: 0x093a8f6a2b7e4f2c, dequantise: 0xcc3d0a79fbb0f59b, dequantise_sum: 0xa99817b63c107b40, reduce: 0xf9c1098aacadefe2, quantised: [0, 5], reduced: [0, 4] },
        Expected { quantise: 0xa50c5f434cbdba77, dequantise: 0xb75612c3c48979c0, dequantise_sum: 0x521a5816f73839ce, reduce: 0xa0563775e8eaccf9, quantised: [0, 5], reduced: [0, 3] },
        Expected { quantise: 0x43322ad9024172e8, dequantise: 0xfe413d60d4f49be2, dequantise_sum: 0x87c6ff9725b83c9a, reduce: 0xf5b0c93e8df40292, quantised: [0, 5], reduced: [0, 3] },
        Expected { quantise: 0x38928120efc0fcc6, dequantise: 0xfe413d60d4f49be2, dequantise_sum: 0xdc140db65c9740ad, reduce: 0xab7173a5e6f383fa, quantised: [0, 5], reduced: [0, 4] },
    ],
    [
        Expected { quantise: 0x1a17180d80261983, dequantise: 0xb3e3f0ae999bb96d, dequantise_sum: 0xce6b21912394a375, reduce: 0x01360dbc8b8f7aa1, quantised: [0, 4], reduced: [0, 4] },
        Expected { quantise: 0xbb4348949d37c1c5, dequantise: 0x11c8d2e0dfd00302, dequantise_sum: 0x0072e4e699dd1657, reduce: 0x40d4aafd533efe8e, quantised: [0, 4], reduced: [0, 3] },
        Expected { quantise: 0xd97af24a453f0117, dequantise: 0x995e7e466c7b4c11, dequantise_sum: 0xbc68f883f2226276, reduce: 0x62b7bbacef6bc09e, quantised: [0, 4], reduced: [0, 3] },
        Expected { quantise: 0x5ddb05274c2225c1, dequantise: 0x5c43884bb34c735a, dequantise_sum: 0x94d5c3a0d2f15ed3, reduce: 0x05a5234348ad17c4, quantised: [0, 4], reduced: [0, 4] },
    ],
    [
        Expected { quantise: 0xd73f5a4c7ca29624, dequantise: 0xf9fa2d574ca79c8d, dequantise_sum: 0x1686594388fd203a, reduce: 0x0661f95899c51ff7, quantised: [15, 4], reduced: [1, 4] },
        Expected { quantise: 0x04894a45caa1a01e, dequantise: 0xf39deb76b66e7dee, dequantise_sum: 0x0068cd0d7a2b5c06, reduce: 0x99e18430a6572691, quantised: [15, 4], reduced: [0, 3] },
        Expected { quantise: 0x50b0bf17011e022e, dequantise: 0xcbdc7b2a5664a74b, dequantise_sum: 0xec375c04a29ab46f, reduce: 0x0aada1464e786cab, quantised: [15, 4], reduced: [0, 3] },
        Expected { quantise: 0x3aee1540df886809, dequantise: 0xd6c80669665c3937, dequantise_sum: 0x234ab5a615e4e547, reduce: 0x76e287d94b9b8fbf, quantised: [15, 4], reduced: [4, 4] },
    ],
];
