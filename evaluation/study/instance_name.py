"""What an instance is called in a study: what it is of, and the settings that tell it from others.

Such as ``A.1048576.csv:capacity=1048576:variation=smaller:seed=1``.
"""

from __future__ import annotations

from collections.abc import Mapping


def name_with(name: str, settings: Mapping[str, object]) -> str:
    """Return a name with settings behind those that it has."""
    return ":".join([name, *(f"{key}={value}" for key, value in settings.items())])


def settings_in(name: str) -> tuple[str, Mapping[str, str]]:
    """Return what an instance is of, and its settings."""
    of_it, *parts = name.split(":")
    settings = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if equals:
            settings[key] = value
        else:
            of_it = f"{of_it}:{part}"
    return of_it, settings
