"""The settings of an extraction, checked once."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from planners.errors import InstanceError

# The paper measured in MindSpore, which allows 350 nodes on a stream of ordinary kernels on Ascend.
# BERT-base then spreads over 17 streams, and parallel execution costs memory: the heaviest
# antichain exceeds the lifetime bound. From 1,000 nodes a stream on, the two are equal.
DEFAULT_NODES_PER_STREAM = 350

# PyTorch's DistributedDataParallel calls its 25 * 2**20 bytes "25 MB" (bucket_cap_mb).
BYTES_PER_BUCKET_MB = 1 << 20

# Limits every setting in COUNTS, so that sizes of tensors stay below 2**63 bytes. A guess.
LARGEST = 1 << 20

TRAINING = "training"
INFERENCE = "inference"
REPLICATED = "replicated"
SHARDED = "sharded"

# Settings that are whole numbers from 1 on, or none.
COUNTS = ("batch", "seq", "nodes_per_stream", "bucket_mb", "image", "layers", "ranks")


class StreamScheme(enum.Enum):
    """The ways to give streams to nodes.

    ``CATEGORY`` is the paper's way: a stream holds nodes of one category. A full stream is followed
    by a new one, which waits for it only at data. Under ``SUCCESSION`` the new stream begins when
    the full one has ended. ``ROLES`` is common among users of PyTorch today: one stream for
    kernels, one for collectives, one for copies between host and device.
    """

    CATEGORY = "category"
    SUCCESSION = "succession"
    ROLES = "roles"


# Settings that are one of a few words.
WORDS = {
    "mode": (TRAINING, INFERENCE),
    "precision": ("float32", "bfloat16"),
    "streams": tuple(scheme.value for scheme in StreamScheme),
    "parallel": (REPLICATED, SHARDED),
}

# The argument of `lora` that is not peft's: the bits of the model's own weights.
LORA_BITS = "bits"

# Settings that matter in training only.
TRAINING_SETTINGS = (
    "optimizer", "clip_norm", "bucket_mb", "checkpointing", "selective", "parallel", "lora",
)  # fmt: skip

# A command line omits these settings if they equal the defaults of the model, because the
# committed instances are older than the settings.
QUIET_SETTINGS = ("layers", "mode", "checkpointing", "precision", "streams", "parallel", "ranks")


@dataclass(frozen=True)
class StepSettings:
    """The settings of the extraction of a step."""

    # Sequences or images in the batch.
    batch: int = 32
    # Tokens in a sequence; none for a model of images.
    seq: int | None = 128
    optimizer: str = "adamw"
    # Largest global norm of the gradients; 0 leaves clipping out.
    clip_norm: float = 1.0
    # Nodes after which a stream is full and the next one is opened; 350 by default, the limit of
    # the framework in which the paper measured.
    nodes_per_stream: int = DEFAULT_NODES_PER_STREAM
    # Capacity of an all-reduce bucket in units of 2**20 bytes.
    bucket_mb: int = 25
    # Height and width of an image in pixels; none for a model of sequences.
    image: int | None = None
    # Layers of the model; none where their number is fixed.
    layers: int | None = None
    # ``"training"``, the whole step, or ``"inference"``, the forward pass alone.
    mode: str = TRAINING
    # True if the backward pass recomputes each layer instead of keeping its activations.
    checkpointing: bool = False
    # True if recomputation keeps what matrix products and attention return.
    selective: bool | None = None
    # Dtype of parameters and activations, ``"float32"`` or ``"bfloat16"``.
    precision: str = "float32"
    # One of :class:`StreamScheme`.
    streams: str = StreamScheme.CATEGORY.value
    # ``"replicated"``, every rank keeps all parameters, or ``"sharded"``, a part of each.
    parallel: str = REPLICATED
    # Number of ranks. Shards, and the experts of a mixture, are divided among them.
    ranks: int = 8
    # Arguments of ``peft.LoraConfig``, ``"r=16"`` say, for weights that are trained beside frozen
    # ones, which ``"r=16,bits=4"`` packs; None if all weights are trained.
    lora: str | None = None

    def __post_init__(self) -> None:
        for name in COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InstanceError(f"setting {name}: at least 1, found {value}")
            if value is not None and value > LARGEST:
                raise InstanceError(f"setting {name}: at most {LARGEST}, found {value}")
        if not (math.isfinite(self.clip_norm) and self.clip_norm >= 0):
            raise InstanceError(
                f"setting clip_norm: a finite number, 0 for no clipping, found {self.clip_norm}"
            )
        for name, allowed in WORDS.items():
            value = getattr(self, name)
            if value not in allowed:
                raise InstanceError(f"setting {name}: {' or '.join(allowed)}, found {value!r}")
        if self.selective and not self.checkpointing:
            raise InstanceError("setting selective: checkpointing is needed, found it left out")
        if self.checkpointing and not self.training:
            raise InstanceError(
                "setting checkpointing: an inference graph has no backward pass that could "
                "recompute; leave it out"
            )

    @property
    def training(self) -> bool:
        """Return True if the whole training step is extracted."""
        return self.mode == TRAINING

    @property
    def stream_scheme(self) -> StreamScheme:
        """The scheme that gives nodes their streams."""
        return StreamScheme(self.streams)

    @property
    def sharded(self) -> bool:
        """Return True if a rank keeps shards of parameters, gradients and optimizer state."""
        return self.training and self.parallel == SHARDED

    @property
    def bucket_bytes(self) -> int:
        """Capacity of an all-reduce bucket in bytes."""
        return self.bucket_mb * BYTES_PER_BUCKET_MB

    def command_line(self, defaults: StepSettings) -> str:
        """Return the settings that have a value and matter in this mode, as options.

        Settings in `QUIET_SETTINGS` are left out if they equal `defaults`.
        """
        options = []
        for field in fields(self):
            value = getattr(self, field.name)
            unchanged = value == getattr(defaults, field.name)
            if value is None or (field.name in QUIET_SETTINGS and unchanged):
                continue
            if not self.training and field.name in TRAINING_SETTINGS:
                continue
            options.append(command_option(field.name, value))
        return " ".join(options)


def command_option(name: str, value: object) -> str:
    """Return a setting as an option of the command line."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {value:g}" if isinstance(value, float) else f"--{flag} {value}"


def read_options(words: Sequence[str]) -> dict[str, Any]:
    """Return the settings that options of a command line give, written as `command_option` does."""
    types = get_type_hints(StepSettings)
    named = {f"--{name.replace('_', '-')}": name for name in types}
    found: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        name = named.get(word) or named.get(word.replace("--no-", "--", 1))
        if name is None:
            raise InstanceError(f"option {word}: one of {', '.join(named)} is needed")
        kinds = (types[name], *get_args(types[name]))
        if bool in kinds:
            found[name] = word in named
            continue
        value = next(rest, "")
        try:
            found[name] = next(kind for kind in (int, float, str) if kind in kinds)(value)
        except ValueError:
            raise InstanceError(f"option {word}: a number is needed, found {value!r}") from None
    return found
