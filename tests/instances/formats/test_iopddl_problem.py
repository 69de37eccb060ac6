"""Problems of the contest IOPDDL, by the example of its description."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from planners import read_problem, run
from planners.errors import InstanceError
from planners.files.formats import format_of
from planners.registry import get

EXAMPLE: dict[str, Any] = {
    "problem": {
        "name": "example",
        "nodes": {
            "intervals": [[30, 70], [40, 70], [0, 0], [50, 120], [110, 140], [110, 150]],
            "costs": [[15], [55, 65], [3], [25, 45, 35], [85, 75], [95]],
            "usages": [[10], [25, 20], [7], [15, 20, 15], [10, 10], [15]],
        },
        "edges": {"nodes": [[0, 1]], "costs": [[30, 40]]},
        "usage_limit": 50,
    }
}


def written(path: Path, fields: object) -> Path:
    path.write_text(json.dumps(fields))
    return path


def test_first_strategies_are_sizes_and_intervals_half_open(tmp_path: Path) -> None:
    problem = read_problem(written(tmp_path / "a.json", EXAMPLE))
    assert problem.size.tolist() == [10, 25, 15, 10, 15]
    assert problem.start.tolist() == [30, 40, 50, 110, 110]
    assert problem.end.tolist() == [70, 70, 120, 140, 150]
    assert problem.tensor_name == ("node 0", "node 1", "node 3", "node 4", "node 5")
    assert problem.capacity is None
    assert (problem.name, problem.origin["usage_limit"]) == ("a", 50)
    result = run(problem, get("auto"))
    assert result.plan is not None
    assert result.plan.peak == 10 + 25 + 15


def test_its_files_are_told_from_ours(tmp_path: Path) -> None:
    plain = written(tmp_path / "a.json", EXAMPLE)
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    bare = written(tmp_path / "a", EXAMPLE)
    ours = written(tmp_path / "b.json", {"format": "gapless", "problem": {}})
    names = [format_of(path).name for path in (plain, packed, bare, ours)]
    assert names == ["iopddl", "iopddl", "iopddl", "gapless-json"]
    assert read_problem(packed).size.tolist() == read_problem(plain).size.tolist()


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("nodes", [], "field problem.nodes: an object is needed, found []"),
        ("intervals", None, "field problem.nodes.intervals: a list is needed, found None"),
        ("usages", [[1]], "usages of 6 nodes are needed, as many as there are intervals, found 1"),
        ("usages", [[1], [], [1], [1], [1], [1]],
         "field problem.nodes.usages[1]: a whole number for each strategy is needed, found []"),
        ("usages", [[1], [True], [1], [1], [1], [1]], "found [True]"),
        ("usages", [[-1]] * 6, "-1"),
        ("intervals", [[1, 2], [3], [1, 2], [1, 2], [1, 2], [1, 2]],
         "field problem.nodes.intervals[1]: [LOWER, UPPER] as whole numbers is needed, found [3]"),
        ("intervals", [[2, 1]] * 6, "start"),
        ("intervals", [[0, 1 << 70]] * 6, "end"),
    ],
)  # fmt: skip
def test_a_field_that_breaks_a_rule_is_one_line(
    tmp_path: Path, part: str, value: object, message: str
) -> None:
    fields = json.loads(json.dumps(EXAMPLE))
    (fields["problem"] if part == "nodes" else fields["problem"]["nodes"])[part] = value
    with pytest.raises(InstanceError) as caught:
        read_problem(written(tmp_path / "a.json", fields))
    assert str(caught.value).startswith(f"{tmp_path}/a.json: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
