"""The page on the architecture names every room, and its core is about as large as it says."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.house import count_rooms
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = (ROOT / "docs" / "images" / "architecture.svg").read_text(encoding="utf-8")
CORE = re.findall(r"^\| \d \| `(planners/(\w+))` \| ([\d,]+) \| ([\d,]+) \|", PAGE, re.MULTILINE)
counted = cache(count_rooms)


@pytest.mark.parametrize(("room", "name", "python", "cpp"), CORE)
def test_a_room_of_the_core_has_about_so_many_lines(
    room: str, name: str, python: str, cpp: str
) -> None:
    sources = (ROOT / "planners" / "core" / "src" / name).glob("*.*")
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in sources)
    for said, found in ((python, counted()[room]["python"]), (cpp, lines)):
        assert int(said.replace(",", "")) == pytest.approx(found, rel=0.2)


def test_the_core_is_in_the_order_of_the_picture() -> None:
    drawn = re.findall(r">\d (\w+)</text>", PICTURE)
    assert len(drawn) == 8
    assert [name for _, name, _, _ in CORE] == drawn


@pytest.mark.parametrize("text", [PAGE, PICTURE], ids=["page", "picture"])
def test_every_room_is_named(text: str) -> None:
    rooms = {room.partition("/")[2] for room in counted()} - {"", "core"}
    assert {room for room in rooms if not re.search(rf"\b{room}\b", text)} == set()


def test_the_page_and_its_picture_can_be_read_at_once() -> None:
    assert len(PAGE.splitlines()) <= 120
    assert min(map(int, re.findall(r'font-size[:=" ]+(\d+)', PICTURE))) >= 12
