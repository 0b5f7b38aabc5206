"""CUDA C++ compiled by the compiler that PyTorch brings along, and started through the driver."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

from weft.core.errors import WeftError

SHARED_BYTES, SIDE_BY_SIDE, BEGUN_EARLY = 8, 133, 6
"""Numbers of attributes in the driver: of a function, of a device and of a launch."""


class Attribute(ctypes.Structure):
    """Of a launch, as the driver has it."""

    _fields_ = [("number", ctypes.c_uint32), ("unused", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16)]


class Launch(ctypes.Structure):
    """As the driver has it."""

    SIZES = ("x", "y", "z", "threads", "threads_y", "threads_z", "shared")
    POINTERS = ("stream", "attributes")
    _fields_ = [*((name, ctypes.c_uint32) for name in SIZES), *((name, ctypes.c_void_p) for name in POINTERS), ("count", ctypes.c_uint32)]


def library(*names: str) -> ctypes.CDLL:
    """The first that is found, by the system or among the packages of NVIDIA that Python knows."""
    packaged = [str(path) for folder in sys.path for name in names for path in sorted(Path(folder or ".").glob(f"nvidia/*/lib/{name}*"))]
    for name in (*names, *packaged):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise WeftError(f"none of {', '.join(names)} is here; PyTorch built for CUDA brings them")


def is_shared(device: torch.device) -> bool:
    """Whether processes may run on a GPU side by side (MPS), so that none can count on all multiprocessors at once."""
    driver, number, found = library("libcuda.so.1"), ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(number), device.index)
    driver.cuDeviceGetAttribute(ctypes.byref(found), SIDE_BY_SIDE, number)
    return bool(found.value)


def compiled(name: str, defines: tuple[tuple[str, Any], ...], arch: str) -> bytes:
    """A source file beside this one -> what a GPU of the architecture runs."""
    major = (torch.version.cuda or "13").split(".")[0]
    nvrtc = library(f"libnvrtc.so.{major}", "libnvrtc.so")
    here, program, size = Path(__file__).parent, ctypes.c_void_p(), ctypes.c_size_t()
    source = (here / f"{name}.cu").read_bytes()
    options = [f"--gpu-architecture={arch}", "--std=c++17", f"--include-path={here}", *(f"-D{key}={value}" for key, value in defines)]
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, f"{name}.cu".encode(), 0, None, None)
    failed = nvrtc.nvrtcCompileProgram(program, len(options), words)
    kind = "ProgramLog" if failed else "CUBIN"
    getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{kind}")(program, found)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise WeftError(f"{name}.cu does not compile: {found.value.decode(errors='replace')}")
    return found.raw


class Kernel:
    """A function of a GPU, with so many threads and bytes of shared memory in a block."""

    def __init__(self, binary: bytes, name: str, device: torch.device, threads: int, shared: int):
        self.device, self.driver, self.shape = device, library("libcuda.so.1"), (threads, 1, 1, shared)
        self.module, self.function, self.context = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        with torch.cuda.device(device):
            torch.cuda.synchronize()  # from now on the driver knows PyTorch's context in this thread
            self.check(self.driver.cuCtxGetCurrent(ctypes.byref(self.context)), "finding the context")
            self.check(self.driver.cuModuleLoadData(ctypes.byref(self.module), binary), "loading")
            self.check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, name.encode()), "finding")
            self.check(self.driver.cuFuncSetAttribute(self.function, SHARED_BYTES, shared), f"{shared} bytes of shared memory")

    def __call__(self, arguments: ctypes.Structure, blocks: int) -> None:
        """Start it behind what PyTorch started before; refused where not all blocks can run at once."""
        with torch.cuda.device(self.device):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            self.take_context()
            failed = self.driver.cuLaunchCooperativeKernel(self.function, blocks, 1, 1, *self.shape, stream, given_as(arguments))
            self.check(failed, "starting")

    def early(self, arguments: ctypes.Structure, grid: tuple[int, int, int]) -> None:
        """Start it, maybe before what PyTorch started last has ended: the kernel waits for that itself."""
        attribute = Attribute(BEGUN_EARLY)
        attribute.value[0] = 1
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream().cuda_stream
            self.take_context()
            launch = Launch(*grid, *self.shape, stream, ctypes.addressof(attribute), 1)
            self.check(self.driver.cuLaunchKernelEx(ctypes.byref(launch), self.function, given_as(arguments), None), "starting")

    def take_context(self) -> None:
        self.check(self.driver.cuCtxSetCurrent(self.context), "taking the context")  # a thread may come without

    def check(self, failed: int, what: str) -> None:
        if failed:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(failed, ctypes.byref(text))
            raise WeftError(f"{what} of the kernel failed: {text.value.decode() if text.value else failed}")


def given_as(arguments: ctypes.Structure) -> Any:
    """A kernel's one argument, as the driver wants it."""
    return (ctypes.c_void_p * 1)(ctypes.addressof(arguments))


@cache
def kernel(name: str, defines: tuple[tuple[str, Any], ...], device: torch.device, threads: int, shared: int) -> Kernel:
    """The function of a source file, which have the same name; compiled once in a process for the same definitions."""
    major, minor = torch.cuda.get_device_capability(device)
    return Kernel(compiled(name, defines, f"sm_{major}{minor}"), name, device, threads, shared)
