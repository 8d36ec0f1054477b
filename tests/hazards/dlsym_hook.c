/* Another library's hook of dlsym, as GPU-sharing shims and profilers have it. */
#define _GNU_SOURCE
#include <dlfcn.h>

typedef void *dlsym_function(void *, const char *);

void *dlsym(void *handle, const char *name)
{
    static dlsym_function *real;
    if (!real)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(handle, name);
}
