"""Structured problems of dsa-solver's schema: one of three buffers, and random ones."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from random import Random
from typing import Any

NOTHING: dict[str, list[Any]] = {
    "colocations": [], "separations": [], "temporal_exclusions": [], "pinned_allocations": [],
}  # fmt: skip


def buffer(number: int, size: int, *lives: tuple[int, int]) -> dict[str, Any]:
    intervals = [{"lower": lower, "upper": upper} for lower, upper in lives]
    return {
        "id": number, "name": f"b{number}", "size": size, "alignment": 8, "allowed_pools": [4],
        "live_intervals": intervals,
    }  # fmt: skip


STRUCTURED: dict[str, Any] = {
    "schema_version": 1, "profile": "dsa_rp_v1", "instance": "example",
    "problem": {
        "pools": [{"id": 4, "name": "vec", "capacity": 96, "reserved_ranges": []}],
        "buffers": [buffer(7, 64, (0, 2)), buffer(9, 32, (2, 4), (6, 8)), buffer(8, 16, (3, 5))],
        "constraints": NOTHING,
        "cost_model": {"reuse_penalties": [
            {"first": 7, "second": 9, "cost": 3, "reason": "generic"},
            {"first": 8, "second": 7, "cost": 0, "reason": "generic"},
        ]},
        "objective": {"aggregation": "lexicographic", "terms": ["reuse_cost"]},
    },
}  # fmt: skip

# Pool and offset of each buffer, by its id.
Placements = Mapping[int, tuple[int, int]]


def random_document(rng: Random) -> dict[str, Any]:
    """Return a document of few buffers that may have everything of the schema."""
    pools = []
    for index in range(count := rng.randint(1, 3)):
        ranges = [
            {"begin": at, "end": at + rng.randint(1, 3)}
            for at in rng.choices(range(6), k=rng.choice([0, 0, 2]))
        ]
        # A memory without an end is read as a large one, which no offset drawn here exceeds.
        without_end = None if count == 1 and not ranges else 40
        capacity = rng.choice([8, 12, 16, without_end])
        row = {"id": 10 + 3 * index, "name": f"pool {index}", "capacity": capacity}
        pools.append({**row, "reserved_ranges": ranges})
    ids = rng.sample(range(100), rng.randint(2, 5))
    pool_ids = [pool["id"] for pool in pools]
    buffers = []
    for name in ids:
        lives = [
            (low := rng.randrange(8), low + rng.randint(1, 6)) for _ in range(rng.choice([1, 1, 3]))
        ]
        row = buffer(name, rng.randint(1, 4), *lives)
        allowed = rng.sample(pool_ids, rng.randint(1, len(pool_ids)))
        buffers.append({**row, "alignment": rng.choice([1, 1, 2, 4]), "allowed_pools": allowed})
    pairs = [{"first": a, "second": b} for a, b in combinations(ids, 2)]
    together = [pair for pair in pairs if rng.random() < 0.1]
    group = groups_of(ids, together)
    apart = [
        pair
        for pair in pairs
        if rng.random() < 0.2 and group[pair["first"]] != group[pair["second"]]
    ]
    pinned = [row for row in buffers if rng.random() < 0.1 and group[row["id"]] == {row["id"]}]
    pins = [
        {"buffer": row["id"], "pool": rng.choice(row["allowed_pools"]),
         "offset": rng.randrange(0, 9 - row["size"], row["alignment"]),
         "exclusive_for_all_time": rng.random() < 0.5}
        for row in pinned
    ]  # fmt: skip
    problem = {
        "pools": pools,
        "buffers": buffers,
        "constraints": {
            "colocations": together, "separations": apart, "pinned_allocations": pins,
            "temporal_exclusions": [pair for pair in pairs if rng.random() < 0.3],
        },
        "cost_model": {"reuse_penalties": [
            {**rng.choice(pairs), "cost": rng.randrange(4), "reason": "generic"} for _ in range(5)
        ]},
        "objective": STRUCTURED["problem"]["objective"],
    }  # fmt: skip
    return {**STRUCTURED, "problem": problem}


def groups_of(ids: list[int], together: list[dict[str, int]]) -> dict[int, set[int]]:
    group = {name: {name} for name in ids}
    for pair in together:
        joined = group[pair["first"]] | group[pair["second"]]
        group.update(dict.fromkeys(joined, joined))
    return group


def cost_by_the_schema(document: dict[str, Any], placed: Placements) -> int | None:
    """Return the cost of placements, or None if they break a rule, by the words of the schema."""
    problem = document["problem"]
    rules = problem["constraints"]
    row = {each["id"]: each for each in problem["buffers"]}
    group = groups_of(list(row), rules["colocations"])
    exclusive = {frozenset(pair.values()) for pair in rules["temporal_exclusions"]}
    separate = {frozenset(pair.values()) for pair in rules["separations"]}
    pins = {pin["buffer"]: pin for pin in rules["pinned_allocations"]}

    def bytes_of(name: int) -> set[tuple[int, int]]:
        pool, offset = placed[name]
        return {(pool, at) for at in range(offset, offset + row[name]["size"])}

    def steps_of(name: int) -> set[int]:
        return {s for i in row[name]["live_intervals"] for s in range(i["lower"], i["upper"])}

    for name, (pool, offset) in placed.items():
        its = next(each for each in problem["pools"] if each["id"] == pool)
        end = offset + row[name]["size"]
        reserved = {
            (pool, at) for r in its["reserved_ranges"] for at in range(r["begin"], r["end"])
        }
        if (
            pool not in row[name]["allowed_pools"]
            or offset % row[name]["alignment"]
            or (its["capacity"] is not None and end > its["capacity"])
            or reserved & bytes_of(name)
            or (name in pins and (pins[name]["pool"], pins[name]["offset"]) != (pool, offset))
            or any(placed[other] != (pool, offset) for other in group[name])
        ):
            return None
    paid: dict[frozenset[int], int] = {}
    for price in problem["cost_model"]["reuse_penalties"]:
        pair = frozenset((price["first"], price["second"]))
        paid[pair] = paid.get(pair, 0) + price["cost"]
    cost = 0
    for one, other in combinations(row, 2):
        pair = frozenset((one, other))
        if one in group[other] or not bytes_of(one) & bytes_of(other):
            continue
        lives_at_once = steps_of(one) & steps_of(other) and pair not in exclusive
        alone = any(pins.get(name, {}).get("exclusive_for_all_time") for name in pair)
        if lives_at_once or alone or pair in separate:
            return None
        cost += paid.get(pair, 0)
    return cost
