"""The online allocators that come with the runtime, by name."""

from __future__ import annotations

from typing import Literal

from gpu_runtime.allocator import policy_choice
from gpu_runtime.allocator.policy_choice import FRAGMENTATION_LIMIT_MIB, PAGE_MIB
from gpu_runtime.replaying.planned_replay import replay_planned
from gpu_runtime.replaying.policy_replay import replay_policy
from gpu_runtime.replaying.stweaver_replay import replay_stweaver
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.registry import register_online

PYTORCH = "PyTorch's documentation of its CUDA allocator"


@register_online("pytorch-caching", source=PYTORCH)
def pytorch_caching(
    requests: RequestSequence, terms: OnlineTerms, *, settings: str = ""
) -> OnlineResult:
    """PyTorch's allocator as it is by default: segments of plain memory."""
    make = policy_choice.pytorch_caching(settings=settings)
    return replay_policy(requests, terms, make, "plain")


@register_online("pytorch-expandable", source=PYTORCH)
def pytorch_expandable(
    requests: RequestSequence, terms: OnlineTerms, *, settings: str = ""
) -> OnlineResult:
    """PyTorch's allocator with expandable segments: pages mapped on demand."""
    make = policy_choice.pytorch_expandable(settings=settings)
    return replay_policy(requests, terms, make, "ranges")


@register_online("gmlake", source="GMLake, ASPLOS 2024")
def gmlake(
    requests: RequestSequence,
    terms: OnlineTerms,
    *,
    fragmentation_limit_mib: int = FRAGMENTATION_LIMIT_MIB,
    limits_blocks: bool = False,
) -> OnlineResult:
    """Stitch free blocks that are apart, for requests not below the limit."""
    make = policy_choice.gmlake(
        fragmentation_limit_mib=fragmentation_limit_mib, limits_blocks=limits_blocks
    )
    return replay_policy(requests, terms, make)


@register_online("vpmm", source="VPMM, a virtual memory pool for training")
def vpmm(
    requests: RequestSequence, terms: OnlineTerms, *, page_mib: int = PAGE_MIB
) -> OnlineResult:
    """Move pages to where a request needs them; the device waits where it must."""
    return replay_policy(requests, terms, policy_choice.vpmm(page_mib=page_mib))


@register_online("planned")
def planned(
    requests: RequestSequence,
    terms: OnlineTerms,
    *,
    planner: str = "auto",
    time_limit: float = 3.0,
) -> OnlineResult:
    """Planned memory: iterations as steps, served by plans of the steps before them."""
    return replay_planned(requests, terms, planner, time_limit)


@register_online("stweaver", source="Huang et al. 2026, sections 5.2 and 6")
def stweaver(
    requests: RequestSequence,
    terms: OnlineTerms,
    *,
    planner: str = "homosize",
    time_limit: float = 3.0,
    reuse: Literal["layers", "none"] = "layers",
    static: bool = True,
) -> OnlineResult:
    """Plan a static pool, lend its idle bytes to dynamic requests, and cache the rest."""
    replayed = replay_stweaver(
        requests, terms, planner, time_limit, reuse=reuse == "layers", static=static
    )
    return replayed.result
