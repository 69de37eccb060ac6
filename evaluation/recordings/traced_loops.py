"""Training loops whose requests are the same in every step, traced without a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

from instances.extract.eager.recording import record
from instances.extract.eager.trace_settings import TraceSettings
from instances.traces.allocation_trace import AllocationTrace
from planners.command_line.progress_line import show_progress

# Of which the later ones may be planned.
STEPS = 6


@dataclass(frozen=True)
class TracedLoop:
    """A training loop that is traced on fake tensors."""

    model: str
    settings: TraceSettings
    shape: dict[str, int | bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the model."""
        return self.model

    def trace(self) -> AllocationTrace:
        """Return all requests of the loop."""
        return record(self.model, self.settings, "fake", show_progress, **self.shape)


LOOPS = (
    TracedLoop("bert-base", TraceSettings(STEPS), {"batch": 32, "seq": 512}),
    TracedLoop("gpt2-medium", TraceSettings(STEPS, microbatches=4),
               {"batch": 8, "seq": 1024, "checkpointing": True}),
    TracedLoop("resnet-50", TraceSettings(STEPS), {"batch": 128}),
    TracedLoop("mobilenet-v2", TraceSettings(STEPS, optimizer="sgd"), {"batch": 128}),
)  # fmt: skip
