"""Docstrings, of a third of which the package is told wrong, learned by a small transformer."""

import sys

import torch
from docstrings import CONFIG, accuracy, clean, train
from torch.optim import Adam, AdamW
from torch.utils.data import DataLoader

import tutelage as tl

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 30

torch.manual_seed(0)
student = tl.models.text_classifier(CONFIG, classes=4)
optimizer = AdamW(student.parameters(), lr=1e-3)
loader = DataLoader(tl.data.WithIds(train), batch_size=50, shuffle=True)
teacher = tl.teachers.MarginLoss(student, classes=4, level="centred")
teaching = tl.integrations.Teaching(
    teacher,
    Adam(teacher.parameters(), lr=0.02),
    tl.Lookahead(),
    tl.data.RandomBatches(clean, 64),
    teacher_every=5,
)
tutor = teaching.tutor(student, optimizer)

for _ in range(EPOCHS):
    for loaded in loader:
        teaching.step(tutor, loaded)
print(f"accuracy: {accuracy(student):.1%}")
