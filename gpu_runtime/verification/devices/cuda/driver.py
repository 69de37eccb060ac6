"""The CUDA driver, opened at run time with declarations of our own: no toolkit, no PyTorch."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any

from planners.errors import DeviceError

LIBRARY = "libcuda.so.1"

# Streams that share a connection to the device wait for each other. The driver reads this once.
CONNECTIONS_VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"
MAX_CONNECTIONS = "32"

NON_BLOCKING_STREAM = 1
EVENT_DEFAULT = 0
EVENT_WITHOUT_TIME = 2
CAPTURE_THREAD_LOCAL = 1

ATTRIBUTE_MULTIPROCESSORS = 16
ATTRIBUTE_CAPABILITY_MAJOR = 75
ATTRIBUTE_CAPABILITY_MINOR = 76

_SUCCESS = 0

_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoD_v2": (c_uint64, c_void_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemsetD8_v2": (c_uint64, ctypes.c_ubyte, c_size_t),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuLaunchKernel": (
        c_void_p, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_void_p,
        POINTER(c_void_p), POINTER(c_void_p),
    ),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, ctypes.c_ulonglong),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
}  # fmt: skip


def require_gpu(library: str = LIBRARY) -> None:
    """Check that the driver shows a GPU, and open it for nothing yet.

    What :class:`Driver` sets for streams stays unset: workers inherit it, and it would change
    what they measure.
    """
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        raise DeviceError(f"no CUDA device: {library} cannot be opened ({error})") from None
    found = c_int()
    if driver.cuInit(0) != _SUCCESS or driver.cuDeviceGetCount(byref(found)) != _SUCCESS:
        raise DeviceError("no CUDA device: the driver finds none")
    if not found.value:
        raise DeviceError("no CUDA device: the driver shows none of them")


class Driver:
    """The functions of the driver; each raises where the driver refuses."""

    def __init__(self, library: str) -> None:
        os.environ.setdefault(CONNECTIONS_VARIABLE, MAX_CONNECTIONS)
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise DeviceError(
                f"no CUDA driver: {library} cannot be opened ({error}); install NVIDIA's driver, "
                f"or run on the CPU with --device cpu"
            ) from None
        self._functions: dict[str, Callable[..., int]] = {}
        for name, arguments in _FUNCTIONS.items():
            self._functions[name] = self._declare(name, arguments)
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object, what: str = "") -> None:
        """Call a function by its exported name; an error says the name and `what`."""
        self.require(self._functions[name](*arguments), f"{name} {what}".strip())

    def require(self, status: int, called: str) -> None:
        """Raise ``DeviceError`` where a call of that name did not succeed."""
        if status != _SUCCESS:
            raise DeviceError(f"{called}: {self._error(status)}")

    def handle(self, name: str, *arguments: object) -> c_void_p:
        """Return the handle that a function makes; see :meth:`call`."""
        made = c_void_p()
        self.call(name, byref(made), *arguments)
        return made

    def number(self, name: str, *arguments: object) -> int:
        """Return the number that a function gives; see :meth:`call`."""
        found = c_int()
        self.call(name, byref(found), *arguments)
        return found.value

    def free_bytes(self) -> int:
        """Return the free memory of the current context's device."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def launcher(self) -> Callable[..., int]:
        """Return the function that launches, without the cost of looking it up each time."""
        return self._functions["cuLaunchKernel"]

    def _declare(self, name: str, arguments: tuple[Any, ...]) -> Callable[..., int]:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise DeviceError(
                f"the CUDA driver has no function {name}; CUDA 11.4 or newer is needed"
            ) from None
        function.argtypes = arguments
        function.restype = c_int
        return function  # type: ignore[no-any-return]

    def _error(self, status: int) -> str:
        name, text = c_char_p(), c_char_p()
        self._library.cuGetErrorName(c_int(status), byref(name))
        self._library.cuGetErrorString(c_int(status), byref(text))
        called = (name.value or b"unknown error").decode()
        return f"{called} ({status}), {(text.value or b'').decode()}"


@cache
def open_driver() -> Driver:
    """Return the driver of this machine, opened once."""
    return Driver(LIBRARY)
