"""The same digits, learned under a teacher that finds out which labels to trust."""

import sys

import torch
from digits import accuracy, clean, train
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import MultiStepLR
from torch.utils.data import DataLoader

import tutelage as tl

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 30

torch.manual_seed(0)
student = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = SGD(student.parameters(), lr=0.1, momentum=0.9)
schedule = MultiStepLR(optimizer, [EPOCHS // 2, EPOCHS * 3 // 4])
loader = DataLoader(tl.data.WithIds(train), batch_size=50, shuffle=True)
teacher = tl.teachers.MarginLoss(student, classes=10, level="centred")
teaching = tl.integrations.Teaching(
    teacher,
    Adam(teacher.parameters(), lr=0.02),
    tl.Reversible(steps=2),
    tl.data.RandomBatches(clean, 64),
    teacher_every=5,
)
tutor = teaching.tutor(student, optimizer)

for _ in range(EPOCHS):
    for loaded in loader:
        teaching.step(tutor, loaded)
    schedule.step()
print(f"accuracy: {accuracy(student):.1%}")
