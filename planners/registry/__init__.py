"""The registry of planners and online allocators: our own, and those of files and packages."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from gapless_siblings import import_ours
from planners.entry_points import foreign, load_group
from planners.errors import GaplessError, UnknownPlannerError
from planners.first_use import at_first_use
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.plan import Parameters, Plan, Result
from planners.model.problem import Problem, Scalar
from planners.model.request_sequence import RequestSequence
from planners.registry.named_registry import Registry
from planners.registry.parameters import (
    Chosen,
    OneOf,
    ParameterRegistry,
    RegisteredInfo,
    Rule,
    SomeOf,
    WholeNumber,
    listing,
)
from planners.text.plain_text import one_line, text_of

ENTRY_POINT_GROUP = "gapless.planners"

# These modules register the planners of this package. Lists of planners keep this order.
BUILT_IN_MODULES = (
    "planners.greedy.naive",
    "planners.greedy.family",
    "planners.greedy.pressure",
    "planners.homosize.homosize",
    "planners.exact.branch_and_bound.branch_and_bound",
    "planners.search.skyline",
    "planners.search.auto",
    "planners.exact.cp_sat.cp_sat",
    "planners.exact.ilp.ilp",
)

PlannerFunction = Callable[[Problem, Budget], Plan | Result | Findings]
OnlineFunction = Callable[[RequestSequence, OnlineTerms], OnlineResult]
Registered = TypeVar("Registered", bound=Callable[..., Any])


class UnsupportedProblemError(GaplessError):
    """Raised by a planner that does not handle a feature of the problem; says which."""


@dataclass(frozen=True)
class PlannerInfo(RegisteredInfo):
    """A planner."""

    kind: ClassVar[str] = "planner"
    build: Callable[..., PlannerFunction]
    # The module that defines the planner.
    module: str = ""
    # Called before the planner's time is measured; imports the modules that the planner needs.
    prepare: Callable[[], object] = lambda: None
    # True if the planner chooses between memories; others get one problem for each memory.
    memories: bool = False
    # True if the planner takes every problem as it is; others get the plain form of one.
    whole: bool = False

    @property
    def built_in(self) -> bool:
        """Return True if the planner came with this package: its proofs hold for other planners."""
        return self.module in BUILT_IN_MODULES


@dataclass(frozen=True)
class OnlineInfo(RegisteredInfo):
    """An online allocator."""

    kind: ClassVar[str] = "online allocator"
    build: Callable[..., OnlineFunction]


class ChosenPlanner(Chosen[PlannerInfo]):
    """A planner with its parameters."""


class ChosenOnline(Chosen[OnlineInfo]):
    """An online allocator with its parameters."""


PLANNERS = ParameterRegistry("planner", ChosenPlanner)
ONLINE_ALLOCATORS = ParameterRegistry("online allocator", ChosenOnline)
# The registries that a plugin may add to; a package with another kind of planners appends its own.
PLUGGABLE: list[Registry[Any]] = [PLANNERS, ONLINE_ALLOCATORS]


def register(
    name: str,
    *,
    summary: str = "",
    source: str = "",
    prepare: Callable[[], object] = lambda: None,
    memories: bool = False,
    whole: bool = False,
) -> Callable[[Registered], Registered]:
    """Register the decorated planner under a name.

    Parameters
    ----------
    name
        Lower case, words joined by ``-``; must be free.
    summary
        One line for ``--list``; the first line of the docstring by default.
    source
        Paper, section or algorithm.
    prepare
        Called before each run, outside of its measured time. It imports the modules that the
        planner would otherwise import during its first run.
    memories
        True if the planner chooses in which memory a tensor lies. Others are asked for one problem
        for each memory, and do not support a problem in which a tensor may lie in several.
    whole
        True if the planner knows memories, groups and pairs apart or exclusive.

    Returns
    -------
    callable
        A decorator. It takes a function ``(problem, budget) -> Plan | Result``, whose further
        keyword parameters with defaults are the planner's parameters, or a class with such a
        ``__call__``, whose constructor takes the parameters. A parameter annotated
        ``Literal[...]`` takes no other values. It returns the function or class unchanged.

    Raises
    ------
    GaplessError
        The name is taken or cannot be written on the command line.
    """

    def add_planner(module: str, *fields: Any) -> None:
        info = PlannerInfo(name, *fields)
        info = replace(info, module=module, prepare=prepare, memories=memories, whole=whole)
        _add_planner(info)

    return _decorator(add_planner, summary, source)


def register_online(
    name: str, *, summary: str = "", source: str = ""
) -> Callable[[Registered], Registered]:
    """Register the decorated online allocator under a name.

    Parameters
    ----------
    name, summary, source
        As for :func:`register`; an online allocator may have the same name as a planner.

    Returns
    -------
    callable
        A decorator. It takes a function ``(requests, terms) -> OnlineResult``, whose further
        parameters are as for :func:`register`, or such a class.

    Raises
    ------
    GaplessError
        The name is taken or cannot be written on the command line.
    """
    return _decorator(
        lambda _module, *fields: add_online(OnlineInfo(name, *fields)), summary, source
    )


def _decorator(
    add_fields: Callable[..., None], summary: str, source: str
) -> Callable[[Registered], Registered]:
    def decorate(run: Registered) -> Registered:
        line = summary or one_line((inspect.getdoc(run) or "").partition("\n")[0])
        if inspect.isclass(run):
            defaults = _defaults(inspect.signature(run).parameters.values())
            build: Callable[..., Any] = run
        else:
            signature = list(inspect.signature(run).parameters.values())
            defaults = _defaults(signature[2:])
            build = partial(partial, run)
        add_fields(module_of(run), line, source, defaults, build, _rules(run, defaults))
        return run

    return decorate


def module_of(planner: Callable[..., Any]) -> str:
    """Return the module that defines a planner; empty for a wrapper, which may be anybody's."""
    # `functools.wraps` copies ``__module__``: a third party's wrapper of one of our planners would
    # count as built in.
    is_wrapper = hasattr(planner, "__wrapped__")
    return "" if is_wrapper else str(getattr(planner, "__module__", ""))


def add(info: PlannerInfo) -> None:
    """Put a planner into the registry, as one that is not built in."""
    _add_planner(replace(info, module=""))


def _add_planner(info: PlannerInfo) -> None:
    if not info.built_in:
        load_built_in()  # first, so that no other planner can take their names
    info = replace(info, summary=text_of(info.summary), source=text_of(info.source))
    PLANNERS.add(info.name, info)


def load_built_in() -> None:
    """Import, once, our `BUILT_IN_MODULES`, and list their planners first."""
    import_ours("planners.registry.built_in_planners")


def add_online(info: OnlineInfo) -> None:
    """Put an online allocator into the registry."""
    info = replace(info, summary=text_of(info.summary), source=text_of(info.source))
    ONLINE_ALLOCATORS.add(info.name, info)


def planners(patterns: str = "*") -> list[PlannerInfo]:
    """Return the registered planners whose names match, in the order of registration."""
    return [chosen.info for chosen in choose(patterns)]


def choose(patterns: str) -> list[ChosenPlanner]:
    """Return planners with parameters from ``NAME[:KEY=VALUE...],...``; names may be wildcards."""
    load_entry_points()
    return PLANNERS.choose(patterns)


def choose_online(patterns: str) -> list[ChosenOnline]:
    """Return online allocators with parameters, from patterns as in :func:`choose`."""
    load_entry_points()
    return ONLINE_ALLOCATORS.choose(patterns)


def choose_one(pattern: str) -> ChosenPlanner:
    """Return the one planner that a pattern matches; an error if there are none or several."""
    chosen = choose(pattern)
    if len(chosen) != 1:
        raise UnknownPlannerError(f"one planner is needed, found {len(chosen)} by {pattern!r}")
    return chosen[0]


def get(name: str, **parameters: Scalar) -> ChosenPlanner:
    """Return one planner by its exact name.

    Parameters
    ----------
    parameters
        Values for its parameters.

    Returns
    -------
    ChosenPlanner
        Ready to run.

    Raises
    ------
    UnknownPlannerError
        No planner has this name, or it has no such parameter.
    """
    load_entry_points()
    return PLANNERS.choose_exactly(name, parameters)


@at_first_use
def load_entry_points() -> None:
    """Import, once, our planners and the ``gapless.planners`` entry points of installed packages.

    If a package fails to import, a warning names it, and it is left out.
    """
    load_built_in()
    for _ in load_group(ENTRY_POINT_GROUP, "planner package"):
        pass  # importing it registers its planners


def load_plugin(path: str | Path) -> list[PlannerInfo]:
    """Run a Python file that registers planners of any kind; return the new planners of offsets."""
    path = Path(path)
    if not path.is_file():
        raise GaplessError(f"plugin {path}: a Python file is needed, found none")
    load_entry_points()
    before = [set(registry) for registry in PLUGGABLE]
    name = f"gapless_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise GaplessError(f"plugin {path}: the name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with foreign(f"plugin {path}", passed_on=()), ExitStack() as stack:
        for registry in PLUGGABLE:
            stack.enter_context(registry.unchanged_on_error())
        spec.loader.exec_module(module)
    if before == [set(registry) for registry in PLUGGABLE]:
        raise GaplessError(f"plugin {path}: it registers no planner; decorate one with @register")
    return [info for name, info in PLANNERS.items() if name not in before[0]]


def _defaults(parameters: Iterable[inspect.Parameter]) -> dict[str, Scalar]:
    defaults: dict[str, Scalar] = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty:
            raise GaplessError(f"planner parameter {parameter.name}: a default is needed")
        defaults[parameter.name] = parameter.default
    return defaults


def _rules(planner: Callable[..., Any], defaults: Parameters) -> dict[str, Rule]:
    takes_them = planner.__init__ if inspect.isclass(planner) else planner
    try:
        hints = get_type_hints(takes_them, include_extras=True)
    except Exception:
        return {}  # a third party's annotations may name types that do not exist at run time
    rules: dict[str, Rule] = {}
    for name in defaults.keys() & hints.keys():
        values = get_args(hints[name])
        if get_origin(hints[name]) is Literal:
            rules[name] = OneOf(values)
        elif get_origin(hints[name]) is Annotated and callable(values[1]):
            rules[name] = values[1]
    return rules


__all__ = [
    "ONLINE_ALLOCATORS", "PLANNERS", "Chosen", "ChosenOnline", "ChosenPlanner", "OneOf",
    "OnlineInfo", "PlannerInfo", "Registry", "Rule", "SomeOf", "UnsupportedProblemError",
    "WholeNumber", "add", "add_online", "choose", "choose_one", "choose_online", "get", "listing",
    "load_built_in", "load_entry_points", "load_plugin", "planners", "register", "register_online",
]  # fmt: skip
