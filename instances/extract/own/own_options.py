"""Which options go with the name of a model, and which with a function of a user's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from instances.extract.own.own_function import is_own
from planners.errors import InstanceError


def require_left_out(name: str, given: Mapping[str, object]) -> None:
    """Refuse the options of registered models: a user's function decides those itself."""
    for option, value in given.items():
        raise InstanceError(
            f"--{option.replace('_', '-')}: {name} decides this itself; make it a parameter of "
            f"the function and give --set {option}={value}, found the option"
        )


def require_no_set(name: str, settings: Sequence[str] | None) -> None:
    """Refuse parameters of a function where a registered model is named."""
    for setting in settings or ():
        raise InstanceError(
            f"--set {setting}: parameters are those of FILE.py:FUNCTION; {name} is a registered "
            f"model, which has options"
        )


def files_of(name: str, models: Iterable[Path] | None) -> list[Path]:
    """Return the files that a command is about to read."""
    own = [Path(name.rpartition(":")[0])] if is_own(name) else []
    return [*own, *(models or ())]
