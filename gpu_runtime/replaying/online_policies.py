"""The online allocators that come with the runtime, by name."""

from __future__ import annotations

from gpu_runtime._core import (
    Gmlake,
    GmlakeRules,
    PytorchCaching,
    PytorchExpandable,
    Vpmm,
    VpmmSettings,
)
from gpu_runtime.allocator.pytorch.allocator_settings import Settings
from gpu_runtime.replaying.planned_replay import replay_planned
from gpu_runtime.replaying.policy_replay import replay_policy
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.registry import register_online

PYTORCH = "PyTorch's documentation of its CUDA allocator"


@register_online("pytorch-caching", source=PYTORCH)
def pytorch_caching(
    requests: RequestSequence, terms: OnlineTerms, *, settings: str = ""
) -> OnlineResult:
    """PyTorch's allocator as it is by default: segments of plain memory."""
    made = Settings.from_text(settings).for_core()
    return replay_policy(requests, terms, lambda memory: PytorchCaching(memory, made), "plain")


@register_online("pytorch-expandable", source=PYTORCH)
def pytorch_expandable(
    requests: RequestSequence, terms: OnlineTerms, *, settings: str = ""
) -> OnlineResult:
    """PyTorch's allocator with expandable segments: pages mapped on demand."""
    made = Settings.from_text(settings).for_core()
    return replay_policy(requests, terms, lambda memory: PytorchExpandable(memory, made), "ranges")


@register_online("gmlake", source="GMLake, ASPLOS 2024")
def gmlake(
    requests: RequestSequence, terms: OnlineTerms, *, fragmentation_limit_mib: int = 128
) -> OnlineResult:
    """Stitch free blocks that are apart; below the limit they are neither split nor stitched."""
    rules = GmlakeRules(fragmentation_limit_bytes=fragmentation_limit_mib << 20)
    return replay_policy(requests, terms, lambda memory: Gmlake(memory, rules))


@register_online("vpmm", source="VPMM, a virtual memory pool for training")
def vpmm(requests: RequestSequence, terms: OnlineTerms, *, page_mib: int = 2) -> OnlineResult:
    """Move pages to where a request needs them; the device waits where it must."""
    settings = VpmmSettings(page_bytes=page_mib << 20)
    return replay_policy(requests, terms, lambda memory: Vpmm(memory, settings))


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
