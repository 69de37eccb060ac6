"""Recorded traces become lifetimes; damaged ones become one-line errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instances.formats.recorded_trace import (
    RECORDED_TRACE,
    read_recorded_trace_file,
    write_recorded_trace,
)
from instances.traces.allocation_trace import AllocationTrace, Phase, Role
from planners.errors import InstanceError
from planners.files.formats import read_problem
from planners.files.recording_slice import RecordingSlice

NAMES = np.array(["segment_alloc", "alloc", "free_requested", "free_completed"])
# segment | A alloc | B alloc | A freed in two events | A's address again | B freed | (open end)
ACTION = np.array([0, 1, 1, 2, 3, 1, 2, 3], dtype=np.int8)
ADDRESS = np.array([4096, 4096, 8192, 4096, 4096, 4096, 8192, 8192], dtype=np.uint64)
SIZE = np.array([2 << 20, 100, 200, 100, 100, 50, 200, 200])


def write_trace(path: Path, **changed: object) -> Path:
    arrays = {"action": ACTION, "addr": ADDRESS, "size": SIZE, "names": NAMES, **changed}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"addr": None}, "array addr: missing"),
        ({"size": SIZE[:-1]}, "same length"),
        ({"size": SIZE.astype(float)}, "array size: one dimension of whole numbers"),
        ({"size": SIZE.reshape(2, -1)}, "array size: one dimension of whole numbers"),
        ({"names": NAMES[:2]}, "'free_completed' is needed"),
        ({"action": np.ones(8, dtype=np.int8)}, "event 1: an address is allocated once"),
        ({"size": -SIZE}, "field size, request 0: bytes are at least 0"),
        # Objects are never unpickled.
        ({"names": np.array([object()], dtype=object)}, "not a whole archive"),
        ({"action": ACTION + 1}, "action, event 4: an index into the 4 names is needed, found 4"),
        ({"action": ACTION - 1}, "action, event 0: an index into the 4 names is needed, found -1"),
        ({"addr": ADDRESS + np.uint64(1 << 63)}, "addr, entry 2: a number that fits int64"),
    ],
)
def test_a_wrong_array_is_refused_in_one_line(
    tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    trace = write_trace(tmp_path / "run.npz", **changed)
    with pytest.raises(InstanceError, match=message) as raised:
        RECORDED_TRACE.read(trace)
    assert str(trace) in str(raised.value)
    assert "\n" not in str(raised.value)


def two_iterations() -> AllocationTrace:
    """Return two iterations of a forward and a backward pass in two modules, marked.

    event       0 1 2 3 4 5 6 7 8 9
    weight      [------------------>      no module
    first           [---)                 mlp, freed in head
    second                    [---)       mlp, freed in head; larger
    marks         F   B   O F   B
    """
    return AllocationTrace(
        10, [64, 10, 20], [0, 2, 7], [10, 4, 9], [10, 4, 9], address=[0, 512, 512],
        alloc_module=[-1, 0, 0], free_module=[-1, 1, 1], module_names=["mlp", "head"],
        mark_event=[1, 3, 5, 6, 8],
        mark_phase=[Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.FORWARD, Phase.BACKWARD],
        mark_microbatch=[0, 0, 0, 0, 0], mark_iteration=[0, 0, 0, 1, 1],
        segments=[(0, 0, 4096, 2 << 20, 0)],
    )  # fmt: skip


def test_phases_and_modules_that_we_write_reach_the_problem(tmp_path: Path) -> None:
    path = tmp_path / "ours.npz"
    write_recorded_trace(two_iterations(), path)
    expected = {
        RecordingSlice(): ([64, 10, 20], [-1, 0, 3], [5, 1, 4], [-1, 0, 0], [-1, 1, 1]),
        RecordingSlice(1): ([64, 20], [-1, 0], [2, 1], [-1, 0], [-1, 1]),
        RecordingSlice(0, persistent=False): ([10], [0], [1], [0], [1]),
    }
    for recording_slice, (size, phase_start, phase_end, layer_start, layer_end) in expected.items():
        problem = read_problem(path, recording_slice)
        assert problem.size.tolist() == size
        for column, values in (
            ("phase_start", phase_start), ("phase_end", phase_end),
            ("layer_start", layer_start), ("layer_end", layer_end),
        ):  # fmt: skip
            assert getattr(problem, column).tolist() == values, (recording_slice, column)
    dynamic = read_problem(path, RecordingSlice(-1, dynamic_modules=("mlp",))).dynamic
    assert dynamic is not None
    assert dynamic.tolist() == [False, True]
    assert read_problem(path).origin["peak_reserved"] == 2 << 20


def test_roles_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Blocks from before the recording come first, whatever their order was."""
    trace = AllocationTrace(
        4, [8, 16, 32], [0, 0, 1], [4, 4, 4], [4, 4, 4], address=[1, 2, 3],
        before=[False, True, False], role=[Role.GRADIENT, Role.STATE, Role.UPDATE],
        element_bytes=[0, 4, 0],
    )  # fmt: skip
    path = tmp_path / "ours.npz"
    write_recorded_trace(trace, path)
    found = read_recorded_trace_file(path)
    assert found.size.tolist() == [16, 8, 32]
    assert found.role.tolist() == [Role.STATE, Role.GRADIENT, Role.UPDATE]
    assert found.element_bytes.tolist() == [4, 0, 0]
    with np.load(path) as arrays:
        shorter = {**arrays, "role": arrays["role"][1:]}
    np.savez(path, **shorter)
    with pytest.raises(InstanceError, match="field role: one entry a request is needed, found 2"):
        read_recorded_trace_file(path)


@pytest.mark.parametrize("array", ["addr", "stream"])
def test_a_number_that_no_device_has_is_refused(tmp_path: Path, array: str) -> None:
    """Written as STAlloc text, it would not be read again."""
    changed = write_trace(tmp_path / "run.npz", **{array: -ADDRESS.astype(np.int64)})
    with pytest.raises(InstanceError, match="are at least 0, found -"):
        RECORDED_TRACE.read(changed)
