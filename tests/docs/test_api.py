"""The reference has what the packages export, once, and nothing that is not there."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.repository import ROOT

API = ROOT / "docs" / "api"
DIRECTIVE = re.compile(r"^\.\. auto(class|exception|function):: (\S+)$", re.MULTILINE)

# Other names of what is there, constants, and what a page shows under its own name.
NOT_SHOWN = {"instances.synthetic.FAMILIES", "instances.synthetic.MIB"}


def shown_on(page: str) -> list[tuple[str, str]]:
    return DIRECTIVE.findall((API / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("page", "module"),
    [
        ("planners.md", "planners"),
        ("instances.md", "instances.synthetic"),
        ("instances.md", "instances.extract"),
        ("gpu-runtime.md", "gpu_runtime"),
        ("gpu-runtime.md", "gpu_runtime.integrations"),
    ],
)
def test_an_exported_name_is_shown(page: str, module: str) -> None:
    exported = {f"{module}.{name}" for name in import_module(module).__all__}
    shown = {name for _, name in shown_on(page)}
    assert exported - shown - NOT_SHOWN == set()


def test_nothing_is_shown_twice() -> None:
    shown = [name for page in sorted(API.glob("*.md")) for _, name in shown_on(page.name)]
    assert len(shown) == len({*shown}) > 50
