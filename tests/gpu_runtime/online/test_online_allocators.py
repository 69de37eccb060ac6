"""An online allocator is defined once: the core, the registry, the help and the pages agree."""

from __future__ import annotations

import re

import pytest

from gpu_runtime._core import OnlineDefinition, OnlineParameter, online_allocators
from gpu_runtime.online.online_allocators import CORE, STWEAVER, rule_of
from planners.registry import WholeNumber, choose_online, listing
from tests.repository import ROOT

CORE_FOLDER = ROOT / "gpu_runtime" / "core" / "src" / "online"

each_definition = pytest.mark.parametrize("definition", CORE.values(), ids=CORE)


def test_every_description_is_listed() -> None:
    described = {
        name
        for path in CORE_FOLDER.glob("*.cpp")
        for name in re.findall(r"^OnlineDefinition (\w+)\(\)", path.read_text(), re.MULTILINE)
    }
    listed = re.findall(r"EACH\((\w+)\)", (CORE_FOLDER / "online_allocators.h").read_text())
    assert sorted(listed) == sorted(described)
    assert [each.name for each in online_allocators()] == list(CORE)


@each_definition
def test_the_registry_and_its_list_say_what_the_core_says(definition: OnlineDefinition) -> None:
    [chosen] = choose_online(definition.name)
    assert (chosen.info.summary, chosen.info.source) == (definition.summary, definition.source)
    # What a profile is made with is Python's to say.
    profiled = ["planner", "time_limit", "reuse", "static", "foresight"]
    of_core = [its.name for its in definition.parameters]
    assert list(chosen.info.defaults) == (profiled if definition.name == STWEAVER else of_core)
    [(name, line)] = listing([chosen])
    assert name == definition.name
    assert line.startswith(definition.summary)
    assert all(f"{its.name}=" in line for its in definition.parameters)
    # A default keeps its own rule.
    choose_online(
        f"{name}:" + ":".join(f"{key}={its}" for key, its in chosen.info.defaults.items())
    )


def row_of(definition: OnlineDefinition, parameter: OnlineParameter) -> str:
    [chosen] = choose_online(definition.name)
    default, rule = chosen.info.defaults[parameter.name], rule_of(parameter)
    values = "False or True" if default is False else "a text"
    if isinstance(rule, WholeNumber):
        values = str(rule)
    shown = "none" if default == "" else default
    return f"| `{definition.name}` | `{parameter.name}` | {shown} | {values} | {parameter.help} |"


def test_the_page_has_a_row_for_each_parameter() -> None:
    page = (ROOT / "docs" / "replaying.md").read_text()
    rows = [line for line in page.splitlines() if re.match(r"\| `[\w-]+` \| `", line)]
    assert rows == [row_of(each, its) for each in online_allocators() for its in each.parameters]


def test_the_page_on_replays_names_every_online_allocator() -> None:
    page = (ROOT / "docs" / "replaying.md").read_text()
    for allocator in choose_online("*"):
        assert f"\n| `{allocator.info.name}` |" in page


@pytest.mark.parametrize("name", ["gmlake", "vpmm"])
def test_one_file_names_an_online_allocator(name: str) -> None:
    rooms = [ROOT / "planners", *(ROOT / "gpu_runtime" / room for room in ("core", "replaying"))]
    files = [path for room in rooms for path in room.rglob("*.*")]
    sources = [path for path in files if path.suffix in (".py", ".cpp", ".h")]
    found = [path.name for path in sources if f'"{name}"' in path.read_text()]
    assert found == [f"{name}.cpp"]
