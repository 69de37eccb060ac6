"""Random programs, of which it is known who works where, and what is ordered before what."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.gpu_runtime.core.test_core_programs import ALLOCATORS
from tests.gpu_runtime.cpp_program import CORE, SANITIZED, compile_cpp, run_cpp, written_cpp
from tests.slow import one_by_one

PROGRAM = Path(__file__).with_name("random_programs.cpp")
SOURCES = [PROGRAM, *ALLOCATORS]
PASSED = "random_programs: passed\n"

HEAP, MEMORY = "allocator/block_heap", "allocator/block_heap_memory"
MOVES, PAUSE = "allocator/block_heap_moves", "allocator/block_heap_pause"
PAUSES, WAITS = "allocator/memory_pause", "device/known_waits"
# What each stands for: a wait, a mark to wait for, a rule of who may have which bytes.
MUTATIONS = [
    (HEAP, "        make_wait(wanted, stream);\n", ""),
    (
        HEAP,
        "if (block->stream != stream && !is_marked(*block)) add_stream(unmarked, block->stream);",
        "",
    ),
    (HEAP, "if (mark->stream() != stream) marks.push_back(mark);", ""),
    (HEAP, "block.marks = std::move(marks);", ""),
    (MEMORY, "    if (is_capturing()) return leaving;\n", ""),
    (HEAP, "return withhold(block, {});", "throw;"),
    (HEAP, "gone.contains(block->stream) && gone_.contains(block->stream)", "true"),
    (
        MEMORY,
        "    memory_.synchronize();\n"
        "    for (const auto& mark : leaving.marks) memory_.await(mark->event());\n",
        "",
    ),
    (HEAP, "memory_.is_done(uses.front().mark->event())", "true"),
    (HEAP, " && one.marks == other.marks", ""),
    (HEAP, "if (!marks.empty() && memory_.is_captured(stream)) throw StreamIsCaptured();", ""),
    (HEAP, "        unmarked_.push_back({&block, std::move(streams)});\n", ""),
    (HEAP, "    covered_.clear();\n", ""),
    (HEAP, "if (mark->stream() != stream) memory_.make_wait(stream, mark->event());", ""),
    (MOVES, "    try {\n        make_wait(gathered_, stream);\n", "    try {\n"),
    (MOVES, "        if (stream != kNoStream) make_wait(gathered_, stream);\n", ""),
    (MOVES, "            if (!memory_.is_done(mark->event())) return;\n", ""),
    (MOVES, "if (!is_marked(*block)) unmarked.push_back(block->stream);", ""),
    (MOVES, "!is_idle || ", ""),
    (
        HEAP,
        "    memory_.synchronize();\n"
        "    for (const auto& mark : unsettled.marks) memory_.await(mark->event());\n",
        "",
    ),
    (HEAP, "is_paused(block) ? BlockState::paused : BlockState::free", "BlockState::free"),
    (PAUSES, "        heaps.front()->blocks().await(all);\n", ""),
    (PAUSE, "    memory_.await_copies();\n    return runs;\n", "    return runs;\n"),
    (PAUSE, "is_free = host_.use_count() == 1", "is_free = host_ != nullptr"),
    (PAUSE, "run.kept + (row_begin - begin)", "run.kept"),
    (WAITS, " && entry.second >= event", ""),
    (WAITS, "raise(clock, other, latest)", "raise(clock, other, recorded_)"),
]  # fmt: skip


@cache
def sanitized() -> Path:
    return compile_cpp("random_programs", SOURCES, SANITIZED)


SEEDS = {"orders": 150, "failures": 1}
# In which a wait that is left out is seen.
ORDERS = ("orders", "240")


@one_by_one("kind", list(SEEDS), first=1)
def test_no_byte_is_used_too_early_and_nothing_is_lost(kind: str) -> None:
    assert run_cpp(sanitized(), kind, str(SEEDS[kind])) == (0, PASSED, "")


@pytest.mark.slow
def test_a_wait_that_is_left_out_is_seen() -> None:
    assert run_cpp(compile_cpp("program", SOURCES), *ORDERS) == (0, PASSED, "")
    unseen = []
    for name, text, instead in MUTATIONS:
        path = CORE / f"{name}.cpp"
        source = path.read_text()
        assert source.count(text) == 1, text
        mutated = written_cpp(path.name, source.replace(text, instead))
        sources = [mutated if source == path else source for source in SOURCES]
        status, _, said = run_cpp(compile_cpp("program", sources), *ORDERS)
        # A program that a signal ended has seen it as well.
        if status == 0 or (status > 0 and not said.startswith("random_programs: seed ")):
            unseen.append(text)
    assert unseen == []
