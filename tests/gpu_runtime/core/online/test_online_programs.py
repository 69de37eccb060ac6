"""Random programs on every online allocator, of which it is known who works where, and when."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.gpu_runtime.cpp_program import CORE, SANITIZED, compile_cpp, run_cpp, written_cpp
from tests.slow import one_by_one

PROGRAM = Path(__file__).with_name("online_programs.cpp")
SOURCES = [
    PROGRAM,
    CORE / "device" / "simulated_memory.cpp",
    CORE / "online" / "online_allocator.cpp",
    *sorted((CORE / "online").glob("pytorch_*.cpp")),
    *sorted((CORE / "online").glob("gmlake*.cpp")),
    *sorted((CORE / "online").glob("vpmm*.cpp")),
    *sorted((CORE / "online").glob("stweaver*.cpp")),
]
PASSED = "online_programs: passed\n"
CACHING, EXPANDABLE = "pytorch-caching", "pytorch-expandable"
GMLAKE, VPMM, STWEAVER = "gmlake", "vpmm", "stweaver"
ALLOCATORS = (CACHING, "pytorch-caching-settings", EXPANDABLE, GMLAKE, VPMM, STWEAVER)


class Mutation(NamedTuple):
    """A rule that is left out, and a run that sees it."""

    path: str
    text: str
    instead: str
    kind: str
    allocator: str


BLOCKS, ALLOCATOR = "online/pending_blocks.h", "online/pytorch_allocator.cpp"
EXPANDED, STOCK = "online/pytorch_expandable.cpp", "online/page_stock.h"
LAKE, LAKE_POOLS = "online/gmlake.cpp", "online/gmlake_pools.cpp"
RETIRED = "online/retired_ranges.h"
MOVED, WEAVER = "online/vpmm.cpp", "online/stweaver.cpp"
MUTATIONS = (
    Mutation(BLOCKS, "memory_.is_done(queue.uses.front().event)", "true", "orders", CACHING),
    Mutation(BLOCKS, "memory_.await(queue.uses.front().event);\n", "", "orders", EXPANDABLE),
    Mutation(BLOCKS, "memory_.synchronize();", "{}", "orders", CACHING),
    Mutation(BLOCKS, "if (memory_.is_captured(stream)) {", "if (false) {", "orders", CACHING),
    Mutation(BLOCKS, "        mark_captured();\n        if (", "        if (", "orders", CACHING),
    Mutation(ALLOCATOR, " || memory_.is_captured(pool.stream)", "", "orders", EXPANDABLE),
    Mutation(EXPANDED, "memory_.synchronize();", "", "orders", EXPANDABLE),
    Mutation(BLOCKS, "unmarked_.push_back(&block);", "--block.pending, --uses_;", "failures",
             CACHING),
    Mutation(BLOCKS, "used_on.push_back(stream);", "{}", "orders", CACHING),
    Mutation(ALLOCATOR, "block->used_on.empty()", "true", "orders", EXPANDABLE),
    Mutation("online/pytorch_caching.cpp", "memory_.synchronize();\n", "", "orders", CACHING),
    Mutation(EXPANDED, "memory_.await(StreamMark(memory_, block.pool->stream).event());\n", "",
             "orders", EXPANDABLE),
    Mutation(EXPANDED, "for (const Pages each : pages) stock.give(each);\n", "", "failures",
             EXPANDABLE),
    Mutation(EXPANDED, "        stocks_[kind].release_kept();\n", "", "failures", EXPANDABLE),
    Mutation(STOCK, "            mapper_.settle();\n", "", "failures", EXPANDABLE),
    Mutation("device/page_mapper.h", "unopened_bytes_ = mapped;", "", "failures", EXPANDABLE),
    Mutation(LAKE, "block->used_on.empty()", "true", "orders", GMLAKE),
    Mutation(BLOCKS, "used_on.push_back(stream);", "{}", "orders", GMLAKE),
    Mutation(LAKE_POOLS, "retired_.empty()) memory_.synchronize();", "retired_.empty()) {}",
             "orders", GMLAKE),
    Mutation(LAKE_POOLS, "if (is_inactive(block)) drop", "drop", "orders", GMLAKE),
    Mutation(LAKE_POOLS, "last_pool_ == nullptr || last_pool_->stream != stream",
             "last_pool_ == nullptr", "orders", GMLAKE),
    Mutation(LAKE_POOLS, "        retired_.add_empty(address, bytes);\n", "", "failures", GMLAKE),
    Mutation(LAKE_POOLS, "        retired_.add(first, bytes, pool.stream);\n", "", "failures",
             GMLAKE),
    Mutation(RETIRED, "memory_.is_done(marked_.front().event)", "true", "orders", GMLAKE),
    Mutation(RETIRED, "if (!memory_.is_captured(range.stream)) {", "if (true) {", "orders", GMLAKE),
    Mutation(RETIRED, "        range.is_mapped = false;\n", "", "failures", GMLAKE),
    Mutation(RETIRED, "        mapper_.settle();\n", "", "failures", GMLAKE),
    Mutation(MOVED, "memory_.make_wait(stream, region->event);", "{}", "orders", VPMM),
    Mutation(MOVED, "if (is_done(*fit->region)) ", "", "orders", VPMM),
    Mutation(MOVED, "if (is_done(*next->second)) {", "if (true) {", "orders", VPMM),
    Mutation(MOVED, "    mark(*region);\n", "", "orders", VPMM),
    Mutation(MOVED, "        mark(rest);\n", "", "orders", VPMM),
    Mutation(MOVED, "std::exchange(region.mark, VpmmMark::done);", "region.mark;", "orders", VPMM),
    Mutation(MOVED, "region.id < behind.id", "region.id > behind.id", "orders", VPMM),
    Mutation(MOVED, "memory_.await(region.event);", "{}", "orders", VPMM),
    Mutation(BLOCKS, "used_on.push_back(stream);", "{}", "orders", VPMM),
    Mutation(MOVED, "    region.mark = VpmmMark::missing;\n", "", "failures", VPMM),
    Mutation(MOVED, "if (memory_.is_captured(region.stream)) return;", "", "orders", VPMM),
    Mutation(MOVED, "owner == stream || may_wait || is_done(region)", "true", "orders", VPMM),
    Mutation(MOVED, "    memory_.synchronize();\n", "", "orders", VPMM),
    Mutation(MOVED, "pages.resize(std::min(pages.size(), missing_pages));", "", "failures", VPMM),
    Mutation(MOVED, "for (const Pages each : pages) stock_.give(each);", "", "failures", VPMM),
    Mutation(WEAVER, "block->used_on.empty()", "true", "orders", STWEAVER),
    Mutation(BLOCKS, "used_on.push_back(stream);", "{}", "orders", STWEAVER),
    Mutation(WEAVER, "memory_.synchronize();", "{}", "orders", STWEAVER),
    Mutation(WEAVER, "free_.take(place->offset, place->offset + bytes)", "true", "orders",
             STWEAVER),
    Mutation(WEAVER, "stream == profile_.stream && ", "", "orders", STWEAVER),
    Mutation("online/free_ranges.h", "range_end < end", "false", "orders", STWEAVER),
)  # fmt: skip


@cache
def sanitized() -> Path:
    return compile_cpp("online_programs", SOURCES, SANITIZED)


# Calls of the allocator and the first seed; seeds.
ORDERS, FAILURES = ("150000", "0"), ("2",)
RUNS = [
    *(("orders", allocator, *ORDERS) for allocator in ALLOCATORS),
    *(("failures", allocator, *FAILURES) for allocator in ALLOCATORS),
]


@one_by_one("run", RUNS, first=len(ALLOCATORS))
def test_no_byte_is_used_too_early_and_nothing_is_lost(run: tuple[str, ...]) -> None:
    assert run_cpp(sanitized(), *run) == (0, PASSED, "")


# What a rule that is left out is seen within.
SEEN_WITHIN = {"orders": ORDERS, "failures": ("60",)}
# Ten million calls an allocator, in parts whose seeds are their own.
PARTS, CALLS_OF_A_PART, SEEDS_OF_A_PART = 20, 500_000, 1000


@pytest.mark.long
@pytest.mark.parametrize("first_seed", range(0, PARTS * SEEDS_OF_A_PART, SEEDS_OF_A_PART))
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_ten_million_calls_use_no_byte_too_early(allocator: str, first_seed: int) -> None:
    ended = run_cpp(sanitized(), "orders", allocator, str(CALLS_OF_A_PART), str(first_seed))
    assert ended == (0, PASSED, "")


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.text[:30] for mutation in MUTATIONS])
def test_a_rule_that_is_left_out_is_seen(mutation: Mutation) -> None:
    path = CORE / mutation.path
    source = path.read_text()
    assert source.count(mutation.text) == 1, mutation.text
    mutated = written_cpp(mutation.path, source.replace(mutation.text, mutation.instead))
    sources = [mutated if source == path else source for source in SOURCES]
    # Any source may include a header that is mutated.
    program = compile_cpp("program", sources, headers=[mutated.parents[1]])
    status, _, said = run_cpp(
        program, mutation.kind, mutation.allocator, *SEEN_WITHIN[mutation.kind]
    )
    assert status != 0
    assert said.startswith("online_programs: seed ")
