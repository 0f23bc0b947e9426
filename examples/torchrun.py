"""The same by several processes: torchrun --nproc-per-node 2 examples/torchrun.py."""

import sys

import torch
import torch.distributed as dist
from digits import accuracy, clean, train
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import MultiStepLR
from torch.utils.data import DataLoader, DistributedSampler

import tutelage as tl

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 30

dist.init_process_group()
torch.manual_seed(0)
student = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
student = DistributedDataParallel(student)
optimizer = SGD(student.parameters(), lr=0.1, momentum=0.9)
schedule = MultiStepLR(optimizer, [EPOCHS // 2, EPOCHS * 3 // 4])
sampler = DistributedSampler(train)
loader = DataLoader(tl.data.WithIds(train), 50 // dist.get_world_size(), sampler=sampler)
teacher = tl.teachers.MarginLoss(student, classes=10, level="centred")
teaching = tl.integrations.Teaching(
    teacher,
    Adam(teacher.parameters(), lr=0.02),
    tl.Reversible(steps=2),
    tl.data.RandomBatches(clean, 64),
    teacher_every=5,
)
tutor = teaching.tutor(student, optimizer)

for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for loaded in loader:
        teaching.step(tutor, loaded)
    schedule.step()
if dist.get_rank() == 0:
    print(f"accuracy: {accuracy(student):.1%}")
dist.destroy_process_group()
