"""The kernel of a GPU, compiled for this machine's processor: one block of one thread."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from gpu_runtime.verification.devices.cuda import cuda_device
from gpu_runtime.verification.devices.cuda.context import KERNEL
from gpu_runtime.verification.devices.cuda.work_table import make_work_table
from gpu_runtime.verification.devices.device import DeviceOutcome
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.trial import Trial
from tests.gpu_runtime.cpp_program import compile_cpp, written_cpp

# What CUDA adds to C++, for one thread that is alone.
SHIM = """
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
struct Index { unsigned x; };
static const Index threadIdx = {0}, blockDim = {1}, blockIdx = {0}, gridDim = {1};
struct alignas(16) ulonglong2 { unsigned long long x, y; };
static ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
template <class T> T __ldcg(const T *at) { return *at; }
template <class T> T exchange(T *at, T fresh) { T was = *at; *at = fresh; return was; }
template <class T> T atomicExch(T *at, T fresh) { return exchange(at, fresh); }
template <class T> T atomicAdd(T *at, T more) { return exchange(at, T(*at + more)); }
template <class T> T atomicMax(T *at, T other) { return exchange(at, other > *at ? other : *at); }
template <class T> T atomicCAS(T *at, T old, T fresh) {
    return exchange(at, *at == old ? fresh : *at);
}
static void __syncthreads() {}
static void __threadfence() {}
static void __nanosleep(unsigned) {}
static unsigned long long ticks = 0;
"""
CLOCK = 'asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));'
DRIVER = Path(__file__).with_name("host_driver.cpp")
ENTRY = """
extern "C" void run_on_host(const Program *program, unsigned node) { run_node(*program, node); }
extern "C" unsigned long host_ticks() { return ticks; }
"""


KERNEL_LIBRARY = "host_kernel.so"


@cache
def host_library_path(name: str = KERNEL_LIBRARY) -> Path:
    """Return a library with the kernel and a driver that runs it, by the name it is loaded by."""
    code = KERNEL.read_text()
    assert CLOCK in code
    on_host = SHIM + code.replace(CLOCK, "time = ticks += 100;") + ENTRY + DRIVER.read_text()
    source = written_cpp("host_kernel.cpp", on_host)
    options = ["-fPIC", "-shared", "-Wno-unknown-pragmas", f"-Wl,-soname,{name}"]
    options += ["-fsanitize=undefined", "-fno-sanitize-recover=all", "-static-libubsan"]
    return compile_cpp(name, [source], options)


def host_library(name: str = KERNEL_LIBRARY) -> ctypes.CDLL:
    """Return that library, loaded."""
    loaded = ctypes.CDLL(str(host_library_path(name)))
    loaded.host_ticks.restype = ctypes.c_ulong
    loaded.host_set_memory.argtypes = (ctypes.c_size_t,)
    return loaded


class HostKernel:
    """Runs the nodes of a program one after the other, each by the kernel."""

    def __init__(self, program: StampCheckProgram, layout: Layout) -> None:
        self.table = make_work_table(program, layout)
        nodes = program.node_count
        # 16-byte loads need an aligned arena, as a GPU's is.
        room = np.zeros(layout.arena_bytes + 16, dtype=np.uint8)
        self.arena = room[-room.ctypes.data % 16 :][: layout.arena_bytes]
        self.progress = np.zeros(nodes * cuda_device.PROGRESS_BYTES, dtype=np.uint8)
        self.delays = np.zeros(nodes, dtype=cuda_device.DELAY)
        self.key = np.zeros(1, dtype=np.uint64)
        self.findings = np.zeros(1, dtype=cuda_device.FINDINGS)
        self.slots = np.zeros(cuda_device.SLOTS, dtype=cuda_device.SLOT)
        self.broken = np.zeros(cuda_device.BROKEN_WORDS, dtype=cuda_device.BROKEN)
        arrays = (
            self.arena, self.table.chunks, self.table.nodes, self.progress, self.delays, self.key,
            self.findings, self.slots, self.broken,
        )  # fmt: skip
        addresses = [array.ctypes.data for array in arrays]
        self.program = cuda_device.kernel_program(addresses, layout.tensor_count)

    def begin(self, trial: Trial) -> None:
        """Set the key of a trial, and everything else to nothing."""
        self.key[0] = trial.key
        for array in (self.progress, self.findings, self.slots):
            array[:] = np.zeros(1, dtype=array.dtype)

    def run_node(self, node: int) -> None:
        """Run one node."""
        host_library().run_on_host(ctypes.c_void_p(self.program.ctypes.data), ctypes.c_uint(node))

    def outcome(self) -> DeviceOutcome:
        """Return what was found since the beginning."""
        (found,) = self.findings
        return DeviceOutcome(
            0.0,
            cuda_device.foreign_words(self.slots),
            cuda_device.broken_words(self.broken[: int(found["broken"])]),
            int(found["lost"]),
        )
