"""One GPU: its context, its memory, and how fast it copies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.verification.devices.cuda import driver as cuda
from gpu_runtime.verification.devices.cuda.compiler import compile_for
from gpu_runtime.verification.devices.cuda.driver import Driver, open_driver
from planners.errors import DeviceError

KERNEL = Path(__file__).with_name("stamp_check_kernel.cu")
COPY_BYTES = 1 << 30
COPIES = 10


class Context:
    """The primary context of a GPU, current in this thread, kept while the process runs."""

    def __init__(self, driver: Driver, ordinal: int = 0) -> None:
        self.driver = driver
        found = driver.number("cuDeviceGetCount")
        if ordinal >= found:
            raise DeviceError(f"no CUDA device {ordinal}: the driver shows {found}")
        self._device = driver.number("cuDeviceGet", ordinal)
        name = ctypes.create_string_buffer(128)
        driver.call("cuDeviceGetName", name, len(name), self._device)
        self.name = name.value.decode()
        self.multiprocessors = self._attribute(cuda.ATTRIBUTE_MULTIPROCESSORS)
        self._handle = driver.handle("cuDevicePrimaryCtxRetain", self._device)
        driver.call("cuCtxSetCurrent", self._handle)

    @cached_property
    def kernel(self) -> c_void_p:
        """The kernel that runs one node, compiled for this GPU."""
        capability = (
            self._attribute(cuda.ATTRIBUTE_CAPABILITY_MAJOR),
            self._attribute(cuda.ATTRIBUTE_CAPABILITY_MINOR),
        )
        module = self.driver.handle("cuModuleLoadData", compile_for(KERNEL, capability))
        return self.driver.handle("cuModuleGetFunction", module, b"run_node")

    @cached_property
    def copy_bytes_per_second(self) -> float:
        """Bytes read and written a second by large copies, the fastest of some."""
        size = min(COPY_BYTES, self.driver.free_bytes() // 4)
        with Stream(self) as stream:
            source, target = Buffer(self, size), Buffer(self, size)
            try:
                source.fill(1)
                seconds = [
                    stream.seconds_of(lambda: stream.copy(source, target)) for _ in range(COPIES)
                ]
            finally:
                source.free()
                target.free()
        return 2 * size / min(seconds)

    def _attribute(self, attribute: int) -> int:
        return self.driver.number("cuDeviceGetAttribute", attribute, self._device)


@dataclass
class Buffer:
    """Memory of a GPU."""

    context: Context
    # Bytes; at least one is taken.
    size: int

    def __post_init__(self) -> None:
        address = c_uint64()
        driver = self.context.driver
        driver.call(
            "cuMemAlloc_v2",
            byref(address),
            max(self.size, 1),
            what=f"of {self.size} bytes with {driver.free_bytes()} free",
        )
        self.address: int = address.value

    def fill(self, byte: int) -> None:
        """Set every byte."""
        if self.size:
            self.context.driver.call("cuMemsetD8_v2", self.address, byte, self.size)

    def put(self, array: NDArray[Any]) -> None:
        """Copy an array of the buffer's size here, and wait for it."""
        if array.nbytes:
            source = np.ascontiguousarray(array)
            self.context.driver.call(
                "cuMemcpyHtoD_v2", self.address, source.ctypes.data, source.nbytes
            )

    def get(self, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        """Return the first entries of the buffer."""
        array = np.zeros(count, dtype=dtype)
        if array.nbytes:
            self.context.driver.call(
                "cuMemcpyDtoH_v2", array.ctypes.data, self.address, array.nbytes
            )
        return array

    def free(self) -> None:
        """Give it back."""
        self.context.driver.call("cuMemFree_v2", self.address)


class Stream:
    """A stream that waits for no other unless told to."""

    def __init__(self, context: Context) -> None:
        self._driver = context.driver
        self.handle = self._driver.handle("cuStreamCreate", cuda.NON_BLOCKING_STREAM)
        self._begun = Event(context, with_time=True)
        self._ended = Event(context, with_time=True)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_error: object) -> None:
        self.free()

    def seconds_of(self, submit: Callable[[], object]) -> float:
        """Wait for what a call submits here, and return how long the device took.

        What it submits elsewhere counts where this stream waits for it.
        """
        self.record(self._begun)
        submit()
        self.record(self._ended)
        self._driver.call("cuStreamSynchronize", self.handle)
        milliseconds = c_float()
        self._driver.call(
            "cuEventElapsedTime", byref(milliseconds), self._begun.handle, self._ended.handle
        )
        return milliseconds.value / 1e3

    def record(self, event: Event) -> None:
        """Let an event pass when all that was submitted here has ended."""
        self._driver.call("cuEventRecord", event.handle, self.handle)

    def wait(self, event: Event) -> None:
        """Let what is submitted here from now on wait for an event."""
        self._driver.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Submit a copy of a whole buffer."""
        self._driver.call(
            "cuMemcpyDtoDAsync_v2", target.address, source.address, source.size, self.handle
        )

    def free(self) -> None:
        """Give it back."""
        self._begun.free()
        self._ended.free()
        self._driver.call("cuStreamDestroy_v2", self.handle)


class Event:
    """A moment in a stream; with time it remembers when it passed."""

    def __init__(self, context: Context, *, with_time: bool = False) -> None:
        self._driver = context.driver
        flags = cuda.EVENT_DEFAULT if with_time else cuda.EVENT_WITHOUT_TIME
        self.handle = self._driver.handle("cuEventCreate", flags)

    def free(self) -> None:
        """Give it back."""
        self._driver.call("cuEventDestroy_v2", self.handle)


@cache
def open_context() -> Context:
    """Return the context of the first GPU, current in the thread that was first to ask for it."""
    return Context(open_driver())
