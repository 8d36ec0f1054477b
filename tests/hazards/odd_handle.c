/* A program that opens one NCCL by itself, and a plugin that is linked with another.
 *
 *   odd_handle handle LIBRARY PLUGIN      LIBRARY by its handle
 *   odd_handle namespace LIBRARY PLUGIN   LIBRARY in a namespace of its own
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct { char internal[128]; } unique_id;

static int by_handle(void *handle, const char *plugin)
{
    int (*get_id)(unique_id *);
    int (*version)(void);
    unique_id id;
    if (!handle)
        return 3;
    *(void **)&get_id = dlsym(handle, "ncclGetUniqueId");
    if (!get_id || get_id(&id))
        return 4;
    dlclose(handle);
    void *opened = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    *(void **)&version = opened ? dlsym(opened, "plugin_version") : NULL;
    if (!version)
        return 5;
    printf("the plugin's NCCL is %d\n", version());
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    void *handle = strcmp(argv[1], "namespace") ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL)
                                                : dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW);
    return by_handle(handle, argv[3]);
}
