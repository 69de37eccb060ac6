"""The networks that are lowered: architectures with their published shape, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planners.errors import InstanceError, near_names

# Names are looked up where torch is not installed.
if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@dataclass(frozen=True)
class Network:
    """A network, and the one input of batch 1 that it is lowered for."""

    # Class of transformers, and that of its configuration; no configuration: a class of ours.
    architecture: str
    configuration: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Height and width in pixels, or tokens.
    image: int | None = None
    seq: int | None = None

    @property
    def source(self) -> str:
        """The expression that builds it."""
        settings = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        if not self.configuration:
            return f"{self.architecture}({settings})"
        return f"transformers.{self.architecture}({self.configuration}({settings}))"

    def build(self) -> tuple[Module, Tensor]:
        """Return the module, with weights that nobody drew, and its input."""
        import torch

        if self.image is not None:
            given = torch.zeros(1, 3, self.image, self.image)
        else:
            given = torch.zeros(1, self.seq or 1, dtype=torch.long)
        return self._module().eval(), given

    def _module(self) -> Module:
        import transformers
        from transformers.initialization import no_init_weights

        from instances.extract.executorch.plain_unet import PlainUNet

        if not self.configuration:
            return PlainUNet(**self.settings)
        configuration = getattr(transformers, self.configuration)(**self.settings)
        with no_init_weights():
            module: Module = getattr(transformers, self.architecture)(configuration)
        return module


def _classifier(family: str, image: int = 224, **settings: Any) -> Network:
    return Network(f"{family}ForImageClassification", f"{family}Config", settings, image=image)


def _encoder(family: str, seq: int = 128, **settings: Any) -> Network:
    return Network(f"{family}Model", f"{family}Config", settings, seq=seq)


NETWORKS: Mapping[str, Network] = {
    "albert-base": _encoder(
        "Albert", hidden_size=768, num_attention_heads=12, intermediate_size=3072
    ),
    "bert-small": _encoder(
        "Bert",
        hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048,
    ),
    "bert-tiny": _encoder(
        "Bert", hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
    ),
    "convnext-tiny": _classifier("ConvNext"),
    "convnextv2-tiny": _classifier("ConvNextV2"),
    "deit-tiny": _classifier(
        "DeiT", hidden_size=192, num_attention_heads=3, intermediate_size=768
    ),
    "dinov2-small": _classifier("Dinov2", hidden_size=384, num_attention_heads=6, image_size=224),
    "distilbert": _encoder("DistilBert"),
    "efficientnet-b0": _classifier(
        "EfficientNet",
        width_coefficient=1.0, depth_coefficient=1.0, image_size=224, hidden_dim=1280,
    ),
    "electra-small": _encoder("Electra"),
    "gpt2-small": _encoder("GPT2", use_cache=False),
    "levit-128s": _classifier("Levit"),
    "mobilebert": _encoder("MobileBert"),
    "mobilenet-v1": _classifier("MobileNetV1"),
    "mobilenet-v2": _classifier("MobileNetV2"),
    "mobilevit-small": _classifier("MobileViT", image=256),
    "mobilevitv2-1.0": _classifier("MobileViTV2", image=256),
    "poolformer-s12": _classifier("PoolFormer"),
    "pvt-tiny": _classifier("Pvt"),
    "regnet-y-800mf": _classifier("RegNet"),
    "resnet-18": _classifier(
        "ResNet", layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512]
    ),
    "resnet-50": _classifier("ResNet"),
    "segformer-b0": Network(
        "SegformerForSemanticSegmentation", "SegformerConfig", image=512
    ),
    "squeezebert": _encoder("SqueezeBert"),
    "swiftformer-xs": _classifier("SwiftFormer"),
    "swin-tiny": _classifier("Swin"),
    "unet": Network(
        "PlainUNet", settings={"channels": 3, "width": 32, "levels": 5, "classes": 2}, image=256
    ),
    "vit-tiny": _classifier("ViT", hidden_size=192, num_attention_heads=3, intermediate_size=768),
}  # fmt: skip


def find_network(name: str) -> Network:
    if name not in NETWORKS:
        raise InstanceError(f"no network is called {name!r}; {near_names(name, NETWORKS)}")
    return NETWORKS[name]
