"""The same by the Trainer of transformers."""

import sys

import torch
from docstrings import CONFIG, accuracy, clean, named, train
from torch.optim import Adam
from transformers import TrainingArguments

import tutelage as tl

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 30

torch.manual_seed(0)
student = tl.models.text_classifier(CONFIG, classes=4)
arguments = TrainingArguments(
    "runs/trainer",
    num_train_epochs=EPOCHS,
    per_device_train_batch_size=50,
    learning_rate=1e-3,
    save_strategy="no",
    report_to=[],
)
trainer = tl.integrations.TeachingTrainer(student.model, arguments, train_dataset=named(train))
teacher = tl.teachers.MarginLoss(student, classes=4, level="centred")
teaching = tl.integrations.Teaching(
    teacher,
    Adam(teacher.parameters(), lr=0.02),
    tl.Lookahead(),
    trainer.draws(named(clean), 64),
    teacher_every=5,
)
trainer.teach(teaching)
trainer.train()
print(f"accuracy: {accuracy(student):.1%}")
