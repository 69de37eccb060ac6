"""Configuration files of trainers, as the request that a model's own options make.

Note: one request from several files
------------------------------------
Rationale. What a training needs is spread over files that people have: a YAML of axolotl, of
LLaMA-Factory or of the arguments of a Trainer of transformers, peft's ``adapter_config.json``,
accelerate's YAML, and DeepSpeed's JSON. Each names a model, or says how it is trained.

Approach. A table gives the setting that a key stands for, and another one the keys that ask for no
memory. Files are read in order, the later one wins, and a file that is named by one is read as
well. The precision and the parallelism follow from all of them together, as each trainer takes
them. Each key of a value that is in none of the tables is a line of the answer.

Limits. The defaults are those of axolotl 0.12, LLaMA-Factory 0.9 and transformers 5. A batch is as
long as the file allows. Weights in 8 bits count in 16, and so do weights in 4 without LoRA.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

from gpu_runtime.fitting.eight_bit_states import FLOAT32_BYTES
from gpu_runtime.fitting.sharded_states import HALF_BYTES, StateLayout
from instances.extract.record.trace_settings import AUTOCAST_BFLOAT16, AUTOCAST_BFLOAT16_WEIGHTS
from instances.extract.step_settings import LORA_BITS
from planners.errors import InstanceError, MissingDependencyError, errors_at
from planners.files.bounded_file import read_bounded
from planners.files.json_file import parse_json
from planners.text.plain_text import shown

YAMLS = (".yaml", ".yml")
MOST_BYTES = 1 << 20
# The fields by which a JSON file is one of a trainer, and not of a model.
MARKS = ("peft_type", "zero_optimization", "distributed_type", "base_model", "model_name_or_path")
MODELS = ("base_model", "model_name_or_path", "base_model_name_or_path")
RANKS, LINEAR = "ranks", "all-linear"
_KEYS: Any = tomllib.loads((Path(__file__).parent / "trainer_keys.toml").read_text("utf-8"))
KNOWN = _KEYS["known"]
HALVES = (*KNOWN["halves"], *KNOWN["half_weights"])
# Elements of a bucket by DeepSpeed's default.
BUCKET_ELEMENTS = 500_000_000
STATES_OF = {"adamw": 2, "sgd": 1}
SUPERVISED = ("sft", "pt")
IN_HALF = ("auto", "true", "bf16", "fp16", "bfloat16", "float16")


@dataclass
class TrainerRequest:
    """The settings that files of trainers give, under the names of the command line's options."""

    # A file of a model's configuration.
    model: str | None = None
    # Settings of the model and of the loop, by the names of the options.
    settings: dict[str, Any] = field(default_factory=dict)
    ranks: int = 1
    parallel: str | None = None
    layout: StateLayout | None = None
    notes: list[str] = field(default_factory=list)


def is_trainer_file(name: str) -> bool:
    """Return True of a YAML, and of a JSON file that has a field of a trainer."""
    if name.endswith(YAMLS):
        return True
    if not name.endswith(".json") or not Path(name).is_file():
        return False
    try:
        fields = _fields_of(Path(name))
    except InstanceError:  # its reader says what is wrong
        return False
    return isinstance(fields, Mapping) and any(mark in fields for mark in MARKS)


def read_request(names: Sequence[str], ranks: int = 1) -> TrainerRequest:
    """Return the request of the files of trainers and of the model's configuration among them.

    A number of ranks above 1 wins over theirs.
    """
    files = [name for name in names if is_trainer_file(name)]
    models = [name for name in names if name not in files]
    if len(models) > 1:
        raise InstanceError(f"one model is needed, and files of trainers; found {models}")
    reading = _Reading(Path(files[0]))
    for name in files:
        with errors_at(name):
            reading.read(Path(name), _mapping(_fields_of(Path(name))))
    request = reading.request
    request.model = models[0] if models else reading.find_model()
    request.ranks = ranks if ranks > 1 else request.settings.get(RANKS, 1)
    reading.decide(_hidden_size(request.model))
    return request


def _fields_of(path: Path) -> Any:
    text = read_bounded(path, MOST_BYTES)
    if not path.name.endswith(YAMLS):
        return parse_json(text)
    try:
        yaml: Any = import_module("yaml")
    except ImportError as error:
        raise MissingDependencyError(f"a YAML file needs PyYAML ({error})", "torch") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        said = " ".join(str(error).split())
        raise InstanceError(f"{path}: a file of YAML is needed; {said}") from None


def _mapping(fields: Any) -> Mapping[str, Any]:
    if not isinstance(fields, Mapping):
        raise InstanceError(f"a mapping of keys is needed, found {shown(fields)}")
    return fields


def _hidden_size(model: str | None) -> int | None:
    if model is None or not model.endswith(".json"):
        return None
    found = _mapping(_fields_of(Path(model))).get("hidden_size")
    return found if isinstance(found, int) else None


class _Reading:
    """The keys of several files, as they were read, and the request that they make."""

    def __init__(self, first: Path) -> None:
        self.folder = first.parent
        self.request = TrainerRequest()
        self.keys: set[str] = set()
        self.given: dict[str, Any] = {}
        self.lora: dict[str, Any] = {}

    def read(self, path: Path, fields: Mapping[str, Any]) -> None:
        self.keys.update(map(str, fields))
        for key, value in fields.items():
            if value in (None, False, "", "no", "auto", [], {}) and key not in HALVES:
                continue
            if key in _KEYS["settings"]:
                self.request.settings[_KEYS["settings"][key]] = _count(key, value)
            elif key in HALVES or key in KNOWN["deciding"]:
                self.given[key] = value
            elif key in _KEYS["lora"]:
                self.lora[_KEYS["lora"][key]] = value
            elif not any(fnmatch(str(key), one) for one in KNOWN["without_memory"]):
                self.request.notes.append(f"{path.name}, {key}: not understood, and left out")
        for key in ("deepspeed", "deepspeed_config"):
            found = fields.get(key)
            file = found.get("deepspeed_config_file") if isinstance(found, Mapping) else found
            if isinstance(file, str):
                named = path.parent / file if (path.parent / file).is_file() else Path(file)
                if not named.is_file() or named == path:
                    raise InstanceError(f"{key}: a file is needed, found {shown(file)}")
                self.read(named, _mapping(_fields_of(named)))
            elif isinstance(found, Mapping) and "zero_optimization" in found:
                self.read(path, found)
            elif isinstance(found, Mapping) and "zero_stage" in found:  # accelerate's words
                devices = {
                    f"offload_{name}": {"device": found.get(f"offload_{name}_device", "none")}
                    for name in ("optimizer", "param")
                }
                self.given["zero_optimization"] = {"stage": found["zero_stage"], **devices}

    def find_model(self) -> str:
        """Return the configuration of the model that the files name, which is on this machine."""
        name = next((str(self.given[key]) for key in MODELS if key in self.given), None)
        if name is None:
            raise InstanceError(
                f"a model is needed, by one of {', '.join(MODELS)}, or by its config.json beside "
                f"the files on the command line; found none"
            )
        places: list[Path | None] = [self.folder / name, Path(name)]
        places += [self.folder / name / "config.json", Path(name) / "config.json", _cached(name)]
        places.append(self.folder / "config.json")
        for place in places:
            if place is not None and place.is_file() and place.suffix == ".json":
                return str(place)
        raise InstanceError(
            f"model {name}: its config.json is needed, on the command line, in the cache of the "
            f"hub or as {self.folder / 'config.json'}; found none, and nothing is downloaded"
        )

    def decide(self, hidden: int | None) -> None:
        """Take what follows from several keys, as the trainer of the first file does."""
        given, settings, notes = self.given, self.request.settings, self.request.notes
        of_axolotl = "base_model" in given
        is_factory = not self.keys.isdisjoint(KNOWN["factory"])
        if of_axolotl or "model_name_or_path" in given:
            settings.setdefault("batch", 1 if of_axolotl else 8)
            settings.setdefault("seq", 512 if of_axolotl else 2048 if is_factory else 1024)
        method = str(given.get("adapter") or given.get("finetuning_type") or given.get("peft_type"))
        tunes = {"none": given.get("use_peft", is_factory), "full": False, "freeze": False}
        is_lora = bool(tunes.get(method.lower(), True))
        if method.lower() not in ("none", "full", "lora", "qlora"):
            notes.append(f"method {method}: not understood, counted as LoRA")
        if is_lora:
            settings["lora"] = self._lora_words(is_factory)
        checkpointed = given.get("gradient_checkpointing", is_factory)
        is_off = "disable_gradient_checkpointing" in given
        settings["checkpointing"] = bool(checkpointed) and not is_off
        zero = given.get("zero_optimization") or {}
        if any(key in given for key in (*HALVES, *MODELS[:2])):  # else as the command has it
            settings["precision"] = self._precision(is_lora, of_axolotl, bool(zero))
        self._decide_optimizer()
        for key in ("load_in_4bit", "load_in_8bit", "quantization_bit"):
            if key in given and not (is_lora and self._is_in_four_bits(key)):
                notes.append(f"{key}: its weights count in 16 bits here, and take less so")
        stage = given.get("rl") or given.get("stage", "sft")
        if stage not in SUPERVISED:
            notes.append(f"{stage}: counted as supervised; a second model, or pairs, need more")
        self._decide_parallel(zero, hidden)

    def _lora_words(self, is_factory: bool) -> str:
        found = {"r": 8, **({"target_modules": LINEAR} if is_factory else {}), **self.lora}
        targets = found.get("target_modules")
        if self.given.get("lora_target_linear") or targets == "all":
            found["target_modules"] = LINEAR
        for name in ("target_modules", "modules_to_save"):
            value = found.get(name)
            names = value.split(",") if isinstance(value, str) and "," in value else value
            if isinstance(names, list):
                found[name] = f"[{','.join(map(str, names))}]"
        if any(map(self._is_in_four_bits, ("load_in_4bit", "quantization_bit"))):
            found[LORA_BITS] = 4
        return ",".join(f"{name}={value}" for name, value in found.items() if value is not None)

    def _is_in_four_bits(self, key: str) -> bool:
        return key in self.given and (key == "load_in_4bit" or self.given[key] == 4)

    def _precision(self, is_lora: bool, of_axolotl: bool, is_zero: bool) -> str:
        def is_half(key: str) -> bool:
            value = self.given.get(key)
            value = str(value.get("enabled") if isinstance(value, Mapping) else value).lower()
            return value in IN_HALF and (value != "auto" or of_axolotl)

        halves = [key for key in HALVES if is_half(key)]
        if not halves:
            return "float32"
        if any("fp16" in (key, self.given[key]) for key in halves) and "bf16" not in halves:
            self.request.notes.append("fp16: traced as bfloat16, whose elements are as large")
        of_weights = not set(halves).isdisjoint(KNOWN["half_weights"])
        if not (is_lora or of_axolotl or is_zero or of_weights):
            return AUTOCAST_BFLOAT16
        # DeepSpeed casts by itself; a Trainer runs under autocast, also around weights of 16 bits.
        is_plain = is_zero or set(KNOWN["halves"]).isdisjoint(halves) or "pure_bf16" in halves
        return "bfloat16" if is_plain else AUTOCAST_BFLOAT16_WEIGHTS

    def _decide_optimizer(self) -> None:
        value = self.given.get("optimizer", self.given.get("optim", "adamw_torch"))
        if isinstance(value, Mapping):  # DeepSpeed's
            value = value.get("type")
        name = str(value).lower()
        self.request.settings["optimizer"] = "sgd" if name.startswith("sgd") else "adamw"
        if "8bit" in name:
            self.request.layout = StateLayout(in_eight_bits=True)
        if not name.startswith(("adam", "paged_adam", "sgd")):
            self.request.notes.append(f"optimizer {value}: counted as adamw")

    def _decide_parallel(self, zero: Any, hidden: int | None) -> None:
        given, request = self.given, self.request
        request.settings.pop(RANKS, None)
        kind = str(given.get("distributed_type", "")).upper()
        fsdp = _mapping(given.get("fsdp_config", {}))
        is_on_host = bool(fsdp.get("fsdp_offload_params") or fsdp.get("offload_params"))
        if request.layout is not None and (zero or is_on_host):
            request.notes.append("optimizer: its states of 8 bits count in 32 if sharded so")
        if zero:
            zero = dict(_mapping(zero))
            if zero.get("reduce_bucket_size", "auto") != "auto":
                zero["reduce_bucket_size"] = _count(
                    "reduce_bucket_size", zero["reduce_bucket_size"]
                )
            request.layout = _layout_of(zero, request, hidden)
            request.parallel = {0: "ddp", 3: "fsdp2"}.get(request.layout.stage)
        elif given.get("fsdp") or kind == "FSDP" or fsdp:
            request.parallel = "fsdp2"
            if is_on_host:
                request.layout = StateLayout(3, request.ranks, True, True)
        elif kind == "MULTI_GPU" or request.ranks > 1:
            request.parallel = "ddp"
        sharded = request.parallel or (request.layout is not None and request.layout.stage)
        if request.ranks == 1 and sharded:
            raise InstanceError("--ranks is needed, the number of GPUs, as no file has it; found 1")


def _layout_of(zero: Mapping[str, Any], request: TrainerRequest, hidden: int | None) -> StateLayout:
    """Return the layout of DeepSpeed's ``zero_optimization``."""
    stage = zero.get("stage", 0)
    if stage not in (0, 1, 2, 3):
        raise InstanceError(f"zero_optimization, stage: 0, 1, 2 or 3 is needed, found {stage}")
    on_host = [
        isinstance(one, Mapping) and one.get("device", "none") != "none"
        for one in (zero.get("offload_optimizer"), zero.get("offload_param"))
    ]
    size: Any = zero.get("reduce_bucket_size", BUCKET_ELEMENTS)
    if size == "auto":  # transformers takes the square of the model's width
        size = BUCKET_ELEMENTS if hidden is None else hidden**2
    is_half = request.settings.get("precision") == "bfloat16"
    width = HALF_BYTES if is_half else FLOAT32_BYTES
    count = 2 if stage in (1, 2) and zero.get("overlap_comm") is True else 1
    return StateLayout(
        stage,
        request.ranks,
        bool(zero.get("cpu_offload")) or on_host[0],
        stage == 3 and on_host[1],
        has_copies=stage > 0 and is_half,
        buckets=size * width * count if stage else 0,
        microbatches=request.settings.get("microbatches", 1),
        states_a_weight=STATES_OF[request.settings["optimizer"]],
    )


def _cached(name: str) -> Path | None:
    """Return the configuration of a model of the hub that was downloaded before."""
    try:
        hub: Any = import_module("huggingface_hub")
        found = hub.try_to_load_from_cache(name, "config.json")
    except (ImportError, ValueError):
        return None
    return Path(found) if isinstance(found, str) else None


def _count(key: str, value: object) -> int:
    try:
        number = int(float(str(value)))
        is_count = number >= 1 and number == float(str(value))
    except (ValueError, OverflowError):
        is_count = False
    if not is_count:
        raise InstanceError(f"{key}: a whole number from 1 on is needed, found {shown(value)}")
    return number
