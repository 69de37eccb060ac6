"""The catalogue's file: what is written is read again, and what is wrong is one line."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from instances.catalogue.catalogue_file import read_catalogue, write_catalogue
from planners.errors import GaplessError, InstanceError
from tests.instances.catalogue.entries import BEST, FACTS, entry

ENTRIES = [
    entry("b.1", notes='a "quoted" note \\ with é and a tab\t', tags=()),
    entry(
        "a",
        kind="synthetic",
        committed=False,
        command="",
        made_with="",
        source="theirs",
        licence="MIT",
        facts=replace(FACTS, capacity=2040, optimum=2044, proof="by parity"),
        best=replace(BEST, peak=2050, status="feasible", lower_bound=2044),
    ),
]


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.toml"
    write_catalogue(ENTRIES, path)
    assert read_catalogue(path) == {"a": ENTRIES[1], "b.1": ENTRIES[0]}


def test_the_same_entries_are_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    write_catalogue(ENTRIES, one)
    write_catalogue(read_catalogue(one).values(), two)
    assert one.read_bytes() == two.read_bytes()
    write_catalogue(reversed(ENTRIES), two)
    assert one.read_bytes() == two.read_bytes()


def test_fields_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.toml"
    write_catalogue(ENTRIES, path)
    written = tomllib.loads(path.read_text())["instance"]
    assert {"command", "made_with", "notes"} & written["a"].keys() == set()
    assert {"capacity", "optimum", "proof", "tags"} & written["b.1"].keys() == set()


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("kind", "Kind", "instance toy, field Kind: one of the fields .* is needed, found 'Kind'"),
        ('kind = "extracted graph"\n', "", "field kind: a text is needed, found nothing"),
        ("extracted graph", "graph", "kind: one of extracted graph, .* is needed, found 'graph'"),
        ("committed = true", "committed = 1", "field committed: true or false is needed, found 1"),
        ("tensors = 4", "tensors = -4", "tensors: a whole number of at least 0 .* found -4"),
        ("tensors = 4", "tensors = true", "tensors: a whole number of at least 0 .* found True"),
        ('["streams"]', '["streams", 2]', "field tags: a list of texts is needed, found 2"),
        ("lifetime = 2000", 'lifetime = "2"', "field bounds.lifetime: a whole number .* found '2'"),
        ('"optimal"', '"best"', "field best.status: optimal or feasible is needed, found 'best'"),
        ("peak = ", "height = ", "field best.height: one of the fields .*peak.* is needed"),
        ("version = 1\n", "version = 2\n", "fields format and version: .* found .* and 2"),
        ("[instance.toy]\n", "[instance.toy\n", "the file is no TOML: .*line"),
        ("[instance.toy]\n", "instance = 3\n[other]\n", "the file is no TOML|field instance"),
        ("tensors = 4", f"tensors = {10**30}", "tensors: a whole number .* that fits int64 is"),
        ("tensors = 4", "tensors = 0x" + "f" * 9000, "tensors: .* a whole number of 36000 bits"),
        ("tensors = 4", "tensors = " + "[" * 5000, "its lists are nested too deeply"),
        ("tensors = 4", "a" + ".a" * 40 + " = 1", "at most 32 dots a line are needed, found 40"),
        ("[instance.toy]\n", '[instance."a\\n"]\n', r"instance 'a\\n': a name of printable"),
        ('file = "', 'file = "\\u001b[31m', "field file: a name of 1 to 255 bytes, without a"),
        ('file = "', 'file = "../', "field file: a name of 1 to 255 bytes, without a folder, is"),
        ('file = "', 'file = "' + "a" * 255, "field file: a name of 1 to 255 bytes, without a"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, wrong: str, right: str, message: str) -> None:
    path = tmp_path / "catalogue.toml"
    write_catalogue([entry()], path)
    text = path.read_text()
    assert wrong in text
    path.write_text(text.replace(wrong, right, 1))
    with pytest.raises(InstanceError, match=message) as caught:
        read_catalogue(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_refuses_missing_files_and_other_files_than_text(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="cannot be read: No such file"):
        read_catalogue(tmp_path / "none.toml")
    with pytest.raises(GaplessError, match="cannot be written: No such file"):
        write_catalogue([], tmp_path / "none" / "catalogue.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(InstanceError, match="no TOML"):
        read_catalogue(tmp_path / "bytes.toml")
