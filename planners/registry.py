"""The registry: every planner by name, from this package, from files and from other packages."""

from __future__ import annotations

import fnmatch
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from planners.entry_points import load_group
from planners.errors import GaplessError, UnknownPlannerError, near_names
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Parameters, Plan, Result
from planners.model.problem import Problem, Scalar
from planners.text.plain_text import describe_error, one_line, shown, text_of

ENTRY_POINT_GROUP = "gapless.planners"

MOST_NAME_CHARACTERS = 100

PlannerFunction = Callable[[Problem, Budget], Plan | Result | Findings]
Registered = TypeVar("Registered", bound=Callable[..., Any])


class UnsupportedProblemError(GaplessError):
    """Raised by a planner that does not handle a feature of the problem; says which."""


@dataclass(frozen=True)
class PlannerInfo:
    """What is known of a planner without running it."""

    # Name in the registry and on the command line.
    name: str
    # One line for ``--list``.
    summary: str
    # Paper, section or algorithm it comes from; may be empty.
    source: str
    # Parameters that it takes, with their defaults.
    defaults: Parameters
    # Returns the function that plans, given values for some of the parameters.
    build: Callable[..., PlannerFunction]
    # The values that a parameter may have, for those that are annotated ``Literal[...]``.
    choices: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    # Whether it came with this package, so that what it proves holds for others too. Its loader
    # says so, whatever a planner is called.
    built_in: bool = False


@dataclass(frozen=True)
class ChosenPlanner:
    """A planner with the parameters it is to run with."""

    info: PlannerInfo
    parameters: Parameters

    @property
    def label(self) -> str:
        """Name and parameters, as they are written on the command line."""
        values = (f"{key}={text_of(value)}" for key, value in self.parameters.items())
        return ":".join([self.info.name, *values])


_planners: dict[str, PlannerInfo] = {}
_loaded_entry_points = False


def register(
    name: str, *, summary: str = "", source: str = ""
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

    def decorate(planner: Registered) -> Registered:
        line = summary or one_line((inspect.getdoc(planner) or "").partition("\n")[0])
        if inspect.isclass(planner):
            defaults = _defaults(inspect.signature(planner).parameters.values())
            build: Callable[..., Any] = planner
        else:
            signature = list(inspect.signature(planner).parameters.values())
            defaults = _defaults(signature[2:])
            build = partial(partial, planner)
        add(PlannerInfo(name, line, source, defaults, build, _choices(planner, defaults)))
        return planner

    return decorate


def add(info: PlannerInfo) -> None:
    """Put a planner into the registry."""
    name = info.name
    if not (
        type(name) is str
        and 0 < len(name) <= MOST_NAME_CHARACTERS
        and name.isprintable()
        and not set(name) & set(",:*?[]= ")
    ):
        raise GaplessError(
            f"planner name: letters, digits and '-' are needed, at most {MOST_NAME_CHARACTERS}, "
            f"found {shown(name)}"
        )
    if name in _planners:
        raise GaplessError(
            f"planner name: must be free, found {name!r} registered already; choose another name"
        )
    _planners[name] = replace(
        info, summary=text_of(info.summary), source=text_of(info.source), built_in=False
    )


def take_all_as_built_in() -> None:
    """Take every planner registered so far as one that came with this package."""
    for name, info in _planners.items():
        _planners[name] = replace(info, built_in=True)


def remove(name: str) -> None:
    """Take a planner out of the registry."""
    del _planners[_info(name).name]


def planners(patterns: str = "*") -> list[PlannerInfo]:
    """Return the registered planners whose names match, in the order of registration."""
    return [chosen.info for chosen in choose(patterns)]


def choose(patterns: str) -> list[ChosenPlanner]:
    """Return planners with parameters from ``NAME[:KEY=VALUE...],...``; names may be wildcards."""
    load_entry_points()
    chosen: dict[str, ChosenPlanner] = {}
    for pattern in filter(None, (part.strip() for part in patterns.split(","))):
        name, *settings = pattern.split(":")
        matching = [known for known in _planners if fnmatch.fnmatchcase(known, name)]
        if not matching:
            raise UnknownPlannerError(f"no planner matches {name!r}; {near_names(name, _planners)}")
        for known in matching:
            planner = ChosenPlanner(_planners[known], _settings(_planners[known], settings))
            chosen.setdefault(planner.label, planner)
    if not chosen:
        raise UnknownPlannerError("no planner named; give at least one, or '*' for all")
    return list(chosen.values())


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
    """Import what installed packages offer in the group ``gapless.planners``, once.

    A package that fails to import is warned of and left out.
    """
    global _loaded_entry_points
    if _loaded_entry_points:
        return
    _loaded_entry_points = True
    for _ in load_group(ENTRY_POINT_GROUP, "planner package"):
        pass  # importing it registers its planners


def load_plugin(path: str | Path) -> list[PlannerInfo]:
    """Run a Python file that registers planners."""
    path = Path(path)
    if not path.is_file():
        raise GaplessError(f"plugin {path}: a Python file is needed, found none")
    before = dict(_planners)
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
        raise GaplessError(f"plugin {path}: {describe_error(error)}") from error
    added = [info for key, info in _planners.items() if key not in before]
    if not added:
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


def _choices(planner: Callable[..., Any], defaults: Parameters) -> dict[str, tuple[Scalar, ...]]:
    takes_them = planner.__init__ if inspect.isclass(planner) else planner
    try:
        hints = get_type_hints(takes_them)
    except Exception:
        return {}  # a third party's annotations may name what is not there at run time
    return {
        name: get_args(hint)
        for name, hint in hints.items()
        if name in defaults and get_origin(hint) is Literal
    }


def _settings(info: PlannerInfo, settings: list[str]) -> Mapping[str, Scalar]:
    parsed: dict[str, Scalar] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise UnknownPlannerError(
                f"planner {info.name}: a parameter is written KEY=VALUE, found {setting!r}"
            )
        _require_parameter(info, key)
        parsed[key] = _parse_like(info, key, text)
        _require_choice(info, key, parsed[key])
    return parsed


def _require_parameter(info: PlannerInfo, key: str) -> None:
    if key not in info.defaults:
        hint = near_names(key, info.defaults) if info.defaults else "it takes none"
        raise UnknownPlannerError(f"planner {info.name} has no parameter {key!r}; {hint}")


def _require_choice(info: PlannerInfo, key: str, value: Scalar) -> None:
    choices = info.choices.get(key, (value,))
    if value not in choices:
        raise UnknownPlannerError(
            f"planner {info.name}, parameter {key}: {' or '.join(map(repr, choices))} is needed, "
            f"found {value!r}"
        )


def _parse_like(info: PlannerInfo, key: str, text: str) -> Scalar:
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
        f"planner {info.name}, parameter {key}: a value like {default!r} is needed, found {text!r}"
    )


__all__ = [
    "ChosenPlanner", "PlannerInfo", "UnsupportedProblemError", "add", "choose", "get",
    "load_entry_points", "load_plugin", "planners", "register", "remove",
]  # fmt: skip
