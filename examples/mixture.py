"""Three sources of digits, and a teacher that finds out which to draw from how often."""

import sys

import torch
from digits import accuracy, clean, sources
from torch import nn
from torch.optim import SGD, Adam
from torch.utils.data import ConcatDataset, default_collate

import tutelage as tl

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 30

torch.manual_seed(0)
student = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = SGD(student.parameters(), lr=0.1, momentum=0.9)
examples = tl.data.WithIds(ConcatDataset(sources))
drawn = torch.Generator().manual_seed(0)
teacher = tl.teachers.SplitSampler([len(source) for source in sources], policy="softmax")
teaching = tl.integrations.Teaching(
    teacher,
    Adam(teacher.parameters(), lr=0.02),
    tl.signals.GradientAlignment(evaluate_on="held-out"),
    tl.data.RandomBatches(clean, 64),
)
tutor = teaching.tutor(student, optimizer)

for _ in range(EPOCHS * 20):
    rows = teacher.draw(50, generator=drawn).row
    teaching.step(tutor, default_collate([examples[row] for row in rows.tolist()]))
print(f"accuracy: {accuracy(student):.1%}")
print("drawn from:", *(f"{p:.0%}" for p in teacher.log_probs().exp()))
