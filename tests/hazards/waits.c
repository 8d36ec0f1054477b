/* Goes into a function of a library (null_nccl.c) that does not come back from the one that WAITS_IN names, which is the
 * last that is called here; but the first message does, and so does the broadcast behind it.
 *
 *   waits all_reduce|send|messages|all_reduce_and_send|send_and_all_reduce|destroy */
#include <stddef.h>
#include <string.h>

typedef struct { char internal[128]; } unique_id;
int ncclGetUniqueId(unique_id *id);
int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank);
int ncclCommDestroy(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
int ncclBroadcast(const void *, void *, size_t, int, int, void *, void *);
int ncclSend(const void *, size_t, int, int, void *, void *);

static void *comm;
static float buffer[64];

static void all_reduce(void) { ncclAllReduce(buffer, buffer, 64, 7, 0, comm, NULL); }
static void send(void) { ncclSend(buffer, 64, 7, 0, comm, NULL); }

static void group(void (*one)(void), void (*other)(void))
{
    ncclGroupStart();
    one();
    other();
    ncclGroupEnd();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    unique_id id;
    if (ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 1, id, 0))
        return 1;
    send();
    ncclBroadcast(buffer, buffer, 64, 7, 0, comm, NULL);
    if (!strcmp(what, "all_reduce"))
        all_reduce();
    if (!strcmp(what, "send"))
        send();
    if (!strcmp(what, "messages"))
        group(send, send);
    if (!strcmp(what, "all_reduce_and_send"))
        group(all_reduce, send);
    if (!strcmp(what, "send_and_all_reduce"))
        group(send, all_reduce);
    if (!strcmp(what, "destroy"))
        ncclCommDestroy(comm);
    return 2;
}
