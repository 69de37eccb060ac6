"""The registered online allocators: those of the core, and one that exists only in replays.

`gpu_runtime/core/src/online/online_allocators.h` lists those of the core: a new one gets a line
there and none here. An online allocator with a replay of its own is a function with
`register_online`: `planned`, and `stweaver`, which needs a profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

from gpu_runtime._core import (
    DeviceMemory,
    OnlineAllocator,
    OnlineDefinition,
    OnlineParameter,
    PytorchSettings,
    online_allocators,
)
from gpu_runtime.online.pytorch_settings import pytorch_settings
from gpu_runtime.replaying.online_replay import replay_online
from gpu_runtime.replaying.planned_replay import replay_planned
from gpu_runtime.replaying.stweaver_replay import replay_stweaver
from planners.errors import GaplessError
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.problem import Scalar
from planners.model.request_sequence import RequestSequence
from planners.registry import (
    ONLINE_ALLOCATORS,
    ChosenOnline,
    OneOf,
    OnlineInfo,
    Registry,
    Rule,
    WholeNumber,
    add_online,
    register_online,
)

# The core has it without its profile.
STWEAVER = "stweaver"

MakeOnline = Callable[[DeviceMemory], OnlineAllocator]

# The online allocators of the core. They can serve any device memory, and PyTorch itself.
CORE: Registry[OnlineDefinition] = Registry("online allocator of the core")


def make_online(name: str, values: Mapping[str, Scalar]) -> tuple[ChosenOnline, MakeOnline]:
    """Return the chosen online allocator of the core, and a function that makes it on a device."""
    definition = CORE.find(name)
    return ONLINE_ALLOCATORS.choose_exactly(name, values), _maker(definition, values)


def _maker(definition: OnlineDefinition, values: Mapping[str, Scalar]) -> MakeOnline:
    given = [
        _of_core(parameter, values[parameter.name]) if parameter.name in values else parameter.usual
        for parameter in definition.parameters
    ]

    def make(memory: DeviceMemory) -> OnlineAllocator:
        try:
            return definition.make(memory, given)
        except (ValueError, MemoryError) as error:
            raise GaplessError(f"online allocator {definition.name}, {error}") from None

    return make


def _of_core(parameter: OnlineParameter, value: Scalar) -> bool | int | PytorchSettings:
    if isinstance(parameter.usual, PytorchSettings):
        return pytorch_settings(str(value))
    return type(parameter.usual)(value)


def _usual(parameter: OnlineParameter) -> Scalar:
    # Users write PyTorch's settings as one string; the empty string stands for the defaults.
    return "" if isinstance(parameter.usual, PytorchSettings) else parameter.usual


def rule_of(parameter: OnlineParameter) -> Rule:
    """Return the rule that refuses wrong values of a parameter of the core."""
    if isinstance(parameter.usual, PytorchSettings):
        return pytorch_settings
    if isinstance(parameter.usual, bool):
        return OneOf((False, True))
    return WholeNumber(parameter.least, parameter.most, parameter.is_power_of_two)


def _register(definition: OnlineDefinition) -> None:
    def build(**values: Scalar) -> Callable[[RequestSequence, OnlineTerms], OnlineResult]:
        make = _maker(definition, values)
        return lambda requests, terms: replay_online(requests, terms, make, definition.dictated)

    defaults = {each.name: _usual(each) for each in definition.parameters}
    rules = {each.name: rule_of(each) for each in definition.parameters}
    summary, source = definition.summary, definition.source
    add_online(OnlineInfo(definition.name, summary, source, defaults, build, rules))


for _definition in online_allocators():
    CORE.add(_definition.name, _definition)
    if _definition.name != STWEAVER:
        _register(_definition)


@register_online("planned")
def planned(
    requests: RequestSequence,
    terms: OnlineTerms,
    *,
    planner: str = "auto",
    time_limit: float = 3.0,
    moves: Literal["all", "none"] = "all",
) -> OnlineResult:
    """Planned memory: each iteration is a step, served by a plan if it repeats."""
    return replay_planned(requests, terms, planner, time_limit, math.inf if moves == "all" else 0.0)


@register_online(STWEAVER, source=CORE.find(STWEAVER).source)
def stweaver(
    requests: RequestSequence,
    terms: OnlineTerms,
    *,
    planner: str = "homosize",
    time_limit: float = 3.0,
    reuse: Literal["layers", "none"] = "layers",
    static: bool = True,
    foresight: bool = False,
) -> OnlineResult:
    """Plan a static pool, lend its idle bytes to dynamic requests, and cache the rest."""
    return replay_stweaver(
        requests, terms, planner, time_limit,
        reuse=reuse == "layers", static=static, foresight=foresight,
    )  # fmt: skip
