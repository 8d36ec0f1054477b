"""Asks the real NCCL, through ctypes as inference servers do, all that it
answers on a machine without a GPU. The C twin is real_nccl.c.

usage: real_nccl.py LIBRARY (a name or a path)
"""

import ctypes
import sys


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def ask_for_an_id(nccl):
    room = (ctypes.c_ubyte * 160)(*[0x5A] * 160)
    result = nccl.ncclGetUniqueId(ctypes.byref(room))
    octets = bytes(room)
    # Bytes 10 and 11 are a port of the moment.
    stable = octets[8:10] + octets[12:128]
    print("id", result, stable.hex(), any(octets[:8]), octets[128:] == b"\x5a" * 32)


def ask_for_parameters(nccl):
    keys = ctypes.POINTER(ctypes.c_char_p)()
    count = ctypes.c_int()
    result = nccl.ncclParamGetAllParameterKeys(ctypes.byref(keys), ctypes.byref(count))
    print("keys", result, [keys[i] for i in range(count.value)])
    value = ctypes.c_char_p()
    length = ctypes.c_int()
    for key in (b"NCCL_DEBUG", b"NCCL_NO_SUCH_PARAMETER"):
        result = nccl.ncclParamGetParameter(key, ctypes.byref(value), ctypes.byref(length))
        print("parameter", key, result, value.value if result == 0 else None)
    handle = ctypes.c_void_p()
    number = ctypes.c_int64()
    print("bind", nccl.ncclParamBind(ctypes.byref(handle), b"NCCL_SET_THREAD_NAME"))
    print("number", nccl.ncclParamGetI64(handle, ctypes.byref(number)), number.value)


def ask_for_a_communicator(nccl):
    uid = UniqueId()
    comm = ctypes.c_void_p()
    nccl.ncclGetUniqueId(ctypes.byref(uid))
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    print("init", nccl.ncclCommInitRank(ctypes.byref(comm), 1, uid, 0), comm.value)
    print("last error", nccl.ncclGetLastError(None))
    print("null", nccl.ncclCommDestroy(None), nccl.ncclCommAbort(None))


def main():
    nccl = ctypes.CDLL(sys.argv[1])
    nccl.ncclGetErrorString.restype = ctypes.c_char_p
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    version = ctypes.c_int()
    for name in ("ncclGetVersion", "pncclGetVersion"):
        print(name, getattr(nccl, name)(ctypes.byref(version)), version.value)
    for code in range(-1, 12):
        print(code, nccl.ncclGetErrorString(code))
    ask_for_an_id(nccl)
    print("group", nccl.ncclGroupStart(), nccl.ncclGroupEnd(), nccl.ncclGroupEnd())
    ask_for_parameters(nccl)
    ask_for_a_communicator(nccl)
    print("absent", hasattr(nccl, "ncclNoSuchFunction"))


if __name__ == "__main__":
    main()
