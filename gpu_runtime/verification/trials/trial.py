"""A trial: which nodes are delayed, and by how much, to drive the streams apart.

Delays are in laps: the time that the whole program takes on the device when nothing is delayed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.verification.trials.adversarial_delays import AdversarialDelays
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.stamp_pattern import trial_key

# With nothing else delayed, all that waits for neither of two held nodes ends within the first
# lap. What waits for the first alone begins within the next one after it, so before the second.
# Of threads only the order of the two counts.
HOLD_FIRST_LAPS = 1.5
HOLD_LAST_LAPS = 3.0
SLOWEST_STREAM_LAPS = 1.0
FASTEST_STREAM_LAPS = 0.01


class Disturbance(enum.Enum):
    """How a trial treats the streams."""

    NONE = "undisturbed"
    RANDOM = "random"
    DIRECTED = "directed"


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of the whole program."""

    number: int
    # Of what is left open, such as which of two nodes goes first at the same moment.
    seed: int
    # Under which the patterns are written.
    key: int
    disturbance: Disturbance
    # float64 laps, one a node: a delay before it stamps, and one between stamping and checking.
    before: NDArray[np.float64]
    within: NDArray[np.float64]

    @property
    def is_directed(self) -> bool:
        """Whether its delays are adversarial."""
        return self.disturbance is Disturbance.DIRECTED


def make_trial(
    program: StampCheckProgram, number: int, seed: int, adversarial: AdversarialDelays | None = None
) -> Trial:
    """Return a trial: directed under adversarial delays, else undisturbed if first, else random."""
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
    """Return delays under which streams run at paces of their own and a few nodes stand still.

    Each stream is quick or slow as a whole, for delays that are alike everywhere average out and
    leave the streams where they would be anyway.
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
