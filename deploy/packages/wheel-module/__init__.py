"""Where the wheel put the library, for programs that want its path: VLLM_NCCL_SO_PATH or LD_PRELOAD. Importing this loads
nothing and changes nothing; `airamp run -- …` is what starts a program with the library."""

import os
import sysconfig

__all__ = ["library"]


def library():
    """The path of libairamp_accel.so. FileNotFoundError if it is not where the wheel put it."""
    here = os.path.abspath(__file__)
    # The environment of this interpreter, or with `pip install --user` or --prefix the one that holds this file.
    prefixes = [sysconfig.get_path("data")]
    while os.path.dirname(here) != here:
        here = os.path.dirname(here)
        prefixes.append(here)
    for prefix in prefixes:
        path = os.path.join(prefix, "lib", "libairamp_accel.so")
        if os.path.isfile(path):
            return path
    raise FileNotFoundError("libairamp_accel.so is not below " + prefixes[0])
