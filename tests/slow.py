"""What takes long in two parts: the first runs by default, the rest where ``slow`` is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def in_parts(name: str, whole: Sequence[Any], first: int) -> pytest.MarkDecorator:
    """Parametrize with the first of a whole, and with the rest of it."""
    rest = pytest.param(whole[first:], id="rest", marks=pytest.mark.slow)
    return pytest.mark.parametrize(name, [pytest.param(whole[:first], id="first"), rest])


def one_by_one(name: str, whole: Sequence[Any], first: int) -> pytest.MarkDecorator:
    """Parametrize with each of a whole, of which the first ones are not slow."""
    slow = (pytest.param(value, marks=pytest.mark.slow) for value in whole[first:])
    return pytest.mark.parametrize(name, [*whole[:first], *slow])
