"""The registry: planners and online allocators by name, from here, from files and packages."""

from __future__ import annotations

import fnmatch
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from planners.entry_points import load_group
from planners.errors import GaplessError, UnknownPlannerError, near_names
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.plan import Parameters, Plan, Result
from planners.model.problem import Problem, Scalar
from planners.model.request_sequence import RequestSequence
from planners.text.plain_text import describe_error, one_line, shown, text_of

ENTRY_POINT_GROUP = "gapless.planners"

MOST_NAME_CHARACTERS = 100

# They register the planners that come with this package, in the order in which these are listed.
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
Choice = TypeVar("Choice", bound="Chosen[Any]")


@dataclass(frozen=True)
class SomeOf:
    """Annotates a parameter: some of these names, joined by ``+``, or an empty string for none."""

    names: tuple[str, ...]


class UnsupportedProblemError(GaplessError):
    """Raised by a planner that does not handle a feature of the problem; says which."""


@dataclass(frozen=True)
class RegisteredInfo:
    """What is known of what is registered without running it."""

    # What it is, in messages.
    kind: ClassVar[str]
    # Name in the registry and on the command line.
    name: str
    # One line for ``--list``.
    summary: str
    # Paper, section or algorithm it comes from; may be empty.
    source: str
    # Parameters that it takes, with their defaults.
    defaults: Parameters
    # Returns the function that is run, given values for some of the parameters.
    build: Callable[..., Any]
    # The values that a parameter may have, for those that are annotated ``Literal[...]``, or
    # ``Annotated[str, SomeOf(...)]``.
    choices: Mapping[str, tuple[Scalar, ...] | SomeOf] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What it is and its name, for messages."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class PlannerInfo(RegisteredInfo):
    """A planner."""

    kind: ClassVar[str] = "planner"
    build: Callable[..., PlannerFunction]
    # The module that defines it.
    module: str = ""
    # Called before its time is taken; imports what it needs.
    prepare: Callable[[], object] = lambda: None

    @property
    def built_in(self) -> bool:
        """Whether it came with this package, so that what it proves holds for others too."""
        return self.module in BUILT_IN_MODULES


@dataclass(frozen=True)
class OnlineInfo(RegisteredInfo):
    """An online allocator."""

    kind: ClassVar[str] = "online allocator"
    build: Callable[..., OnlineFunction]


Info = TypeVar("Info", bound=RegisteredInfo)


@dataclass(frozen=True)
class Chosen(Generic[Info]):
    """What is registered with the parameters it is to run with."""

    info: Info
    parameters: Parameters

    @property
    def label(self) -> str:
        """Name and parameters, as they are written on the command line."""
        values = (f"{key}={text_of(value)}" for key, value in self.parameters.items())
        return ":".join([self.info.name, *values])


class ChosenPlanner(Chosen[PlannerInfo]):
    """A planner with its parameters."""


class ChosenOnline(Chosen[OnlineInfo]):
    """An online allocator with its parameters."""


_planners: dict[str, PlannerInfo] = {}
_online: dict[str, OnlineInfo] = {}
_loaded_entry_points = False


def register(
    name: str,
    *,
    summary: str = "",
    source: str = "",
    prepare: Callable[[], object] = lambda: None,
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
        Called before each run, and no part of its time: it imports what the planner would
        otherwise import when it runs first.

    Returns
    -------
    callable
        A decorator. It takes a function ``(problem, budget) -> Plan | Result``, whose further
        keyword parameters with defaults are the planner's parameters, or a class with such a
        ``__call__``, whose constructor takes the parameters. A parameter annotated
        ``Literal[...]`` takes no other values. What it decorates stays as it is.

    Raises
    ------
    GaplessError
        The name is taken or cannot be written on the command line.
    """

    def add_planner(module: str, *fields: Any) -> None:
        _add_planner(replace(PlannerInfo(name, *fields), module=module, prepare=prepare))

    return _decorator(add_planner, summary, source)


def register_online(
    name: str, *, summary: str = "", source: str = ""
) -> Callable[[Registered], Registered]:
    """Register the decorated online allocator under a name.

    Parameters
    ----------
    name, summary, source
        As for :func:`register`; planners and online allocators have their names apart.

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
        lambda _module, *fields: _add(_online, OnlineInfo(name, *fields)), summary, source
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
        # `functools.wraps` copies the module of what it wraps, which may be ours.
        module = "" if hasattr(run, "__wrapped__") else str(getattr(run, "__module__", ""))
        add_fields(module, line, source, defaults, build, _choices(run, defaults))
        return run

    return decorate


def add(info: PlannerInfo) -> None:
    """Put a planner into the registry, as one of somebody else's."""
    _add_planner(replace(info, module=""))


def _add_planner(info: PlannerInfo) -> None:
    if not info.built_in:
        load_built_in()  # whose names are taken, whoever comes first
    _add(_planners, info)


@cache
def load_built_in() -> None:
    """Import the modules that register our planners, and put these first, in their order."""
    for module in BUILT_IN_MODULES:
        import_module(module)
    order = {module: place for place, module in enumerate(BUILT_IN_MODULES)}
    known = sorted(_planners.values(), key=lambda info: order.get(info.module, len(order)))
    _planners.clear()
    _planners.update({info.name: info for info in known})


def _add(known: dict[str, Info], info: Info) -> None:
    name = info.name
    if not (
        type(name) is str
        and 0 < len(name) <= MOST_NAME_CHARACTERS
        and name.isprintable()
        and not set(name) & set(",:*?[]= ")
    ):
        raise GaplessError(
            f"{info.kind} name: letters, digits and '-' are needed, at most "
            f"{MOST_NAME_CHARACTERS}, found {shown(name)}"
        )
    if name in known:
        raise GaplessError(
            f"{info.kind} name: must be free, found {name!r} registered already; choose another "
            f"name"
        )
    known[name] = replace(info, summary=text_of(info.summary), source=text_of(info.source))


def remove(name: str) -> None:
    """Take a planner out of the registry."""
    del _planners[_info(name).name]


def remove_online(name: str) -> None:
    """Take an online allocator out of the registry."""
    del _online[name]


def planners(patterns: str = "*") -> list[PlannerInfo]:
    """Return the registered planners whose names match, in the order of registration."""
    return [chosen.info for chosen in choose(patterns)]


def choose(patterns: str) -> list[ChosenPlanner]:
    """Return planners with parameters from ``NAME[:KEY=VALUE...],...``; names may be wildcards."""
    return _choose(patterns, _planners, ChosenPlanner, "planner")


def choose_online(patterns: str) -> list[ChosenOnline]:
    """Return online allocators, written as planners are."""
    return _choose(patterns, _online, ChosenOnline, "online allocator")


def _choose(
    patterns: str,
    registered: Mapping[str, Info],
    choice_of: Callable[[Info, Parameters], Choice],
    kind: str,
) -> list[Choice]:
    load_entry_points()
    chosen: dict[str, Choice] = {}
    for pattern in filter(None, (part.strip() for part in patterns.split(","))):
        name, *settings = pattern.split(":")
        matching = [known for known in registered if fnmatch.fnmatchcase(known, name)]
        if not matching:
            raise UnknownPlannerError(f"no {kind} matches {name!r}; {near_names(name, registered)}")
        for known in matching:
            choice = choice_of(registered[known], _settings(registered[known], settings))
            chosen.setdefault(choice.label, choice)
    if not chosen:
        raise UnknownPlannerError(f"no {kind} named; give at least one, or '*' for all")
    return list(chosen.values())


def listing(chosen: Iterable[Chosen[Any]]) -> list[tuple[str, str]]:
    """Return a line each, for ``--list``: what was chosen, then its summary and parameters."""
    lines = []
    for choice in chosen:
        defaults = ", ".join(f"{key}={value}" for key, value in choice.info.defaults.items())
        parameters = f" [{defaults}]" if defaults else ""
        lines.append((choice.label, f"{choice.info.summary}{parameters}"))
    return lines


def choose_one(pattern: str) -> ChosenPlanner:
    """Return the one planner that a user wrote."""
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
    info = _info(name)
    for key, value in parameters.items():
        _require_parameter(info, key)
        _require_choice(info, key, value)
    return ChosenPlanner(info, parameters)


def load_entry_points() -> None:
    """Import our planners, and what installed packages offer in ``gapless.planners``, once.

    A package that fails to import is warned of and left out.
    """
    global _loaded_entry_points
    if _loaded_entry_points:
        return
    _loaded_entry_points = True
    load_built_in()
    for _ in load_group(ENTRY_POINT_GROUP, "planner package"):
        pass  # importing it registers its planners


def load_plugin(path: str | Path) -> list[PlannerInfo]:
    """Run a Python file that registers planners."""
    path = Path(path)
    if not path.is_file():
        raise GaplessError(f"plugin {path}: a Python file is needed, found none")
    before, online_before = dict(_planners), dict(_online)
    name = f"gapless_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise GaplessError(f"plugin {path}: the name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin may end in any way, SystemExit among them
        _planners.clear()
        _planners.update(before)
        _online.clear()
        _online.update(online_before)
        raise GaplessError(f"plugin {path}: {describe_error(error)}") from error
    added = [info for key, info in _planners.items() if key not in before]
    if not added and len(_online) == len(online_before):
        raise GaplessError(f"plugin {path}: it registers no planner; decorate one with @register")
    return added


def _info(name: str) -> PlannerInfo:
    if name not in _planners:
        raise UnknownPlannerError(f"no planner is called {name!r}; {near_names(name, _planners)}")
    return _planners[name]


def _defaults(parameters: Iterable[inspect.Parameter]) -> dict[str, Scalar]:
    defaults: dict[str, Scalar] = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty:
            raise GaplessError(f"planner parameter {parameter.name}: a default is needed")
        defaults[parameter.name] = parameter.default
    return defaults


def _choices(
    planner: Callable[..., Any], defaults: Parameters
) -> dict[str, tuple[Scalar, ...] | SomeOf]:
    takes_them = planner.__init__ if inspect.isclass(planner) else planner
    try:
        hints = get_type_hints(takes_them, include_extras=True)
    except Exception:
        return {}  # a third party's annotations may name what is not there at run time
    choices: dict[str, tuple[Scalar, ...] | SomeOf] = {}
    for name in defaults.keys() & hints.keys():
        values = get_args(hints[name])
        if get_origin(hints[name]) is Literal:
            choices[name] = values
        elif get_origin(hints[name]) is Annotated and isinstance(values[1], SomeOf):
            choices[name] = values[1]
    return choices


def _settings(info: RegisteredInfo, settings: list[str]) -> Mapping[str, Scalar]:
    parsed: dict[str, Scalar] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise UnknownPlannerError(
                f"{info.title}: a parameter is written KEY=VALUE, found {setting!r}"
            )
        _require_parameter(info, key)
        parsed[key] = _parse_like(info, key, text)
        _require_choice(info, key, parsed[key])
    return parsed


def _require_parameter(info: RegisteredInfo, key: str) -> None:
    if key not in info.defaults:
        hint = near_names(key, info.defaults) if info.defaults else "it takes none"
        raise UnknownPlannerError(f"{info.title} has no parameter {key!r}; {hint}")


def _require_choice(info: RegisteredInfo, key: str, value: Scalar) -> None:
    choices = info.choices.get(key, (value,))
    if isinstance(choices, SomeOf):
        is_known = set(str(value).split("+")) <= {"", *choices.names}
        needed = f"some of {', '.join(choices.names)}, joined by '+', are"
    else:
        is_known = value in choices
        needed = f"{' or '.join(map(repr, choices))} is"
    if not is_known:
        raise UnknownPlannerError(
            f"{info.title}, parameter {key}: {needed} needed, found {value!r}"
        )


def _parse_like(info: RegisteredInfo, key: str, text: str) -> Scalar:
    default = info.defaults[key]
    if isinstance(default, bool):
        values = {"true": True, "1": True, "false": False, "0": False}
        if text.lower() in values:
            return values[text.lower()]
    else:
        try:
            return type(default)(text)
        except Exception:  # a third party may have any object as a default
            pass
    raise UnknownPlannerError(
        f"{info.title}, parameter {key}: a value like {default!r} is needed, found {text!r}"
    )


__all__ = [
    "ChosenOnline", "ChosenPlanner", "OnlineInfo", "PlannerInfo", "UnsupportedProblemError", "add",
    "choose", "choose_online", "get", "load_entry_points", "load_plugin", "planners", "register",
    "register_online", "remove", "remove_online",
]  # fmt: skip
