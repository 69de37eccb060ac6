"""Adversarial delays, under which two unsafe tensors that share bytes are seen to collide.

Note: every unsafe pair can be made to collide by holding two nodes.
Rationale: random delays find most collisions soon and some late; a verifier has to show each one.
Approach: tensors ``a``, ``b`` are unsafe when not every user of ``a`` precedes the producer of
``b``, nor the other way round. Where the producer of ``b`` does not precede that of ``a``, some
user ``u`` of ``a`` does not precede it either. Hold the producer of ``b`` until everything that
does not wait for it has run, the producer of ``a`` with it; hold ``u`` for longer. Then ``a`` is
stamped, ``b`` is stamped, and ``u`` checks ``a``. Where ``u`` makes ``a`` itself, it is held
between stamping and checking. Where the producer of ``b`` does precede that of ``a``, swap them.
Limits: holds are of some length of time. On the simulated device that is exact; on a GPU it relies
on the margins in ``trial``; threads do not take it as time (``devices.scheduler`` says how), and so
the two collide whatever else the machine does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram


@dataclass(frozen=True)
class AdversarialDelays:
    """Two nodes that are held; both None if two tensors collide in any order of the program."""

    # Held before it stamps, until every node has run that does not wait for it.
    first: int | None
    # Held for longer.
    last: int | None
    # True if ``last`` is held between stamping and checking.
    within: bool


@dataclass(frozen=True)
class _Life:
    producer: int
    users: tuple[int, ...]


def plan_adversarial_delays(program: StampCheckProgram, a: int, b: int) -> AdversarialDelays | None:
    """Return the delays that make two tensors collide, each of which is stamped once.

    None for a safe pair: no order of the program lets the tensors collide.
    """
    victim, other = _life(program, a), _life(program, b)
    if victim.producer == other.producer:
        return AdversarialDelays(None, None, within=False)
    after_other = program.descendants(other.producer)
    if victim.producer in after_other:
        victim, other = other, victim
    late = [user for user in victim.users if not _precedes(program, user, other.producer)]
    if not late:
        return None
    user = late[-1]
    if user == other.producer:
        return AdversarialDelays(None, None, within=False)
    return AdversarialDelays(other.producer, user, within=user == victim.producer)


class DelayQueue:
    """Pairs of tensors that trials make collide, in turn, until each collision was seen."""

    def __init__(self, program: StampCheckProgram, pairs: Iterable[tuple[int, int]]) -> None:
        self._program = program
        # A single stream has only one order.
        self._pairs = deque(pairs if program.stream_count > 1 else ())

    def __len__(self) -> int:
        return len(self._pairs)

    def next(self, is_seen: Callable[[int, int], bool]) -> AdversarialDelays | None:
        """Return delays for the next pair that was not seen, None if no pair is left.

        The pair goes to the end of the queue.
        """
        for _ in range(len(self._pairs)):
            pair = self._pairs.popleft()
            delays = None if is_seen(*pair) else plan_adversarial_delays(self._program, *pair)
            if delays is not None and delays.first is not None:
                self._pairs.append(pair)
                return delays
        return None


def _life(program: StampCheckProgram, tensor: int) -> _Life:
    stamped = [node for node, made in enumerate(program.stamps) if tensor in made]
    checked = [node for node, read in enumerate(program.checks) if tensor in read]
    return _Life(stamped[0], tuple(checked))


def _precedes(program: StampCheckProgram, first: int, second: int) -> bool:
    return second in program.descendants(first)
