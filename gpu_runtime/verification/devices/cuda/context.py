"""One GPU: its context, its memory, and how fast it copies."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.verification.devices.cuda.compiler import MissingLibraryError, ask, compile_for
from planners.errors import DeviceError, MissingDependencyError

try:
    from cuda.bindings import driver as driver
except ImportError as error:
    raise MissingDependencyError(f"a GPU needs cuda-bindings ({error})", "cuda") from None

KERNEL = Path(__file__).with_name("stamp_check_kernel.cu")
# The copy rate is that of the fastest of so many copies of at most so many bytes; both are guesses.
COPY_BYTES = 1 << 30
COPIES = 10
# Streams that share a connection to the device wait for each other. The driver reads this variable
# when it is initialised; 32 is the most that it accepts.
CONNECTIONS_VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"
MAX_CONNECTIONS = "32"

ATTRIBUTE = driver.CUdevice_attribute


class Context:
    """The primary context of the first GPU; current in the thread that made it."""

    def __init__(self) -> None:
        os.environ.setdefault(CONNECTIONS_VARIABLE, MAX_CONNECTIONS)
        try:
            ask(driver.cuInit, 0)
            if not ask(driver.cuDeviceGetCount):
                raise DeviceError("no CUDA device 0: the driver shows none")
        except MissingLibraryError as error:
            raise DeviceError(
                f"no CUDA driver: {error}; install NVIDIA's driver, or run on the CPU with "
                f"--device cpu"
            ) from None
        self._device = ask(driver.cuDeviceGet, 0)
        self.name = ask(driver.cuDeviceGetName, 128, self._device).rstrip(b"\0").decode()
        self.multiprocessors = self._attribute(ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        ask(driver.cuCtxSetCurrent, ask(driver.cuDevicePrimaryCtxRetain, self._device))

    @property
    def free_bytes(self) -> int:
        """Free memory of the GPU."""
        free: int = ask(driver.cuMemGetInfo)[0]
        return free

    @cached_property
    def kernel(self) -> Any:
        """The kernel that runs one node, compiled for this GPU."""
        capability = (
            self._attribute(ATTRIBUTE.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            self._attribute(ATTRIBUTE.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        )
        module = ask(driver.cuModuleLoadData, compile_for(KERNEL, capability))
        return ask(driver.cuModuleGetFunction, module, b"run_node")

    @cached_property
    def copy_bytes_per_second(self) -> float:
        """Bytes read and written a second by large copies, the fastest of some."""
        size = min(COPY_BYTES, self.free_bytes // 4)
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

    def _attribute(self, attribute: Any) -> int:
        return int(ask(driver.cuDeviceGetAttribute, attribute, self._device))


class Buffer:
    """Memory of a GPU: so many bytes, of which at least one is allocated."""

    def __init__(self, context: Context, size: int) -> None:
        self.size = size
        what = f"of {size} bytes with {context.free_bytes} free"
        self.address = int(ask(driver.cuMemAlloc, max(size, 1), what=what))

    def fill(self, byte: int) -> None:
        """Set every byte."""
        if self.size:
            ask(driver.cuMemsetD8, self.address, byte, self.size)

    def put(self, array: NDArray[Any]) -> None:
        """Copy an array of the buffer's size here, and wait for the copy."""
        if array.nbytes:
            source = np.ascontiguousarray(array)
            ask(driver.cuMemcpyHtoD, self.address, source.ctypes.data, source.nbytes)

    def get(self, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        """Return the first entries of the buffer."""
        array = np.zeros(count, dtype=dtype)
        if array.nbytes:
            ask(driver.cuMemcpyDtoH, array.ctypes.data, self.address, array.nbytes)
        return array

    def free(self) -> None:
        """Free the memory."""
        ask(driver.cuMemFree, self.address)


class Stream:
    """A stream that waits for no other unless told to."""

    def __init__(self, _context: Context) -> None:
        self.handle = ask(driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self._begun, self._ended = Event(is_timed=True), Event(is_timed=True)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_error: object) -> None:
        self.free()

    def seconds_of(self, submit: Callable[[], object]) -> float:
        """Wait for the work that a call submits here, and return how long the GPU took.

        Work in another stream counts if this stream waits for that work.
        """
        self.record(self._begun)
        submit()
        self.record(self._ended)
        ask(driver.cuStreamSynchronize, self.handle)
        milliseconds = ask(driver.cuEventElapsedTime, self._begun.handle, self._ended.handle)
        return float(milliseconds) / 1e3

    def record(self, event: Event) -> None:
        """Let an event pass when all work that was submitted here has ended."""
        ask(driver.cuEventRecord, event.handle, self.handle)

    def wait(self, event: Event) -> None:
        """Let all work that is submitted here from now on wait for an event."""
        ask(driver.cuStreamWaitEvent, self.handle, event.handle, 0)

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Submit a copy of a whole buffer."""
        ask(driver.cuMemcpyDtoDAsync, target.address, source.address, source.size, self.handle)

    def free(self) -> None:
        """Destroy the stream."""
        self._begun.free()
        self._ended.free()
        ask(driver.cuStreamDestroy, self.handle)


class Event:
    """A moment in a stream; a timed event remembers when it passed."""

    def __init__(self, *, is_timed: bool = False) -> None:
        flags = driver.CUevent_flags
        flag = flags.CU_EVENT_DEFAULT if is_timed else flags.CU_EVENT_DISABLE_TIMING
        self.handle = ask(driver.cuEventCreate, flag)

    def free(self) -> None:
        """Destroy the event."""
        ask(driver.cuEventDestroy, self.handle)


@cache
def open_context() -> Context:
    """Return the context of the first GPU, current in the thread that was first to ask for it."""
    return Context()
