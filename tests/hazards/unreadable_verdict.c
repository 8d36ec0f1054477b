/* Preloaded into one rank: the last verdict about compression cannot be read. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

int open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int mode = va_arg(arguments, int);
    va_end(arguments);
    if (strstr(path, "connected.verdict")) {
        errno = EMFILE;
        return -1;
    }
    int (*real)(const char *, int, ...);
    *(void **)&real = dlsym(RTLD_NEXT, "open64");
    return real(path, flags, mode);
}
