/* Stands for GCC's unwinder when a release is linked: the names that Rust's standard library takes from libgcc_s.so.1, and
 * nothing else. zig would link its own unwinder statically instead; two of them in one process cannot hand an exception
 * to each other, and one that the vendor's library throws through us would end the job. Never shipped. */
#define NAME(name) void name(void) {}
NAME(_Unwind_Backtrace)
NAME(_Unwind_DeleteException)
NAME(_Unwind_FindEnclosingFunction)
NAME(_Unwind_ForcedUnwind)
NAME(_Unwind_GetCFA)
NAME(_Unwind_GetDataRelBase)
NAME(_Unwind_GetGR)
NAME(_Unwind_GetIP)
NAME(_Unwind_GetIPInfo)
NAME(_Unwind_GetLanguageSpecificData)
NAME(_Unwind_GetRegionStart)
NAME(_Unwind_GetTextRelBase)
NAME(_Unwind_RaiseException)
NAME(_Unwind_Resume)
NAME(_Unwind_Resume_or_Rethrow)
NAME(_Unwind_SetGR)
NAME(_Unwind_SetIP)
