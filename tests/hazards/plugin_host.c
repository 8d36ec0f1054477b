/* A host that knows nothing of NCCL loads a plugin into a local scope, as
 * Python does with its extension modules. argv[1]: the plugin. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  void (*run)(int);
  if (!plugin) {
    fprintf(stderr, "%s\n", dlerror());
    return 98;
  }
  *(void **)&run = dlsym(plugin, "plugin_run");
  if (!run) return 97;
  run(1);
  run(2);
  return 0;
}
