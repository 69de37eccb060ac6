"""A training step in requests: layers, a length, shards."""

from __future__ import annotations

from tests.gpu_runtime.allocator.synthetic_training import Life, Program, Request, rounded

LAYERS = 6
GATHER, REDUCE = 7, 1 << 40


def training_step(length: int, *, streams: bool = False) -> Program:
    """Return a forward and a backward pass: activations live from one to the other.

    Sizes are affine in the length but for the scores of attention. With streams, weights are
    gathered and gradients are reduced beside the work.
    """
    frees: dict[int, list[int]] = {}
    made: list[Request] = []

    def make(size: int, stream: int = 0) -> int:
        made.append(Request(size, stream, Life.WITHIN, -1))
        return len(made) - 1

    def free(*indices: int) -> None:
        frees.setdefault(len(made), []).extend(indices)

    batch = make(8 * length)
    saved: list[list[int]] = []
    for _ in range(LAYERS):
        weights = [make(90_000, GATHER)] if streams else []
        activations = [make(128 * length + 512), make(32 * length), make(length * length // 8 + 64)]
        passing = make(64 * length)
        free(passing, *weights)
        saved.append(activations)
    logits = make(256 * length)
    free(logits)
    for activations in reversed(saved):
        weights = [make(90_000, GATHER)] if streams else []
        gradient = make(128 * length + 512)
        reduced = [make(45_000, REDUCE)] if streams else []
        free(gradient, *activations, *weights, *reduced)
    free(batch)
    ends = {index: time for time, indices in frees.items() for index in indices}
    return [Request(r.size, r.stream, r.life, ends[index]) for index, r in enumerate(made)]


def most_live(program: Program) -> int:
    """Return the most bytes in use at once, in whole blocks, where nothing outlives its step."""
    live, peak = 0, 0
    for time in range(len(program)):
        live += rounded(program[time].size)
        live -= sum(rounded(r.size) for r in program[:time] if r.end == time)
        peak = max(peak, live)
    return peak
