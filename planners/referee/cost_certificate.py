"""The referee of certificates of cost: what a plan within the capacity pays at least.

Note [Rules of a certificate of cost]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Let x be 1 for a priced pair that shares a byte in some plan within the capacity, otherwise 0. A row
says that a weighted sum of some x is at least a number:

- Bytes. Every pair of a set of tensors is unsafe or priced, and S, the sum of their bytes, exceeds
  the capacity C. A byte that m of them have is common to m (m - 1) / 2 >= q m - q (q + 1) / 2 of
  the pairs, for each whole q, as (m - q) (m - q - 1) >= 0. Summed over the bytes of the capacity,
  the pairs have E = q S - C q (q + 1) / 2 common bytes or more, of which S / C, rounded down, is
  the best q. A pair has at most those of its smaller tensor, and needs no more than E. As x is
  whole, both sides may be divided by a number, and then rounded up.
- Core. The priced pairs in some sets of tensors are kept apart, as if they were unsafe. Then the
  rules of a certificate refute that a plan is within the capacity. So one of these x is 1.

A node of the tree branches over whether a pair is kept apart or pays, so that its branches cover
all plans. A leaf gives weights y >= 0 to the rows. The cost is the sum of p x over all pairs, and
as each row holds, at least the sum of y times its number plus the sum of (p - y times its weights)
x. Of the latter a pair that pays contributes all, one that is kept apart nothing, and any other at
least the part below 0. Every cost is a multiple of what divides all prices.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from typing import Any

from planners.errors import InvalidCertificateError
from planners.files.json_file import refuse, require_fields, require_list
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.referee.certificate import (
    Proven,
    State,
    charge_of,
    check_certificate,
    follow,
    problem_of,
    require_numbers,
)
from planners.referee.naive import Charge, find_no_clique, find_violation, reuse_cost

Row = tuple[int, dict[int, int]]
"""The number that a row demands, and the weight of each priced pair in it."""

MOST = 1 << 63


def check_any_certificate(fields: Any) -> Proven:
    """Return what an untrusted certificate of a peak or of a cost proves."""
    is_of_cost = isinstance(fields, dict) and "cost" in fields
    return check_cost_certificate(fields) if is_of_cost else check_certificate(fields)


def check_cost_certificate(fields: Any) -> Proven:
    """Return what an untrusted certificate proves; refuse the first part that does not hold."""
    problem = problem_of(fields, {"cost", "unsafe", "rows", "tree"})
    cost, capacity = fields["cost"], problem.capacity
    require_list("rows", fields["rows"])
    require_list("tree", fields["tree"])
    require_numbers("cost", [cost], MOST)
    if capacity is None or not problem.cost_decides:
        refuse("problem", "a capacity and prices of reuse", capacity)
    charge = charge_of(problem, fields["rows"], fields["tree"])
    prices: list[int] = problem.reuse_prices[:, 2].tolist()
    pairs = enumerate(problem.reuse_prices[:, :2].tolist())
    number = {(min(pair), max(pair)): index for index, pair in pairs}
    # Some pairs with a price may be unsafe, so that no plan pays it.
    require_numbers("unsafe", fields["unsafe"], len(prices))
    unsafe = {pair for pair, index in number.items() if index in {*fields["unsafe"]}}
    number = {pair: index for pair, index in number.items() if pair not in unsafe}
    rows = [_row(problem, number, unsafe, row, charge) for row in fields["rows"]]
    wrong = find_no_clique(problem, [[*pair] for pair in sorted(unsafe)], charge)
    if wrong is not None:
        raise InvalidCertificateError(f"pairs of the rows that have no price: {wrong}")
    divisor = math.gcd(*prices)
    _require_cost(prices, rows, fields["tree"], (cost - 1) // divisor * divisor, charge)
    if "offsets" in fields:
        require_list("offsets", fields["offsets"])
        plan = Plan.of(problem, fields["offsets"])
        wrong = find_violation(problem, plan, charge)
        if wrong is not None or plan.peak > capacity or reuse_cost(problem, plan.offsets) != cost:
            raise InvalidCertificateError(f"the plan does not meet the cost: {wrong or plan}")
    return Proven(problem, cost, "offsets" in fields, of_cost=True)


def _row(
    problem: Problem,
    number: dict[tuple[int, int], int],
    unsafe: set[tuple[int, int]],
    row: Any,
    charge: Charge,
) -> Row:
    """Return a row; note its pairs without a price, which have to be unsafe."""
    kind = "divisor" if isinstance(row, dict) and "divisor" in row else "tree"
    require_fields("rows.", row, {"sets", kind}, set())
    require_list("sets", row["sets"])
    weights: dict[int, int] = {}
    size: dict[int, int] = {}
    assert problem.capacity is not None
    for tensors in row["sets"]:
        require_numbers("sets", tensors, problem.tensor_count)
        charge(1 + len(tensors) ** 2)
        size = {tensor: int(problem.size[tensor]) for tensor in tensors}
        if len(size) < len(tensors) or not all(size.values()):
            raise InvalidCertificateError(f"sets: different tensors of bytes, found {tensors}")
        for a, b in combinations(sorted(tensors), 2):
            if (a, b) in number:
                weights[number[a, b]] = min(size[a], size[b])
            else:
                unsafe.add((a, b))
    if kind == "tree":
        require_numbers("tree", row["tree"], problem.tensor_count + 1)
        follow(State(problem, row["sets"], problem.capacity, charge), row["tree"])
        return 1, dict.fromkeys(weights, 1)
    by = row["divisor"]
    require_numbers("divisor", [by], MOST)
    total, capacity = sum(size.values()), problem.capacity
    if len(row["sets"]) != 1 or total <= capacity or by == 0:
        raise InvalidCertificateError(
            f"sets: one of more bytes than the capacity, and a divisor above 0, are needed, found "
            f"{len(row['sets'])} of {total} bytes, and {by}"
        )
    q = max(1, total // max(1, capacity))
    common = q * total - capacity * q * (q + 1) // 2
    return -(-common // by), {pair: -(-min(w, common) // by) for pair, w in weights.items()}


def _require_cost(
    prices: list[int], rows: list[Row], tree: list[Any], below: int, charge: Charge
) -> None:
    """Refuse a tree with a leaf that does not prove a cost above a number."""
    path: list[tuple[int, bool]] = []
    # Nodes to come: the decisions above each, and its own.
    waiting: list[tuple[int, list[tuple[int, bool]]]] = [(0, [])]
    for node, entry in enumerate(tree, 1):
        if not waiting:
            raise InvalidCertificateError(f"the tree ends before node {node}")
        depth, decision = waiting.pop()
        path[depth:] = decision
        if type(entry) is int:
            require_numbers(f"tree, node {node}", [entry], len(prices))
            waiting += [(len(path), [(entry, True)]), (len(path), [(entry, False)])]
        elif not _exceeds(prices, rows, dict(path), entry, below, charge):
            given = ", ".join(f"{pair} {'pays' if pays else 'apart'}" for pair, pays in path)
            raise InvalidCertificateError(
                f"node {node}: its rows prove no cost above {below}, with {given or 'nothing'}"
            )
    if waiting:
        raise InvalidCertificateError(f"the tree needs a node after {len(tree)}")


def _exceeds(
    prices: list[int],
    rows: list[Row],
    pays: dict[int, bool],
    leaf: Any,
    below: int,
    charge: Charge,
) -> bool:
    """Return True if a leaf (a divisor of its weights, row, weight, row, ...) proves more."""
    require_numbers("tree", leaf, MOST)
    if len(leaf) % 2 == 0 or leaf[0] == 0:
        refuse("tree", "a divisor above 0, then rows and weights", leaf[:1])
    require_numbers("tree", leaf[1::2], len(rows))
    least, weights = 0, Counter[int]()
    for row, weight in zip(leaf[1::2], leaf[2::2], strict=True):
        charge(1 + len(rows[row][1]))
        least += weight * rows[row][0]
        for pair, share in rows[row][1].items():
            weights[pair] += weight * share
    charge(len(weights) + len(pays))
    for pair in weights.keys() | pays.keys():
        rest: int = leaf[0] * prices[pair] - weights[pair]
        least += rest if pays.get(pair) else min(rest, 0) if pair not in pays else 0
    return bool(least > leaf[0] * below)
