"""The allocators of PyTorch's rules against a slow reference of them, on random programs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from gpu_runtime._core import (
    LedgerMemory,
    LedgerStreams,
    PytorchCaching,
    PytorchExpandable,
    PytorchSettings,
    SegmentLog,
)
from tests.gpu_runtime.core.online.pytorch_reference import (
    MIB,
    OutOfMemoryError,
    Reference,
    Rules,
)
from tests.slow import in_parts

pytestmark = pytest.mark.core

PLENTY = 4 << 30
SCARCE = 160 * MIB
RULES = {
    "default": (Rules(), PLENTY),
    "scarce": (Rules(), SCARCE),
    "fraction": (Rules(fraction=0.25), 640 * MIB),
    "split": (Rules(max_split=22 * MIB), PLENTY),
    "split-scarce": (Rules(max_split=22 * MIB), SCARCE),
    "rounding": (Rules(max_split=22 * MIB, rounding=24 * MIB), SCARCE),
    "divisions": (Rules(divisions=4), PLENTY),
    "garbage": (Rules(threshold=0.6), SCARCE),
    "segments": (Rules(large_segment=33 * MIB, rounding=33 * MIB), PLENTY),
    "pages": (Rules(page=4 * MIB), SCARCE),
}
CALLS = 400
STREAMS = 3
POOLS = 3


def settings_of(rules: Rules) -> PytorchSettings:
    unlimited = {} if rules.max_split == Rules.max_split else {"max_split_bytes": rules.max_split}
    return PytorchSettings(
        **unlimited,
        max_non_split_rounding_bytes=rules.rounding,
        roundup_power2_divisions=[rules.divisions] * 16,
        garbage_collection_threshold=rules.threshold,
        large_segment_bytes=rules.large_segment,
        expandable_page_bytes=rules.page,
        per_process_memory_fraction=rules.fraction,
    )


class BothAllocators:
    """The same calls to an allocator and to its reference."""

    def __init__(self, random: Random, rules: Rules, capacity: int, *, is_expandable: bool) -> None:
        self.ledger = LedgerMemory(MIB, capacity, LedgerStreams.WHEN_TOLD)
        self.log = SegmentLog(self.ledger)
        # In no order, since of free blocks of one size that with the lowest address is chosen.
        places = list(range(1, 1000))
        random.shuffle(places)
        addresses = [place << 34 for place in places]
        if is_expandable:
            self.ledger.dictate_ranges(addresses)
            self.made = PytorchExpandable(self.log, settings_of(rules))
        else:
            self.ledger.dictate_plain(addresses)
            self.made = PytorchCaching(self.log, settings_of(rules))
        self.reference = Reference(rules, capacity, addresses, is_expandable=is_expandable)
        self.live: list[int] = []
        self.refused = 0

    def allocate(self, size: int, stream: int) -> None:
        try:
            expected = self.reference.allocate(size, stream)
        except OutOfMemoryError:
            self.refused += 1
            with pytest.raises(MemoryError):
                self.made.allocate(size, stream)
            return
        assert self.made.allocate(size, stream) == expected
        self.live.append(expected)

    def free(self, which: int) -> None:
        address = self.live.pop(which)
        self.reference.free(address)
        assert self.made.free(address)

    def use_on(self, which: int, stream: int) -> None:
        self.reference.use_on(self.live[which], stream)
        assert self.made.use_on(self.live[which], stream)

    def finish(self, stream: int) -> None:
        self.reference.finish(stream)
        self.ledger.finish(stream)

    def settle(self) -> None:
        self.reference.settle()
        self.made.settle()

    def give_back(self) -> None:
        self.reference.give_back()
        self.made.give_back()

    def enter_pool(self, pool: int) -> None:
        self.reference.enter_pool(pool)
        self.made.enter_pool(pool)

    def end_pool(self, pool: int) -> None:
        self.reference.end_pool(pool)
        self.made.end_pool(pool)

    def check(self) -> None:
        self.made.check()
        figures = self.made.figures()
        assert figures.reserved_bytes == self.reference.reserved() == self.ledger.created_bytes
        blocks = [used for each in self.reference.segments for used in each.used]
        assert figures.active_bytes == sum(used.end - used.begin for used in blocks)
        assert figures.allocated_bytes == sum(
            used.end - used.begin for used in blocks if used.events is None
        )
        rows = [tuple(row) for row in self.log.rows()[:, :2]]
        assert rows == self.reference.obtained
        segments = {(each.address, each.pool, each.stream) for each in self.made.segments()}
        assert segments == {(each.begin, *each.place[:2]) for each in self.reference.segments}


def some_bytes(random: Random) -> int:
    most = random.choice([700, 30_000, MIB, MIB + 600, 9 * MIB, 11 * MIB, 60 * MIB])
    return random.randint(1, most) if random.random() < 0.8 else most


def run(both: BothAllocators, random: Random, *, has_pools: bool) -> None:
    for call in range(CALLS):
        kind = random.random()
        if kind < 0.5 and len(both.live) < 40:
            both.allocate(some_bytes(random), random.randrange(STREAMS))
        elif kind < 0.9 and both.live:
            both.free(random.randrange(len(both.live)))
        elif kind < 0.95 and both.live:
            both.use_on(random.randrange(len(both.live)), random.randrange(STREAMS))
        elif kind < 0.97:
            both.finish(random.randrange(STREAMS))
        elif kind < 0.98:
            both.settle()
        elif kind < 0.985 and has_pools:
            both.enter_pool(random.randrange(POOLS))
        elif kind < 0.99 and has_pools:
            both.end_pool(random.randrange(1, POOLS))
        else:
            both.give_back()
        if call % 10 == 0:
            both.check()


@pytest.mark.parametrize("has_pools", [False, True], ids=["common", "pools"])
@pytest.mark.parametrize("is_expandable", [False, True], ids=["caching", "expandable"])
@pytest.mark.parametrize("name", RULES)
@in_parts("seeds", range(80), first=10)
def test_every_block_is_where_the_rules_put_it(
    seeds: range, name: str, is_expandable: bool, has_pools: bool
) -> None:
    rules, capacity = RULES[name]
    refused = 0
    for seed in seeds:
        random = Random(f"{seed} {name} {is_expandable}")
        both = BothAllocators(random, rules, capacity, is_expandable=is_expandable)
        run(both, random, has_pools=has_pools)
        while both.live:
            both.free(0)
        both.enter_pool(0)
        both.give_back()
        both.check()
        for pool in range(1, POOLS):
            both.end_pool(pool)
        both.check()
        assert both.ledger.created_bytes == 0
        assert both.ledger.live_events == 0
        refused += both.refused
    assert (refused > 0) == (capacity != PLENTY)


def test_sizes_are_rounded_as_the_rules_say() -> None:
    random = Random(0)
    sizes = [random.randint(1, 1 << random.randint(1, 40)) for _ in range(2000)]
    for divisions in (0, 1, 2, 8, 64):
        rules = Rules(divisions=divisions)
        settings = settings_of(rules)
        assert [settings.rounded(size) for size in sizes] == [rules.rounded(size) for size in sizes]
        assert [settings.segment_for(size) for size in sizes] == [
            rules.segment_for(size) for size in sizes
        ]


def test_each_power_of_two_has_its_divisions() -> None:
    divisions = [0] * 16
    divisions[0], divisions[3], divisions[15] = 2, 4, 8
    settings = PytorchSettings(roundup_power2_divisions=divisions)
    asked = np.array([5 << 10, MIB + 1, 2 * MIB + 1, 9 * MIB, 65 << 30])
    given = [settings.rounded(int(size)) for size in asked]
    # Below 1 MiB as from there on, beyond 32 GiB as from there on.
    assert given == [6 << 10, 3 * MIB // 2, 2 * MIB + 512, 10 * MIB, 72 << 30]


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"max_split_bytes": 19 * MIB}, "at least large_segment_bytes, found 19922944"),
        ({"max_non_split_rounding_bytes": 19 * MIB}, "at least large_segment_bytes"),
        ({"large_segment_bytes": 10 * MIB}, "a multiple of 1 MiB, more than 10 MiB"),
        ({"large_segment_bytes": 12 * MIB + 512}, "a multiple of 1 MiB, more than 10 MiB"),
        ({"expandable_page_bytes": 1 << 50}, "at most 281474976710656"),
        ({"roundup_power2_divisions": [3] * 16}, "0 or powers of two up to 1048576, found 3"),
        ({"garbage_collection_threshold": 1.0}, "at least 0, less than 1"),
        ({"garbage_collection_threshold": float("nan")}, "at least 0, less than 1"),
        ({"per_process_memory_fraction": 1.5}, "0 to 1"),
    ],
)
def test_settings_that_break_a_rule_are_refused(wrong: dict[str, float], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        PytorchSettings(**wrong)


def test_divisions_are_sixteen() -> None:
    with pytest.raises(TypeError, match="roundup_power2_divisions"):
        PytorchSettings(roundup_power2_divisions=[0] * 15)


def test_the_common_pool_has_no_end() -> None:
    with pytest.raises(ValueError, match="a private pool ends, from 1 on, found 0"):
        PytorchCaching(LedgerMemory(2 * MIB, PLENTY), PytorchSettings()).end_pool(0)


def test_a_device_has_to_have_the_pages() -> None:
    ledger = LedgerMemory(2 * MIB, PLENTY)
    with pytest.raises(
        ValueError, match="a multiple of 2097152 bytes on this device, found 13631488"
    ):
        PytorchExpandable(ledger, PytorchSettings(large_segment_bytes=13 * MIB))
