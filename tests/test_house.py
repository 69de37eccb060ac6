"""No room grows: ``house.toml`` holds the size of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import HEAD, HOUSE, count_rooms, lowered, read_house, too_large


def test_no_room_is_larger_than_its_entry() -> None:
    assert too_large(count_rooms(), read_house()) == []


def test_the_file_is_as_its_command_writes_it() -> None:
    entries = read_house()
    assert HOUSE.read_text(encoding="utf-8") == lowered(entries, entries)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    for name, text in {
        "planners/top.py": "def run(): ...\n",
        "planners/model/one.py": "class A: ...\nclass _B: ...\nx = typer.Option(1)\n",
        "planners/model/deep/two.py": "\n\n",
        "planners/core/src/a.cpp": "int a;\n",
        "tests/planners/model/test_one.py": "\n",
        "tests/planners/core/program.cpp": "\n\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_room_is_a_folder_of_a_package(house: Path) -> None:
    assert count_rooms(house) == {
        "planners": {"python": 1, "names": 1, "options": 0},
        "planners/model": {"python": 5, "names": 1, "options": 1, "tests": 1},
        "planners/core": {"cpp": 1, "tests": 2},
    }


@pytest.mark.parametrize("kind", ["python", "tests", "names", "options"])
def test_each_number_is_held(house: Path, kind: str) -> None:
    rooms = count_rooms(house)
    entries = {room: dict(counts) for room, counts in rooms.items()}
    assert too_large(rooms, entries) == []
    entries["planners/model"][kind] -= 1
    (line,) = too_large(rooms, entries)
    found = rooms["planners/model"][kind]
    assert line == f"planners/model: at most {found - 1:,} of {kind}, found {found:,}"


def test_a_room_without_entries_may_have_nothing(house: Path) -> None:
    assert "planners/core: at most 0 of cpp, found 1" in too_large(count_rooms(house), {})


def test_entries_are_lowered_and_never_raised(house: Path) -> None:
    entries = {"planners": {"python": 0, "names": 7}, "instances": {"python": 3}}
    text = lowered(count_rooms(house), entries)
    assert text == (
        HEAD + '\n["planners"]\npython = 0\ncpp = 0\ntests = 0\nnames = 1\noptions = 0\n'
    )
