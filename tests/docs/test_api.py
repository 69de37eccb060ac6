"""The reference has what the packages export, once, and nothing that is not there."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.repository import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
DIRECTIVE = re.compile(r"^\.\. auto(class|exception|function):: (\S+)$", re.MULTILINE)

# Constants and other names for things that the page shows.
NOT_SHOWN = {"instances.synthetic.FAMILIES", "instances.synthetic.MIB"}
SHOWN = [name for _, name in DIRECTIVE.findall(PAGE)]


@pytest.mark.parametrize(
    "module",
    [
        "planners",
        "instances.synthetic",
        "instances.extract",
        "gpu_runtime",
        "gpu_runtime.integrations",
    ],
)
def test_the_page_shows_every_export(module: str) -> None:
    exported = {f"{module}.{name}" for name in import_module(module).__all__}
    assert exported - {*SHOWN} - NOT_SHOWN == set()


def test_the_page_shows_nothing_twice() -> None:
    assert len(SHOWN) == len({*SHOWN}) > 50
