"""How fast a device computes and moves bytes, and how long each node of a graph takes on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planners.errors import GaplessError, InstanceError, near_names
from planners.model.problem import Problem
from planners.model.work import Work

DEFAULT_PRECISION = "float32"


@dataclass(frozen=True)
class DeviceRates:
    """Rates of one device, from its data sheet.

    Parameters
    ----------
    name
        The name on the command line.
    flops_per_second
        Floating-point operations a second, by the precision of the instance's ``origin``.
    bytes_per_second
        Bytes that kernels move between memory and processors.
    host_bytes_per_second
        Bytes that a copy moves between host and device, in each direction at the same time.
    """

    name: str
    flops_per_second: Mapping[str, float]
    bytes_per_second: float
    host_bytes_per_second: float

    def node_seconds(self, problem: Problem, work: Work) -> NDArray[np.float64]:
        """Return the seconds of each node: its computing or its moving, whichever takes longer.

        The time to launch a kernel and the time that caches save are left out.
        """
        precision = str(problem.origin.get("precision", DEFAULT_PRECISION))
        if precision not in self.flops_per_second:
            raise InstanceError(
                f"field origin.precision: one of {', '.join(self.flops_per_second)} is needed for "
                f"the rates of {self.name}, found {precision!r}"
            )
        computing = work.flops / self.flops_per_second[precision]
        return np.maximum(computing, work.moved_bytes / self.bytes_per_second)


# Dense rates, without sparsity and without TF32; one direction of the bus.
DEVICES = {
    rates.name: rates
    for rates in (
        DeviceRates("h100", {"float32": 67e12, "bfloat16": 989e12}, 3.35e12, 64e9),
        DeviceRates("a100", {"float32": 19.5e12, "bfloat16": 312e12}, 2.04e12, 32e9),
    )
}


def device_rates(name: str) -> DeviceRates:
    """Return the rates of a device by its name."""
    if name not in DEVICES:
        raise GaplessError(f"no device is called {name!r}; {near_names(name, DEVICES)}")
    return DEVICES[name]
