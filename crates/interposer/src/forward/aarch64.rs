//! The jumps of aarch64: x0 to x7, x8 (where a struct is returned to), v0 to v7 and the stack are kept; what SVE adds to
//! v0 to v7 is not, and NCCL has no such arguments. x16 is free between caller and function, and a `br` through it may
//! land on a function's `bti c`. Targets are read with acquire, as every load of x86_64 is.

macro_rules! jump {
    ($name:ident) => {
        #[doc = concat!("`", stringify!($name), "` of the vendor.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case, reason = "the vendor's own name")]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "hint #34", // bti c
                "adrp x16, {targets} + {offset}",
                "add x16, x16, :lo12:{targets} + {offset}",
                "ldar x16, [x16]",
                "cbz x16, 2f",
                "br x16",
                "2:",
                // Not x16 or x17: a linker may put code of its own, which uses them, into a branch.
                "mov w9, #{index}",
                "b {find}",
                targets = sym TARGETS,
                offset = const Name::$name as usize * size_of::<usize>(),
                index = const Name::$name as usize,
                find = sym processor::find_and_jump,
            )
        }
    };
}

pub(super) use jump;

/// Saves what may hold arguments, asks [`super::find`] for name number w9, and jumps there. The return address is signed
/// while it lies in memory, by processors that can; to others these two hints are no instructions.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn find_and_jump() {
    std::arch::naked_asm!(
        "hint #25", // paciasp
        "stp x29, x30, [sp, #-224]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "str x8, [sp, #80]",
        "stp q0, q1, [sp, #96]",
        "stp q2, q3, [sp, #128]",
        "stp q4, q5, [sp, #160]",
        "stp q6, q7, [sp, #192]",
        "mov w0, w9",
        "bl {find}",
        "mov x16, x0",
        "ldp q6, q7, [sp, #192]",
        "ldp q4, q5, [sp, #160]",
        "ldp q2, q3, [sp, #128]",
        "ldp q0, q1, [sp, #96]",
        "ldr x8, [sp, #80]",
        "ldp x6, x7, [sp, #64]",
        "ldp x4, x5, [sp, #48]",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #224",
        "hint #29", // autiasp
        "br x16",
        find = sym super::find,
    )
}
