"""Sections 4 and 5.1 of the spatio-temporal paper to the letter, over plain tuples, and slow.

Times are closed here as they are in the paper: a request is alive at `last`, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from planners.homosize.requests import Requests


@dataclass(frozen=True)
class Request:
    """A memory request event: ``(s, t_s, t_e, p_s, p_e)``, with a closed lifetime."""

    s: int
    ts: int
    te: int
    ps: int = 0
    pe: int = 0


@dataclass(frozen=True)
class PlacedRequest:
    """A request and its address."""

    m: Request
    a: int


def clash(one: Request, other: Request) -> bool:
    """Return whether two lifetimes share an instant."""
    return one.ts <= other.te and other.ts <= one.te


def overlap(a: int, s: int, b: int, r: int) -> bool:
    """Return whether two address ranges share a byte."""
    return a < b + r and b < a + s


def groups(requests: list[Request]) -> dict[tuple[int, int], list[Request]]:
    """Return the HomoPhase groups, without requests that stay within a phase."""
    found: dict[tuple[int, int], list[Request]] = {}
    for m in requests:
        if m.ps != m.pe:
            found.setdefault((m.ps, m.pe), []).append(m)
    return found


def pack(members: list[Request]) -> list[PlacedRequest]:
    """Return members end to end, what is freed last at the bottom."""
    decisions = []
    address = 0
    for m in sorted(members, key=lambda m: (-m.te, m.ts)):
        decisions.append(PlacedRequest(m, address))
        address += m.s
    return decisions


def block(plan: list[PlacedRequest]) -> Request:
    """Return the single request that a plan stands for."""
    return Request(
        max(d.a + d.m.s for d in plan), min(d.m.ts for d in plan), max(d.m.te for d in plan)
    )


def product(plan: list[PlacedRequest]) -> Fraction:
    """Equation 1; lifetimes are counted in instants."""
    whole = block(plan)
    used = sum(d.m.s * (d.m.te + 1 - d.m.ts) for d in plan)
    return Fraction(used, whole.s * (whole.te + 1 - whole.ts))


LEFT_OVER = -1


def insert_guests(
    host: list[PlacedRequest], guests: list[Request], *, within: bool = False
) -> list[int]:
    """Return the addresses of guests by the published stepping; guests come by their starts.

    Within the host's bytes some may be left over.
    """
    address: dict[int, int] = {}
    addr = min(d.a for d in host)
    top = max(d.a + d.m.s for d in host)
    while len(address) < len(guests):
        for j, guest in enumerate(guests):
            above = within and addr + guest.s > top
            if (
                j not in address
                and not above
                and not any(clash(d.m, guest) and overlap(d.a, d.m.s, addr, guest.s) for d in host)
            ):
                address[j] = addr
                addr += guest.s
                break
        else:
            if within and addr >= top:
                break
            addr = min([d.a for d in host if d.a > addr], default=top)
    return [address.get(j, LEFT_OVER) for j in range(len(guests))]


def algorithm_1(requests: list[Request]) -> list[int]:
    """Return the layer of each request of one size; requests come by their starts."""
    ends: list[int] = []
    layers = []
    for m in requests:
        before = [layer for layer, end in enumerate(ends) if end < m.ts]
        layer = max(before, key=lambda layer: (ends[layer], -layer), default=len(ends))
        if layer == len(ends):
            ends.append(0)
        ends[layer] = m.te
        layers.append(layer)
    return layers


def plan_globally(
    requests: list[Request], *, largest_first: bool, beside: bool
) -> tuple[list[tuple[int, int]], list[int]]:
    """Return layer and address within it of each request, and the sizes of the layers.

    Requests come by falling size, then by start.
    """
    places: dict[int, tuple[int, int]] = {}
    sizes: list[int] = []
    held: list[list[tuple[int, int, Request]]] = []  # what each layer holds: address, bytes, whose
    for s in sorted({m.s for m in requests}, reverse=True):
        of_size = [j for j, m in enumerate(requests) if m.s == s]
        larger = range(len(sizes)) if largest_first else range(len(sizes) - 1, -1, -1)
        rest = []
        for j in of_size:
            found = next(
                (
                    (layer, a)
                    for layer in larger
                    for a in (range(sizes[layer] - s + 1) if beside else [0])
                    if not any(
                        clash(m, requests[j]) and overlap(b, r, a, s) for b, r, m in held[layer]
                    )
                ),
                None,
            )
            if found is None:
                rest.append(j)
                continue
            layer, a = found
            places[j] = found
            held[layer].append((a, s if beside else sizes[layer], requests[j]))
        first = len(sizes)
        for j, layer in zip(rest, algorithm_1([requests[j] for j in rest]), strict=True):
            if first + layer == len(sizes):
                sizes.append(s)
                held.append([])
            places[j] = (first + layer, 0)
            held[first + layer].append((0, s, requests[j]))
    return [places[j] for j in range(len(requests))], sizes


@st.composite
def requests(draw: st.DrawFn, least: int = 1, most: int = 14) -> list[Request]:
    """Return a strategy for requests whose phases are five instants long."""
    drawn = []
    for _ in range(draw(st.integers(least, most))):
        ts = draw(st.integers(0, 19))
        te = ts + draw(st.integers(0, 9))
        drawn.append(Request(draw(st.integers(1, 7)), ts, te, ts // 5, te // 5))
    return drawn


def columns(requests: Sequence[Request]) -> Requests:
    """Return requests with half-open lifetimes, as the package has them."""

    def column(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    return Requests(
        np.arange(len(requests)),
        column([m.s for m in requests]),
        column([m.ts for m in requests]),
        column([m.te + 1 for m in requests]),
        column([m.ps for m in requests]),
        column([m.pe for m in requests]),
    )
