"""PyTorch's CUDA memory from an online allocator: what plans are judged against, in real training.

>>> memory = OnlineMemory("gmlake")  # doctest: +SKIP
>>> memory.install()  # doctest: +SKIP
"""

from __future__ import annotations

from gpu_runtime._core import CountingMemory, DeviceMemory, ServingPolicy
from gpu_runtime.allocator.call_counts import call_counts, call_seconds
from gpu_runtime.allocator.online_report import OnlineReport
from gpu_runtime.allocator.policy_choice import choose_policy
from gpu_runtime.allocator.pytorch.decorated_allocator import serve_pytorch
from planners.errors import DeviceError, GaplessError


class OnlineMemory:
    """Serves PyTorch's CUDA allocations by a policy that takes each request as it comes.

    Where the policy has no memory, PyTorch's allocator serves.

    Parameters
    ----------
    policy
        ``"gmlake"``, ``"vpmm"``, ``"pytorch-caching"`` or ``"pytorch-expandable"``.
    device
        Number of the CUDA device.
    parameters
        Of the policy, as a replay has them, such as ``page_mib=20`` for VPMM.

    Raises
    ------
    GaplessError
        No policy has this name, or it has no such parameter, or a value breaks a rule.
    """

    def __init__(self, policy: str, *, device: int = 0, **parameters: int | str) -> None:
        self._make = choose_policy(policy, parameters)
        given = "".join(f":{name}={value}" for name, value in parameters.items())
        self._label = policy + given
        self._device = device
        self._allocator: ServingPolicy | None = None

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
            The device has no pages as the policy wants them.
        """
        self._refuse_twice()
        self._allocator = serve_pytorch(self._device, self._over)

    def attach(self, memory: DeviceMemory) -> ServingPolicy:
        """Return the allocator over any memory, for somebody else than PyTorch to ask.

        Raises
        ------
        DeviceError
            There is one already.
        GaplessError
            The device has no pages as the policy wants them.
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
            policy=self._label,
            requested_bytes=figures.requested_peak,
            allocated_bytes=figures.allocated_peak,
            reserved_bytes=figures.reserved_peak,
            device_calls=call_counts(allocator.calls()),
            device_seconds=sum(call_seconds(allocator.nanoseconds()).values()),
        )

    def _over(self, memory: DeviceMemory) -> ServingPolicy:
        counted = CountingMemory(memory, is_timed=True)
        try:
            return ServingPolicy(self._make(counted), counted)
        except ValueError as error:
            raise GaplessError(f"{self._label}: {error}") from None

    def _refuse_twice(self) -> None:
        if self._allocator is not None:
            raise DeviceError(f"{self._label} is installed already; one installation is enough")

    def _installed(self) -> ServingPolicy:
        if self._allocator is None:
            raise DeviceError(f"{self._label} is not installed; call install() first")
        return self._allocator
