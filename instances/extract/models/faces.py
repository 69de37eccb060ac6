"""Recognition of faces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.extract.models.images import image_batch, require_multiple
from instances.extract.models.model_registry import register
from instances.extract.step_settings import StepSettings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

# Of the public data set MS1MV2.
IDENTITIES = 85742


@register(
    "face-recognition",
    "ResNet-100 with improved residuals, 85742 identities, softmax with a large margin",
    StepSettings(batch=128, seq=None, image=112, clip_norm=0.0),
)
def face_recognition(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build a ResNet-based net for face recognition."""
    from instances.extract.models.networks.face_recognition import FaceRecognition

    image = require_multiple(settings, 16)
    return FaceRecognition(IDENTITIES, image), image_batch(settings, "images")
