"""PyTorch's CUDA memory from an online allocator, for comparisons with plans in training.

>>> memory = OnlineMemory("gmlake")  # doctest: +SKIP
>>> memory.install()  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpu_runtime._core import CountingMemory, DeviceMemory, ServingOnlineAllocator, Stweaver
from gpu_runtime.allocator.call_counts import call_counts, call_seconds
from gpu_runtime.allocator.pytorch.decorated_allocator import serve_pytorch
from gpu_runtime.online.online_allocators import CORE, STWEAVER, make_online
from gpu_runtime.online.stweaver_program import StweaverProgram
from planners.errors import DeviceError, GaplessError
from planners.model.problem import Scalar
from planners.text.byte_units import exact_bytes
from planners.text.table import aligned_pairs


@dataclass(frozen=True)
class OnlineReport:
    """Peaks since the last reset or the installation, and device calls since the installation.

    Parameters
    ----------
    allocator
        Name and parameters of the online allocator.
    requested_bytes, allocated_bytes, reserved_bytes
        Peaks of the requested bytes, of the same bytes as the allocator rounds them up, and of the
        memory taken from the device.
    device_calls
        Number of device calls by kind; kinds without calls are left out.
    device_seconds
        Seconds in these calls, host waits included.
    own_figures
        Numbers and bytes that only this allocator counts, as they are now; empty for most.
    note
        What the allocator planned, or why it did not; empty for one that does not plan.
    """

    allocator: str
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    device_calls: dict[str, int]
    device_seconds: float
    own_figures: dict[str, int] = field(default_factory=dict)
    note: str = ""

    @property
    def efficiency(self) -> float:
        """Peak of allocated bytes over peak of reserved bytes; 1 if nothing was reserved."""
        return self.allocated_bytes / self.reserved_bytes if self.reserved_bytes else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return every field as scalars, lists and objects."""
        return {**asdict(self), "efficiency": self.efficiency}

    def __str__(self) -> str:
        """Return a table for people."""
        calls = ", ".join(f"{count:,} {kind}" for kind, count in self.device_calls.items())
        own = ", ".join(
            f"{count:,} {name.replace('_', ' ')}" for name, count in self.own_figures.items()
        )
        return aligned_pairs(
            [
                ("allocator", self.allocator),
                ("requested", f"{exact_bytes(self.requested_bytes)} bytes at its peak"),
                ("allocated", f"{exact_bytes(self.allocated_bytes)} bytes in whole blocks"),
                (
                    "reserved",
                    f"{exact_bytes(self.reserved_bytes)} bytes, efficiency {self.efficiency:.2%}",
                ),
                ("device", f"{self.device_seconds * 1e3:,.3f} ms in {calls or 'no call'}"),
                *([("own", own)] if own else []),
                *([("plan", self.note)] if self.note else []),
            ]
        ).rstrip("\n")


class OnlineMemory:
    """Serves PyTorch's CUDA allocations by an online allocator.

    If the online allocator is out of memory, PyTorch's own allocator serves the request.

    Parameters
    ----------
    allocator
        Name of an online allocator of the core: ``"gmlake"``, ``"vpmm"``, ``"pytorch-caching"``...
    device
        Number of the CUDA device.
    trace
        For ``"stweaver"``: a trace of the program, made without a GPU, that it profiles. Without
        one the first two iterations of the run are its profile.
    parameters
        Parameters of the online allocator, such as ``page_mib=16`` for VPMM.

    Raises
    ------
    GaplessError
        No online allocator of the core has this name, or it has no such parameter, or a value
        breaks a rule.
    """

    def __init__(
        self,
        allocator: str,
        *,
        device: int = 0,
        trace: str | Path | None = None,
        **parameters: Scalar,
    ) -> None:
        chosen, self._make = make_online(allocator, parameters)
        if allocator != STWEAVER and trace is not None:
            raise GaplessError(f"trace: stweaver profiles one, found {allocator}")
        if allocator == STWEAVER and parameters.pop("foresight", False):
            raise GaplessError("foresight: a replay knows a run ahead, training does not")
        self._parameters: dict[str, Any] = {**parameters, "trace": trace}
        self._program: StweaverProgram | None = None
        self._label = chosen.label
        self._crosses_streams = CORE.find(allocator).crosses_streams
        self._device = device
        self._allocator: ServingOnlineAllocator | None = None

    def install(self) -> None:
        """Serve all CUDA allocations of PyTorch from now on, for the rest of the process.

        Raises
        ------
        MissingDependencyError
            PyTorch, a compiler or CUDA's headers are not installed.
        DeviceError
            The driver or the device is missing, this PyTorch is not supported, or the device has
            an installed allocator already.
        GaplessError
            The device has no pages of the size that the allocator needs, or too little memory for
            the pages that it makes at once; or a module is fully sharded, which is unsafe under
            ``"vpmm"``. From then on the sharding of a module raises this error.
        """
        self._refuse_twice()
        self._allocator = serve_pytorch(self._device, self._below_pytorch)
        if self._program is not None and self._program.listens:
            # Imported here because it needs PyTorch.
            from gpu_runtime.online.module_hooks import ModuleHooks

            self._hooks = ModuleHooks(self._program)

    def attach(self, memory: DeviceMemory) -> ServingOnlineAllocator:
        """Return the allocator over any memory, for another caller than PyTorch.

        Raises
        ------
        DeviceError
            An allocator is installed or attached already.
        GaplessError
            The device has no pages of the size that the allocator needs, or too little memory for
            the pages that it makes at once.
        """
        self._refuse_twice()
        self._allocator = self._over(memory)
        return self._allocator

    @property
    def program(self) -> StweaverProgram | None:
        """What ``"stweaver"`` is told of the program; None for another allocator.

        :meth:`install` tells it by hooks; after :meth:`attach` the caller does.
        """
        return self._program

    @property
    def device(self) -> int:
        return self._device

    def reset_peaks(self) -> None:
        """Restart the peaks of the report from the bytes in use now."""
        self._installed().reset_peaks()

    def report(self) -> OnlineReport:
        """Return the peaks and device calls so far; ``print`` shows them as a table."""
        allocator = self._installed()
        figures = allocator.figures()
        return OnlineReport(
            allocator=self._label,
            requested_bytes=figures.requested_peak,
            allocated_bytes=figures.allocated_peak,
            reserved_bytes=figures.reserved_peak,
            device_calls=call_counts(allocator.calls()),
            device_seconds=sum(call_seconds(allocator.nanoseconds()).values()),
            own_figures=dict(allocator.own_figures()),
            note="" if self._program is None else self._program.note,
        )

    def _below_pytorch(self, memory: DeviceMemory) -> ServingOnlineAllocator:
        if self._crosses_streams:
            # Imported here because it needs PyTorch.
            from gpu_runtime.online.fully_sharded import refuse_fully_sharded

            refuse_fully_sharded(self._label)
        return self._over(memory)

    def _over(self, memory: DeviceMemory) -> ServingOnlineAllocator:
        counted = CountingMemory(memory, is_timed=True)
        made = self._make(counted)
        serving = ServingOnlineAllocator(made, counted)
        if isinstance(made, Stweaver):
            self._program = StweaverProgram(made, serving, **self._parameters)
        return serving

    def _refuse_twice(self) -> None:
        if self._allocator is not None:
            raise DeviceError(f"{self._label} is installed already; one installation is enough")

    def _installed(self) -> ServingOnlineAllocator:
        if self._allocator is None:
            raise DeviceError(f"{self._label} is not installed; call install() first")
        return self._allocator
