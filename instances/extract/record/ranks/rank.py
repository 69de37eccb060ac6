"""One process of a distributed training, and what a trace of it says about the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from planners.model.problem import Scalar

# GPUs of one host, which `torchrun` counts apart; a usual number.
RANKS_OF_A_HOST = 8


@dataclass(frozen=True)
class Rank:
    """A process of a distributed training, by its number from 0."""

    number: int
    ranks: int
    # The kinds of parallelism that the command adds, each with its number of ranks.
    parallel: Mapping[str, int] = field(default_factory=dict)
    # The number of times their even share of tokens that the experts of this rank get.
    imbalance: float = 1.0
    # The file of messages between ranks that are traced at the same time; None for a rank alone.
    messages: Path | None = None
    # Called with the number of a rank that it talks to.
    begin: Callable[[int], None] = lambda _: None

    @property
    def of_host(self) -> tuple[int, int]:
        """The number of its GPU on its host, and how many GPUs the host has."""
        devices = min(self.ranks, RANKS_OF_A_HOST)
        return self.number % devices, devices

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that ``torchrun`` sets for it."""
        device, devices = self.of_host
        found = {
            "RANK": self.number,
            "WORLD_SIZE": self.ranks,
            "LOCAL_RANK": device,
            "LOCAL_WORLD_SIZE": devices,
            "MASTER_PORT": 0,
        }
        return {"MASTER_ADDR": "localhost", **{name: str(found[name]) for name in found}}


@dataclass(frozen=True)
class GroupFacts:
    """The first rank of each kind, and the sizes of the process groups of one rank."""

    unlike: list[int]
    groups: list[int]

    def fields(self, rank: Rank) -> dict[str, Scalar]:
        """Return them, and the rank that knows them, as fields of a trace's origin."""
        return {
            "rank": rank.number,
            "ranks": rank.ranks,
            "unlike_ranks": " ".join(map(str, self.unlike)),
            "groups": " ".join(map(str, self.groups)),
        }

    @classmethod
    def of(cls, origin: Mapping[str, Scalar]) -> GroupFacts:
        """Return the ranks in a trace's origin; a program of one process has rank 0."""
        unlike, groups = (
            [int(number) for number in str(origin.get(name, "")).split()]
            for name in ("unlike_ranks", "groups")
        )
        return cls(unlike, groups)
