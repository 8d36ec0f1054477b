/* A plugin that is linked with NCCL. */
int ncclGetVersion(int *version);
int plugin_version(void)
{
    int version = 0;
    return ncclGetVersion(&version) ? -1 : version;
}
