"""Training loops of which every iteration makes the same static requests, and others between."""

from __future__ import annotations

import random
from collections.abc import Sequence

from instances.traces.allocation_trace import AllocationTrace, Phase

KIB = 1 << 10
MIB = 1 << 20


def random_training(
    seed: int,
    *,
    steps: int = 4,
    static: int = 12,
    dynamic: int = 10,
    varies: bool = False,
    streams: Sequence[int] = (0,),
    modules: int = 0,
) -> AllocationTrace:
    """Return a loop of forward and backward passes with some weights before them.

    The static requests of a step come and go in one order, but for a free where it `varies`.
    Dynamic ones are made on any of the streams, and no two have one size, which is never whole KiB.
    With `modules` the static requests belong to so many modules, and of the dynamic ones each to
    one of them or to one of as many experts in it; a request in three ends outside of modules.
    """
    rng = random.Random(seed)
    order = _order(rng, static)
    sizes = [rng.randrange(1, 9) * MIB for _ in range(static)]
    size, stream = [8 * MIB, 20 * MIB, 3 * MIB], [0, 0, 0]
    made_in, freed_in = [-1] * 3, [-1] * 3
    alloc, freed = [0, 1, 2], [-1, 3, -1]
    marks: list[tuple[int, Phase, int]] = []
    now = 4
    for step in range(steps):
        marks.append((now, Phase.FORWARD, step))
        numbers: dict[object, int] = {}
        static_events = 0
        for name in _with_dynamic(rng, order, dynamic, varies=varies):
            if isinstance(name, int) and static_events == static:
                marks.append((now, Phase.BACKWARD, step))
            static_events += isinstance(name, int)
            if name in numbers:
                freed[numbers[name]] = now
            else:
                numbers[name] = len(size)
                is_static = isinstance(name, int)
                size.append(sizes[name] if isinstance(name, int) else _dynamic_size(rng, len(size)))
                stream.append(0 if is_static else rng.choice(streams))
                alloc.append(now)
                freed.append(-1)
                if modules:
                    module = name if isinstance(name, int) else rng.randrange(2 * modules**2)
                    made_in.append(module % (modules if is_static else modules + modules**2))
                    number = name if isinstance(name, int) else len(size)
                    freed_in.append(-1 if number % 3 == 0 else made_in[-1])
            now += 1
    ends = [now if event < 0 else event for event in freed]
    event, phase, iteration = zip(*marks, strict=True)
    names = [f"net.{i}" for i in range(modules)]
    names += [f"net.{i}.{expert}" for i in range(modules) for expert in range(modules)]
    known = {"alloc_module": made_in, "free_module": freed_in, "module_names": names}
    return AllocationTrace(
        now, size, alloc, ends, ends, stream=stream, address=range(1, len(size) + 1),
        mark_event=event, mark_phase=phase, mark_microbatch=[0] * len(marks),
        mark_iteration=iteration, name=f"training {seed}", **(known if modules else {}),
    )  # fmt: skip


def _dynamic_size(rng: random.Random, number: int) -> int:
    return rng.randrange(1, 3) * MIB + number * KIB + KIB // 2


def _order(rng: random.Random, static: int) -> list[int]:
    """Return each request twice: where it is made, then where it is freed."""
    order = [request for request in range(static) for _ in range(2)]
    rng.shuffle(order)
    # In the order in which they are made.
    number: dict[int, int] = {}
    return [number.setdefault(request, len(number)) for request in order]


def _with_dynamic(
    rng: random.Random, order: Sequence[int], dynamic: int, *, varies: bool
) -> list[object]:
    events: list[object] = list(order)
    if varies and len(order) > 1:
        # A free goes to another place behind its request.
        name = rng.choice(order)
        last = max(at for at, other in enumerate(events) if other == name)
        del events[last]
        events.insert(rng.randrange(events.index(name) + 1, len(events) + 1), name)
    for number in range(dynamic):
        name = f"dynamic {number}"
        first = rng.randrange(len(events) + 1)
        events.insert(first, name)
        events.insert(rng.randrange(first + 1, min(len(events), first + 12) + 1), name)
    return events
