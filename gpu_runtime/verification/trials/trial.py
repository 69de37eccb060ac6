"""A trial: the delays of nodes that drive the streams apart.

Delays are in laps. A lap is the time of the whole program on the device without delays.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.verification.trials.adversarial_delays import AdversarialDelays
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.stamp_pattern import trial_key

# Without other delays, all nodes that wait for neither held node end within the first lap. Nodes
# that wait for the first held node begin within a lap after it, so before the second one ends.
# For threads only the order of the two holds counts.
HOLD_FIRST_LAPS = 1.5
HOLD_LAST_LAPS = 3.0
SLOWEST_STREAM_LAPS = 1.0
FASTEST_STREAM_LAPS = 0.01


class Disturbance(enum.Enum):
    """The delays of a trial."""

    NONE = "undisturbed"
    RANDOM = "random"
    DIRECTED = "directed"


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of the whole program."""

    number: int
    # Seed of the choices left open, such as the order of two nodes at the same moment.
    seed: int
    # Key of the patterns.
    key: int
    disturbance: Disturbance
    # float64 laps, one a node: the delay before it stamps, and the delay between stamps and checks.
    before: NDArray[np.float64]
    within: NDArray[np.float64]

    @property
    def is_directed(self) -> bool:
        return self.disturbance is Disturbance.DIRECTED


def make_trial(
    program: StampCheckProgram, number: int, seed: int, adversarial: AdversarialDelays | None = None
) -> Trial:
    """Return a trial: directed if it has adversarial delays, undisturbed if first, else random."""
    if adversarial is not None:
        kind = Disturbance.DIRECTED
        before, within = _held(program, adversarial)
    elif number:
        kind = Disturbance.RANDOM
        before, within = _random_delays(program, np.random.default_rng([seed, number]))
    else:
        kind = Disturbance.NONE
        before, within = _none(program)
    return Trial(number, seed, trial_key(seed, number), kind, before, within)


Delays = tuple[NDArray[np.float64], NDArray[np.float64]]


def _none(program: StampCheckProgram) -> Delays:
    return np.zeros(program.node_count), np.zeros(program.node_count)


def _held(program: StampCheckProgram, adversarial: AdversarialDelays) -> Delays:
    before, within = _none(program)
    if adversarial.first is not None:
        before[adversarial.first] = HOLD_FIRST_LAPS
    if adversarial.last is not None:
        (within if adversarial.within else before)[adversarial.last] = HOLD_LAST_LAPS
    return before, within


def _random_delays(program: StampCheckProgram, rng: np.random.Generator) -> Delays:
    """Return delays that give each stream its own pace and hold a few nodes.

    Each stream is quick or slow as a whole: equal delays everywhere would average out and leave the
    streams as they are.
    """
    before, within = _none(program)
    stream = np.array(program.stream, dtype=np.int64)
    nodes_of_stream = np.bincount(stream, minlength=program.stream_count)
    paces = np.exp(
        rng.uniform(np.log(FASTEST_STREAM_LAPS), np.log(SLOWEST_STREAM_LAPS), program.stream_count)
    )
    paces[rng.random(program.stream_count) < 0.5] = 0.0
    delays = rng.exponential(1.0, program.node_count) * (paces / nodes_of_stream)[stream]
    is_within = rng.random(program.node_count) < 0.5
    before[~is_within] = delays[~is_within]
    within[is_within] = delays[is_within]
    for node in rng.integers(0, program.node_count, 2).tolist() if program.node_count else []:
        (within if rng.random() < 0.5 else before)[node] = rng.uniform(0, HOLD_FIRST_LAPS)
    return before, within
