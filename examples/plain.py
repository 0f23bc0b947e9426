"""Digits of which four labels in ten were drawn anew, learned in an ordinary loop."""

import sys

import torch
from digits import accuracy, train
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import MultiStepLR
from torch.utils.data import DataLoader

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 30

torch.manual_seed(0)
student = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = SGD(student.parameters(), lr=0.1, momentum=0.9)
schedule = MultiStepLR(optimizer, [EPOCHS // 2, EPOCHS * 3 // 4])
loader = DataLoader(train, batch_size=50, shuffle=True)

for _ in range(EPOCHS):
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(student(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    schedule.step()
print(f"accuracy: {accuracy(student):.1%}")
