"""CUDA C++ compiled by the compiler that PyTorch brings along, and started through the driver."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import torch

from weft.errors import WeftError

LOCAL_BYTES, REGISTERS, SHARED_BYTES = 3, 4, 8
"""Numbers of a function's attributes in the driver."""


def library(*names: str) -> ctypes.CDLL:
    """The first that is found, by the system or among the packages of NVIDIA that Python knows."""
    packaged = [str(path) for folder in sys.path for name in names for path in sorted(Path(folder or ".").glob(f"nvidia/*/lib/{name}*"))]
    for name in (*names, *packaged):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise WeftError(f"none of {', '.join(names)} is here; PyTorch built for CUDA brings them")


def compiled(source: str, defines: dict[str, Any], arch: str) -> bytes:
    """What a GPU of the architecture runs."""
    major = (torch.version.cuda or "13").split(".")[0]
    nvrtc = library(f"libnvrtc.so.{major}", "libnvrtc.so")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [f"--gpu-architecture={arch}", "--std=c++17", *(f"-D{name}={value}" for name, value in defines.items())]
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"one_row.cu", 0, None, None)
    failed = nvrtc.nvrtcCompileProgram(program, len(options), words)
    kind = "ProgramLog" if failed else "CUBIN"
    getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{kind}")(program, found)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise WeftError(f"one_row.cu does not compile: {found.value.decode(errors='replace')}")
    return found.raw


class Function:
    """A kernel on the current device, for as many blocks as can run at once."""

    def __init__(self, binary: bytes, name: str, blocks: int, threads: int, shared: int):
        self.driver, self.binary = library("libcuda.so.1"), binary
        self.shape = (blocks, 1, 1, threads, 1, 1, shared)
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(self.module), binary), "loading")
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, name.encode()), "finding")
        self.check(self.driver.cuFuncSetAttribute(self.function, SHARED_BYTES, shared), f"{shared} bytes of shared memory")

    def attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.check(self.driver.cuFuncGetAttribute(ctypes.byref(value), number, self.function), "attribute")
        return value.value

    def __call__(self, arguments: ctypes.Structure) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        given = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        self.check(self.driver.cuLaunchCooperativeKernel(self.function, *self.shape, stream, given), "starting")

    def check(self, failed: int, what: str) -> None:
        if failed:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(failed, ctypes.byref(text))
            raise WeftError(f"{what} of the kernel failed: {text.value.decode() if text.value else failed}")
