"""TinyBERT: a small BERT that learns attention and hidden states from a large one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from instances.extract.models.networks.output import Output


class Distillation(nn.Module):
    """A teacher that only looks, and a student that is to see the same.

    The teacher's layers are a multiple of the student's.
    """

    def __init__(self, teacher: BertConfig, student: BertConfig) -> None:
        super().__init__()
        self.teacher = BertModel(teacher, add_pooling_layer=False).requires_grad_(False)
        self.student = BertModel(student, add_pooling_layer=False)
        self.fit = nn.Linear(student.hidden_size, teacher.hidden_size)
        self.skip = teacher.num_hidden_layers // student.num_hidden_layers

    def train(self, mode: bool = True) -> Distillation:
        """Set training mode, from which the teacher stays apart."""
        super().train(mode)
        self.teacher.train(False)
        return self

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Output:
        batch = (input_ids, attention_mask, token_type_ids)
        if not self.training:
            return Output(outputs=(self.student(*batch).last_hidden_state,))
        with torch.no_grad():
            taught = self.teacher(*batch, output_attentions=True, output_hidden_states=True)
        learnt = self.student(*batch, output_attentions=True, output_hidden_states=True)
        attentions = zip(
            learnt.attentions, taught.attentions[self.skip - 1 :: self.skip], strict=True
        )
        states = zip(learnt.hidden_states, taught.hidden_states[:: self.skip], strict=True)
        losses = [functional.mse_loss(own, other) for own, other in attentions]
        losses += [functional.mse_loss(self.fit(own), other) for own, other in states]
        return Output(torch.stack(losses).sum())
