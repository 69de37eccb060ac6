"""Registered entries with parameters: their rules, and their form on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from planners.errors import GaplessError, UnknownPlannerError, near_names
from planners.model.plan import Parameters
from planners.model.problem import Scalar
from planners.registry.named_registry import Registry
from planners.text.plain_text import text_of

# Raises ``GaplessError`` for a value that a parameter may not have.
Rule = Callable[[Any], object]


@dataclass(frozen=True)
class OneOf:
    """Accepts these values."""

    values: tuple[Scalar, ...]

    def __call__(self, value: Scalar) -> None:
        if not any(type(value) is type(each) and value == each for each in self.values):
            raise GaplessError(f"{' or '.join(map(repr, self.values))} is needed, found {value!r}")


@dataclass(frozen=True)
class SomeOf:
    """Accepts some of these names, joined by ``+``, or an empty string for none."""

    names: tuple[str, ...]

    def __call__(self, value: Scalar) -> None:
        if not set(str(value).split("+")) <= {"", *self.names}:
            raise GaplessError(
                f"some of {', '.join(self.names)}, joined by '+', are needed, found {value!r}"
            )


@dataclass(frozen=True)
class WholeNumber:
    """Accepts the whole numbers, or the powers of two, between two bounds."""

    least: int
    most: int
    is_power_of_two: bool = False

    def __call__(self, value: Scalar) -> None:
        if (
            type(value) is not int
            or not self.least <= value <= self.most
            or (self.is_power_of_two and value & (value - 1))
        ):
            raise GaplessError(f"{self} is needed, found {value!r}")

    def __str__(self) -> str:
        what = "power of two" if self.is_power_of_two else "whole number"
        return f"a {what} from {self.least} to {self.most}"


@dataclass(frozen=True)
class RegisteredInfo:
    """The metadata of a registered entry, known without running it."""

    # The word for the entry in messages.
    kind: ClassVar[str]
    # Name in the registry and on the command line.
    name: str
    # One line for ``--list``.
    summary: str
    # Paper, section or algorithm from which the entry comes; may be empty.
    source: str
    # Parameters of the entry, with their defaults.
    defaults: Parameters
    # Takes values for some of the parameters, and returns the function to run.
    build: Callable[..., Any]
    # Rules of parameters that do not take every value of their default's type.
    rules: Mapping[str, Rule] = field(default_factory=dict)

    def require(self, key: str, value: Scalar) -> None:
        """Check that a parameter may have a value."""
        self.require_parameter(key)
        try:
            self.rules.get(key, bool)(value)
        except GaplessError as error:
            raise UnknownPlannerError(
                f"{self.kind} {self.name}, parameter {key}: {error}"
            ) from None

    def require_parameter(self, key: str) -> None:
        """Check that there is a parameter of a name."""
        if key not in self.defaults:
            hint = near_names(key, self.defaults) if self.defaults else "it takes none"
            raise UnknownPlannerError(f"{self.kind} {self.name} has no parameter {key!r}; {hint}")

    def parse(self, setting: str) -> tuple[str, Scalar]:
        """Return the parameter and the value of ``KEY=VALUE``."""
        key, equals, text = setting.partition("=")
        if not equals:
            raise UnknownPlannerError(
                f"{self.kind} {self.name}: a parameter is written KEY=VALUE, found {setting!r}"
            )
        self.require_parameter(key)
        value = self._parse_like(key, text)
        self.require(key, value)
        return key, value

    def _parse_like(self, key: str, text: str) -> Scalar:
        default = self.defaults[key]
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
            f"{self.kind} {self.name}, parameter {key}: a value like {default!r} is needed, "
            f"found {text!r}"
        )


Info = TypeVar("Info", bound=RegisteredInfo)


@dataclass(frozen=True)
class Chosen(Generic[Info]):
    """A registered entry with the parameters for its run."""

    info: Info
    parameters: Parameters

    @property
    def label(self) -> str:
        """Name and parameters, as they are written on the command line."""
        values = (f"{key}={text_of(value)}" for key, value in self.parameters.items())
        return ":".join([self.info.name, *values])


Choice = TypeVar("Choice", bound=Chosen[Any])


class ParameterRegistry(Registry[Info], Generic[Info, Choice]):
    """Entries that take parameters."""

    def __init__(self, kind: str, choice_of: Callable[[Info, Parameters], Choice]) -> None:
        super().__init__(kind)
        self._choice_of = choice_of

    def choose(self, patterns: str) -> list[Choice]:
        """Return the choices of ``NAME[:KEY=VALUE...],...``; names may be wildcards."""
        chosen: dict[str, Choice] = {}
        for pattern in self.patterns_of(patterns):
            name, *settings = pattern.split(":")
            for info in self.matching(name):
                choice = self._choice_of(info, dict(map(info.parse, settings)))
                chosen.setdefault(choice.label, choice)
        return list(chosen.values())

    def choose_exactly(self, name: str, parameters: Mapping[str, Scalar]) -> Choice:
        """Return the choice of an exact name, with values for its parameters."""
        info = self.find(name)
        for key, value in parameters.items():
            info.require(key, value)
        return self._choice_of(info, parameters)


def listing(chosen: Iterable[Chosen[Any]]) -> list[tuple[str, str]]:
    """Return a line for each choice, for ``--list``: its label, summary and parameters."""
    lines = []
    for choice in chosen:
        defaults = ", ".join(f"{key}={value}" for key, value in choice.info.defaults.items())
        parameters = f" [{defaults}]" if defaults else ""
        lines.append((choice.label, f"{choice.info.summary}{parameters}"))
    return lines
