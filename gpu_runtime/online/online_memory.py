"""PyTorch's CUDA memory from an online allocator: what plans are judged against, in real training.

>>> memory = OnlineMemory("gmlake")  # doctest: +SKIP
>>> memory.install()  # doctest: +SKIP
"""

from __future__ import annotations

from gpu_runtime._core import CountingMemory, DeviceMemory, ServingOnlineAllocator
from gpu_runtime.allocator.call_counts import call_counts, call_seconds
from gpu_runtime.allocator.pytorch.decorated_allocator import serve_pytorch
from gpu_runtime.online.online_allocators import make_online
from gpu_runtime.online.online_report import OnlineReport
from planners.errors import DeviceError, GaplessError
from planners.model.problem import Scalar


class OnlineMemory:
    """Serves PyTorch's CUDA allocations by an online allocator.

    PyTorch's own allocator serves a request that the online allocator has no memory for.

    Parameters
    ----------
    allocator
        Name of an online allocator of the core: ``"gmlake"``, ``"vpmm"``, ``"pytorch-caching"``...
    device
        Number of the CUDA device.
    parameters
        Of the online allocator, as a replay has them, such as ``page_mib=20`` for VPMM.

    Raises
    ------
    GaplessError
        No online allocator of the core has this name, or it has no such parameter, or a value
        breaks a rule.
    """

    def __init__(self, allocator: str, *, device: int = 0, **parameters: Scalar) -> None:
        chosen, self._make = make_online(allocator, parameters)
        self._label = chosen.label
        self._device = device
        self._allocator: ServingOnlineAllocator | None = None

    def install(self) -> None:
        """Serve all CUDA allocations of PyTorch from now on, for the rest of the process.

        Raises
        ------
        MissingDependencyError
            PyTorch, or what its allocator is decorated with, is not installed.
        DeviceError
            There is no driver or device, PyTorch is one that cannot be served, or something is
            installed on this device.
        GaplessError
            The device has no pages as the allocator wants them.
        """
        self._refuse_twice()
        self._allocator = serve_pytorch(self._device, self._over)

    def attach(self, memory: DeviceMemory) -> ServingOnlineAllocator:
        """Return the allocator over any memory, for somebody else than PyTorch to ask.

        Raises
        ------
        DeviceError
            There is one already.
        GaplessError
            The device has no pages as the allocator wants them.
        """
        self._refuse_twice()
        self._allocator = self._over(memory)
        return self._allocator

    @property
    def device(self) -> int:
        """Number of the CUDA device."""
        return self._device

    def reset_peaks(self) -> None:
        """Let the peaks of the report be those of what is in use."""
        self._installed().reset_peaks()

    def report(self) -> OnlineReport:
        """Return what happened so far.

        Returns
        -------
        OnlineReport
            ``print`` shows it as a table.
        """
        allocator = self._installed()
        figures = allocator.figures()
        return OnlineReport(
            allocator=self._label,
            requested_bytes=figures.requested_peak,
            allocated_bytes=figures.allocated_peak,
            reserved_bytes=figures.reserved_peak,
            device_calls=call_counts(allocator.calls()),
            device_seconds=sum(call_seconds(allocator.nanoseconds()).values()),
        )

    def _over(self, memory: DeviceMemory) -> ServingOnlineAllocator:
        counted = CountingMemory(memory, is_timed=True)
        try:
            return ServingOnlineAllocator(self._make(counted), counted)
        except ValueError as error:
            raise GaplessError(f"{self._label}: {error}") from None

    def _refuse_twice(self) -> None:
        if self._allocator is not None:
            raise DeviceError(f"{self._label} is installed already; one installation is enough")

    def _installed(self) -> ServingOnlineAllocator:
        if self._allocator is None:
            raise DeviceError(f"{self._label} is not installed; call install() first")
        return self._allocator
