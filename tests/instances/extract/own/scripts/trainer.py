"""A Trainer of transformers, made where its file is run."""

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"input_ids": torch.randint(0, 100, (32,)), "labels": index % 2}


def accuracy(prediction):
    return {"right": (prediction.predictions.argmax(-1) == prediction.label_ids).mean()}


config = BertConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
)
trainer = Trainer(
    model=BertForSequenceClassification(config),
    args=TrainingArguments(
        output_dir="output",
        per_device_train_batch_size=8,
        num_train_epochs=3,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_steps=1,
        bf16=True,
        optim="adamw_torch",
        load_best_model_at_end=True,
    ),
    train_dataset=Sentences(),
    eval_dataset=Sentences(),
    compute_metrics=accuracy,
)

if __name__ == "__main__":
    trainer.train()
    trainer.save_model()
