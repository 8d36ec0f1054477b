/* Preloaded: the vote of this rank on whether its peers are connected never reaches the others. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
  (void)from_dir, (void)to_dir, (void)flags;
  const char *name = strrchr(to, '/');
  if (name && !strncmp(name, "/connected.", 11) && strcmp(name, "/connected.verdict")) {
    errno = EIO;
    return -1;
  }
  return link(from, to);
}
