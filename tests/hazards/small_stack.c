/* Threads with the smallest stacks that a program may ask for: what a library keeps for each thread lies in them. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *nothing(void *argument) {
  return argument;
}

int main(void) {
  for (size_t kib = 16; kib <= 24; kib += 4) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kib * 1024);
    int error = pthread_create(&thread, &attributes, nothing, NULL);
    printf("a stack of %zu KiB: %s\n", kib, error ? strerror(error) : "started");
    if (!error) pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
  }
  return 0;
}
