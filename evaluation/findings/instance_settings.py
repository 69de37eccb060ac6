"""The parts of the name that a study gives an instance."""

from __future__ import annotations


def settings_of(instance: str) -> tuple[str, dict[str, str]]:
    """Return what ``model:key=value:...`` names, and its settings."""
    model, *settings = instance.split(":")
    return model, dict(each.split("=", 1) for each in settings)
