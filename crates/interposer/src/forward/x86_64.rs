//! The jumps of x86_64: everything of the System V convention that can hold an argument is kept, rax (how many vector
//! registers a variadic call uses) and r10 among it. r11 is free between caller and function.

macro_rules! jump {
    ($name:ident) => {
        #[doc = concat!("`", stringify!($name), "` of the vendor.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case, reason = "the vendor's own name")]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "mov r11, qword ptr [rip + {targets} + {offset}]",
                "test r11, r11",
                "jz 2f",
                "jmp r11",
                "2:",
                "mov r11d, {index}",
                "jmp {find}",
                targets = sym TARGETS,
                offset = const Name::$name as usize * size_of::<usize>(),
                index = const Name::$name as usize,
                find = sym processor::find_and_jump,
            )
        }
    };
}

pub(super) use jump;

/// Saves what may hold arguments, asks [`super::find`] for name number r11, and jumps there.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn find_and_jump() {
    std::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "push r10",
        "sub rsp, 128",
        "movups xmmword ptr [rsp], xmm0",
        "movups xmmword ptr [rsp + 16], xmm1",
        "movups xmmword ptr [rsp + 32], xmm2",
        "movups xmmword ptr [rsp + 48], xmm3",
        "movups xmmword ptr [rsp + 64], xmm4",
        "movups xmmword ptr [rsp + 80], xmm5",
        "movups xmmword ptr [rsp + 96], xmm6",
        "movups xmmword ptr [rsp + 112], xmm7",
        "mov edi, r11d",
        "call {find}",
        "mov r11, rax",
        "movups xmm0, xmmword ptr [rsp]",
        "movups xmm1, xmmword ptr [rsp + 16]",
        "movups xmm2, xmmword ptr [rsp + 32]",
        "movups xmm3, xmmword ptr [rsp + 48]",
        "movups xmm4, xmmword ptr [rsp + 64]",
        "movups xmm5, xmmword ptr [rsp + 80]",
        "movups xmm6, xmmword ptr [rsp + 96]",
        "movups xmm7, xmmword ptr [rsp + 112]",
        "add rsp, 128",
        "pop r10",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "jmp r11",
        find = sym super::find,
    )
}
