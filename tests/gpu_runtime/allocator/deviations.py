"""Steps that run unlike the one that was planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.gpu_runtime.allocator.synthetic_training import (
    STREAMS,
    Life,
    Program,
    Request,
    random_program,
)

UNKNOWN_STREAM = 99


def extra(rng: Random, program: Program) -> Program:
    """Requests that the plan does not have."""
    for request in random_program(rng, rng.randint(1, 4), len(STREAMS), kept=0.1):
        at = rng.randint(0, len(program))
        # A size that the plan has, or another.
        size = rng.choice(program).size if program and rng.random() < 0.6 else request.size
        program = [*program[:at], replace(request, size=size), *program[at:]]
    return program


def missing(rng: Random, program: Program) -> Program:
    """A run of requests is left out."""
    begin = rng.randint(0, len(program))
    return program[:begin] + program[begin + rng.choice([1, 1, 2, 3, 8, 30]) :]


def other_sizes(rng: Random, program: Program) -> Program:
    """A batch of another size: some or all requests grow or shrink."""
    factor, share = rng.uniform(0.3, 2.0), rng.choice([0.02, 0.3, 1.0])
    return [
        replace(r, size=max(1, int(r.size * factor))) if rng.random() < share else r
        for r in program
    ]


def held(rng: Random, program: Program) -> Program:
    """Blocks are in use for longer, beyond the step too, and for good."""
    share = rng.choice([0.02, 0.2, 0.9])
    return [_longer(rng, r, len(program)) if rng.random() < share else r for r in program]


def _longer(rng: Random, request: Request, requests: int) -> Request:
    life = rng.choice([Life.WITHIN, Life.BETWEEN, Life.NEXT, Life.NEXT, Life.KEPT])
    first = request.end if life is request.life else 0
    return replace(request, life=life, end=rng.randint(first, max(first, requests)))


def early(rng: Random, program: Program) -> Program:
    """Blocks are freed earlier, so in another order as well."""
    return [
        replace(r, life=Life.WITHIN, end=rng.randint(0, len(program)))
        if rng.random() < 0.5
        else replace(r, end=rng.randint(0, r.end))
        for r in program
    ]


def other_stream(rng: Random, program: Program) -> Program:
    """Requests come on another stream, one that the plan has or not."""
    stream = rng.choice([*STREAMS, UNKNOWN_STREAM])
    share = rng.choice([0.05, 0.5, 1.0])
    return [replace(r, stream=stream) if rng.random() < share else r for r in program]


DEVIATIONS: tuple[Callable[[Random, Program], Program], ...] = (
    extra,
    missing,
    other_sizes,
    held,
    early,
    other_stream,
)


def random_deviation(rng: Random, program: Program) -> Program:
    """Return a program with one deviation, or with several."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        program = rng.choice(DEVIATIONS)(rng, program)
    return program
