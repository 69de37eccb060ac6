"""The online allocators: those that the core defines, and those that only replays have."""

from __future__ import annotations

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

MakeOnline = Callable[[DeviceMemory], OnlineAllocator]

# The online allocators that serve on any device, also beneath PyTorch.
CORE: Registry[OnlineDefinition] = Registry("online allocator of the core")


def make_online(name: str, values: Mapping[str, Scalar]) -> tuple[ChosenOnline, MakeOnline]:
    """Return an online allocator of the core with its parameters, and what makes it on a device."""
    definition = CORE.find(name)
    return ONLINE_ALLOCATORS.choose_exactly(name, values), _maker(definition, values)


def _maker(definition: OnlineDefinition, values: Mapping[str, Scalar]) -> MakeOnline:
    given = [
        _of_core(parameter, values[parameter.name]) if parameter.name in values else parameter.usual
        for parameter in definition.parameters
    ]
    return lambda memory: definition.make(memory, given)


def _of_core(parameter: OnlineParameter, value: Scalar) -> bool | int | PytorchSettings:
    if isinstance(parameter.usual, PytorchSettings):
        return pytorch_settings(str(value))
    return type(parameter.usual)(value)


def _usual(parameter: OnlineParameter) -> Scalar:
    # Users write these settings as one string.
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

    CORE.add(definition.name, definition)
    defaults = {each.name: _usual(each) for each in definition.parameters}
    rules = {each.name: rule_of(each) for each in definition.parameters}
    summary, source = definition.summary, definition.source
    add_online(OnlineInfo(definition.name, summary, source, defaults, build, rules))


for _definition in online_allocators():
    _register(_definition)


@register_online("planned")
def planned(
    requests: RequestSequence,
    terms: OnlineTerms,
    *,
    planner: str = "auto",
    time_limit: float = 3.0,
) -> OnlineResult:
    """Planned memory: iterations as steps, served by plans of the steps before them."""
    return replay_planned(requests, terms, planner, time_limit)


@register_online("stweaver", source="Huang et al. 2026, sections 5.2 and 6")
def stweaver(
    requests: RequestSequence,
    terms: OnlineTerms,
    *,
    planner: str = "homosize",
    time_limit: float = 3.0,
    reuse: Literal["layers", "none"] = "layers",
    static: bool = True,
) -> OnlineResult:
    """Plan a static pool, lend its idle bytes to dynamic requests, and cache the rest."""
    replayed = replay_stweaver(
        requests, terms, planner, time_limit, reuse=reuse == "layers", static=static
    )
    return replayed.result
