"""The batch that a class of transformers is trained with, by its task.

Note: from a class to a batch
-----------------------------
Rationale. A class says which arguments it takes, and not of which shapes. A loss may accept labels
of a wrong shape, and a model may do without its images, so a wrong batch can give an answer.

Approach. transformers lists the classes of each task. A table says for a task which arguments a
batch has; their sizes are settings, or follow from fields of the configuration. A class is
refused if it has no task of the table, if it needs an argument that the batch does not have, or if
its loss takes other labels. The answer to a trace names the batch.

Limits. A configuration does not say how long a recording is or how many objects an image has. A
language model that also reads images or recordings gets text alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError
from planners.files.json_file import refuse

# Sizes where nobody says them; guesses. A recording is one of 10 s: 16,000 samples or 50 frames a
# second.
SEQ = 2048
IMAGE = 224
SAMPLES = 160_000
FRAMES = 500
CHOICES = 4
OBJECTS = 10


@dataclass(frozen=True)
class Numbers:
    """An argument that is a tensor: the sizes behind those of the batch, or words for them."""

    sizes: tuple[Any, ...]
    # None is the dtype of the weights.
    dtype: str | None = None


def _whole(*sizes: Any) -> Numbers:
    return Numbers(sizes, "int64")


def _real(*sizes: Any) -> Numbers:
    return Numbers(sizes)


def parts_of(config: Any) -> Iterator[Any]:
    """Yield a configuration and those of its parts."""
    from transformers import PreTrainedConfig

    yield config
    for part in vars(config).values():
        if isinstance(part, PreTrainedConfig):
            yield from parts_of(part)


def field_of(config: Any, name: str, default: Any = None) -> Any:
    """Return the value in the first part of a configuration that has one."""
    values = (getattr(part, name, None) for part in parts_of(config))
    return next((value for value in values if value is not None), default)


def _class(config: Any) -> Numbers:
    """Return a class, several classes, or numbers to approach, by the rule of transformers."""
    count, kind = config.num_labels, getattr(config, "problem_type", None)
    if kind is None:
        kind = "regression" if count == 1 else "single_label_classification"
    if kind == "single_label_classification":
        return _whole()
    return _real() if kind == "regression" and count == 1 else _real(count)


def _recording(config: Any) -> Numbers:
    bins, positions = field_of(config, "num_mel_bins"), field_of(config, "max_source_positions")
    if bins and positions:
        return _real(bins, 2 * positions)  # the encoder halves the frames
    if bins and (frames := field_of(config, "max_length")):
        return _real(frames, bins)
    if features := field_of(config, "feature_projection_input_dim"):
        return _real("frames", features)
    if field_of(config, "conv_stride"):
        return _real("samples")
    raise InstanceError(
        "field model_type: a model whose configuration says the shape of a recording is needed, "
        "such as whisper or wav2vec2; for another one write a function"
    )


SIDES = ("height", "width")
TEXT = {"input_ids": _whole("seq")}
IMAGES = {"pixel_values": _real("channels", *SIDES)}
# Tokens of a page, where each stands, and a picture of the page.
BOXED = TEXT | {"bbox": _whole("seq", 4)}
PAGES = (BOXED | IMAGES, BOXED, TEXT)
RECORDINGS = ({"input_values": _recording}, {"input_features": _recording})
CLASS = {"labels": _class}
SPAN = {"start_positions": _whole(), "end_positions": _whole()}
OWN_TOKENS = {"labels": _whole("seq")}
# Labels are the tensor that is given as another argument.
READ_TOKENS = {"labels": "input_ids"}

# By the names of transformers.models.auto.modeling_auto: the task, alternatives of its inputs, and
# the labels. A function makes an argument of the configuration; a list has an entry an image.
TASKS: tuple[tuple[str, tuple[Mapping[str, Any], ...], Mapping[str, Any]], ...] = (
    ("CTC", RECORDINGS, {"labels": _whole("steps")}),
    ("SPEECH_SEQ_2_SEQ", RECORDINGS, OWN_TOKENS),
    ("AUDIO_CLASSIFICATION", RECORDINGS, CLASS),
    ("AUDIO_XVECTOR", RECORDINGS, CLASS),
    ("QUESTION_ANSWERING", PAGES, SPAN),
    ("DOCUMENT_QUESTION_ANSWERING", PAGES, SPAN),
    ("MULTIPLE_CHOICE", ({"input_ids": _whole(CHOICES, "seq")},), {"labels": _whole()}),
    ("NEXT_SENTENCE_PREDICTION", (TEXT,), {"labels": _whole()}),
    ("SEQUENCE_CLASSIFICATION", PAGES, CLASS),
    ("TOKEN_CLASSIFICATION", PAGES, OWN_TOKENS),
    ("IMAGE_CLASSIFICATION", (IMAGES,), CLASS),
    (
        "VIDEO_CLASSIFICATION",
        ({"pixel_values": _real("num_frames", "channels", *SIDES)},),
        CLASS,
    ),
    ("SEMANTIC_SEGMENTATION", (IMAGES,), {"labels": _whole(*SIDES)}),
    ("DEPTH_ESTIMATION", (IMAGES,), {"labels": _real(*SIDES)}),
    (
        "UNIVERSAL_SEGMENTATION",
        (IMAGES,),
        {"mask_labels": [_real(*SIDES)], "class_labels": [_whole()]},
    ),
    ("OBJECT_DETECTION", (IMAGES,), {"labels": [{"class_labels": _whole(), "boxes": _real(4)}]}),
    ("MASKED_IMAGE_MODELING", (IMAGES,), {"bool_masked_pos": Numbers(("patches",), "bool")}),
    ("ZERO_SHOT_IMAGE_CLASSIFICATION", (TEXT | IMAGES,), {"return_loss": True}),
    ("SEQ_TO_SEQ_CAUSAL_LM", (TEXT,), OWN_TOKENS),
    ("CAUSAL_LM", (TEXT,), READ_TOKENS),
    ("MASKED_LM", (TEXT,), READ_TOKENS),
    ("MULTIMODAL_LM", (TEXT,), READ_TOKENS),
    ("IMAGE_TEXT_TO_TEXT", (IMAGES,), OWN_TOKENS),
    ("PRETRAINING", (TEXT,), READ_TOKENS | {"next_sentence_label": _whole()}),
    ("PRETRAINING", (TEXT,), READ_TOKENS | {"sentence_order_label": _whole()}),
    ("PRETRAINING", (TEXT,), OWN_TOKENS),
    ("PRETRAINING", (IMAGES,), {}),
)


@dataclass(frozen=True)
class BatchForm:
    """The arguments of a batch, and the settings that they take."""

    arguments: Mapping[str, Any]
    config: Any

    @property
    def words(self) -> set[str]:
        """The words for sizes."""
        sizes = [one.sizes for one in self.arguments.values() if isinstance(one, Numbers)]
        return {size for one in sizes for size in one if isinstance(size, str)}

    def default_seq(self, positions: int) -> int | None:
        """Return tokens of a sequence, or samples or frames of a recording."""
        lengths = {"seq": min(SEQ, positions), "samples": SAMPLES, "frames": FRAMES}
        found = [length for word, length in lengths.items() if word in self.words]
        if len(found) > 1:
            raise InstanceError(
                "field architectures: a model is needed whose recordings have one length or whose "
                "labels have none, such as WhisperForConditionalGeneration; for another one write "
                "a function"
            )
        return found[0] if found else None

    def default_image(self) -> int | None:
        """Return the pixels of a square image; None of other images."""
        if not set(SIDES) & self.words:
            return None
        height, width = self._sides
        return height if height == width else None

    @property
    def _sides(self) -> tuple[int, int]:
        side = field_of(self.config, "image_size", IMAGE)
        sides = tuple(side) if isinstance(side, (list, tuple)) else (side, side)
        if [type(one) for one in sides] != [int, int]:
            refuse("image_size", "a number of pixels, or height and width", side)
        return sides

    def batch(self, settings: StepSettings) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        for name, argument in self.arguments.items():
            batch[name] = self._made(argument, settings.batch, settings, batch)
        return batch

    def _made(self, argument: Any, rows: int, settings: StepSettings, batch: Any) -> Any:
        import torch

        if isinstance(argument, Numbers):
            sizes = [self._size(size, settings) for size in argument.sizes]
            dtype = None if argument.dtype is None else getattr(torch, argument.dtype)
            return torch.zeros(rows, *sizes, dtype=dtype)
        if isinstance(argument, list):
            return [self._made(argument[0], OBJECTS, settings, batch) for _ in range(rows)]
        if isinstance(argument, dict):
            return {name: self._made(one, rows, settings, batch) for name, one in argument.items()}
        return batch[argument] if isinstance(argument, str) else argument

    def _size(self, size: Any, settings: StepSettings) -> Any:
        seq, of_config = settings.seq or 1, partial(field_of, self.config)
        match size:
            case "seq" | "samples" | "frames":
                return seq
            case "steps":
                # The longest transcript that can be aligned has a label for each of these.
                return max(seq // prod(of_config("conv_stride", ())), 1)
            case "height":
                return settings.image or self._sides[0]
            case "width":
                return settings.image or self._sides[1]
            case "patches":
                sides = (self._size(side, settings) for side in SIDES)
                return prod(side // of_config("patch_size", 1) for side in sides)
            case "channels":
                return of_config("num_channels", 3)
            case "num_frames":
                return of_config(size)
        return size


def batch_form(network: Any, config: Any, *, training: bool) -> BatchForm:
    """Return the form of the batch of a class of transformers, for training or inference."""
    inputs, labels = _task_of(network)
    if not training:
        # In training a model makes the decoder's tokens of the labels.
        is_decoder = "decoder_input_ids" in inspect.signature(network.forward).parameters
        labels = {"decoder_input_ids": _whole("seq")} if is_decoder else {}
    given = {**inputs, **labels}
    return BatchForm(
        {name: one(config) if callable(one) else one for name, one in given.items()}, config
    )


def _task_of(network: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return inputs and labels of the first task of a class whose batch the class takes."""
    from transformers.models.auto import modeling_auto

    for task, alternatives, labels in TASKS:
        classes = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES", {}).values()
        if any(network.__name__ in ((one,) if isinstance(one, str) else one) for one in classes):
            for inputs in alternatives:
                if _takes(network, inputs, labels):
                    return inputs, labels
    raise InstanceError(
        f"field architectures: a class whose batch is known is needed, such as LlamaForCausalLM, "
        f"ViTForImageClassification or CLIPModel, found {network.__name__}; for another one write "
        f"a function"
    )


def left_out(network: Any) -> list[str]:
    """Return the images and recordings that a class takes and its batch does not have."""
    inputs, _ = _task_of(network)
    seen = ("pixel_values", "input_features", "input_values")
    takes = inspect.signature(network.forward).parameters
    return [name for name in takes if name.startswith(seen) and name not in inputs]


def _takes(network: Any, inputs: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return True if a class takes all of a batch, and needs no more."""
    takes = dict(inspect.signature(network.forward).parameters)
    del takes["self"]
    main = network.main_input_name
    needed = {
        *([main] if isinstance(main, str) else main),
        *(
            name
            for name, one in takes.items()
            if (one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD)
            or name == "input_ids"
            or "label" in name
        ),
    }
    given = {*inputs, *labels}
    return needed <= given <= takes.keys()


def describe_batch(batch: Any) -> str:
    """Return the names and the shapes in a batch."""
    if isinstance(batch, dict):
        return ", ".join(f"{name} {describe_batch(value)}" for name, value in batch.items())
    if isinstance(batch, list):
        return f"{len(batch)} of ({describe_batch(batch[0])})"
    return " x ".join(map(str, batch.shape)) if hasattr(batch, "shape") else str(batch)
