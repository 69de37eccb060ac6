"""The choices that the paper leaves open, so that every reading can be measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planners.registry import UnsupportedProblemError


@dataclass(frozen=True)
class PaperVariant:
    """One reading of sections 4 and 5.1; the defaults are the readings that measured best."""

    # True if requests are grouped by phases.
    phases: bool = True
    # True if adjacent groups are fused.
    fusion: bool = True
    # The treatment of requests that are freed in the phase that allocated them: ``single`` leaves
    # each to the layers, ``group`` forms HomoPhase groups of them as of all others.
    transients: Literal["single", "group"] = "single"
    # The local plan of a group: ``stacked`` end to end, as the text has it, or ``reused``, first
    # fit in the same order.
    packing: Literal["stacked", "reused"] = "stacked"
    # The order of the members in a local plan: latest ``end`` first, earliest ``start`` first, or
    # largest ``size`` first.
    order: Literal["end", "start", "size"] = "end"
    # The partner for a fusion among several adjacent groups: the ``first`` in time that is
    # accepted, or the ``best``, which saves the most.
    partner: Literal["first", "best"] = "first"
    # True if a fused plan may be fused again.
    again: bool = True
    # The place of guests that do not fit within the host's bytes: on ``top`` of the host, or in a
    # ``group`` of their own.
    leftover: Literal["top", "group"] = "top"
    # The number that a fusion has to raise: the weighted ``average`` of the products, or the
    # ``product`` of both, in which the product of a single plan counts twice.
    acceptance: Literal["average", "product"] = "average"
    # The weights of the average that a fused product has to exceed: the ``reserved`` byte-steps of
    # the two plans, their ``bytes``, or their number of ``requests``.
    weight: Literal["reserved", "bytes", "requests"] = "reserved"
    # Groups with a smaller product are dissolved before any fusion: each of their members goes to
    # the layers on its own.
    least_product: float = 0.0
    # True if a plan of layers alone is made too; the plan with the smaller peak is the answer.
    layers_too: bool = False
    # The layers in which a smaller request looks for idle time first: the ``largest`` or the
    # ``smallest``.
    layer: Literal["largest", "smallest"] = "largest"
    # True if several smaller requests may lie side by side in idle time of a layer.
    beside: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.least_product <= 1:
            raise UnsupportedProblemError(
                f"least_product: a share from 0 to 1 is needed, found {self.least_product}"
            )
