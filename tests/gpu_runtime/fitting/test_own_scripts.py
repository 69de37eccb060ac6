"""Scripts as their users have them: what is traced of them, and what they are told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpu_runtime.fitting.live_peak import find_live_peak
from gpu_runtime.fitting.traced_program import AskedProgram
from instances.traces.allocation_trace import AllocationTrace, iteration_window
from planners.errors import InstanceError

pytestmark = pytest.mark.torch

SCRIPTS = Path(__file__).parents[2] / "instances" / "extract" / "own" / "scripts"
# Libraries keep counters, flags and sums beside the training, and copy labels once more.
SMALL_BYTES = 64


def trace_of(name: str, ranks: int = 1) -> AllocationTrace:
    return AskedProgram(name, ranks=ranks).trace({})[0].trace


def requests(trace: AllocationTrace, step: int) -> Counter[int]:
    begin, end = iteration_window(trace, step)
    sizes = trace.size[(trace.alloc >= begin) & (trace.alloc < end)]
    return Counter(sizes[sizes > SMALL_BYTES].tolist())


@pytest.mark.parametrize(
    ("script", "name", "ranks"),
    [
        ("plain_loop", "main", 1),
        ("trainer", "trainer", 1),
        ("lightning_module", "main", 1),
        ("accelerated", "main", 1),
        ("sharded", "main", 4),
    ],
)
def test_a_script_is_traced_unchanged_as_the_step_that_it_makes(
    script: str, name: str, ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = trace_of(f"{SCRIPTS / script}.py:{name}", ranks)
    step = trace_of(f"{SCRIPTS / 'as_steps'}.py:{script}", ranks)
    # The first step makes the optimizer's states; a library may read a batch ahead in it.
    assert not requests(step, 0) - requests(found, 0)
    assert requests(found, 1) == requests(step, 1)
    assert abs(find_live_peak(found).size - find_live_peak(step).size) <= SMALL_BYTES
    assert not list(tmp_path.iterdir())


def test_a_whole_script_runs_as_its_function_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = trace_of(str(SCRIPTS / "plain_loop.py"))
    function = trace_of(f"{SCRIPTS / 'plain_loop.py'}:main")
    assert whole.size.tolist() == function.size.tolist()


def test_a_script_of_accelerate_asks_for_the_gpu_anew() -> None:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    name = f"{SCRIPTS / 'accelerated.py'}:main"
    before = trace_of(name)
    Accelerator(cpu=True)
    try:
        assert trace_of(name).size.tolist() == before.size.tolist()
    finally:
        AcceleratorState._reset_state(True)


def test_a_script_of_several_processes_says_what_it_needs() -> None:
    with pytest.raises(InstanceError, match=r"sharded\.py:\d+: init_process_group: .*--ranks"):
        trace_of(f"{SCRIPTS / 'sharded'}.py:main")
