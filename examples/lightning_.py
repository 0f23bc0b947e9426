"""The same by Lightning's trainer."""

import sys

import lightning as L
import torch
from digits import accuracy, clean, train
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import MultiStepLR
from torch.utils.data import DataLoader

import tutelage as tl

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 30


class Digits(tl.integrations.TeachingModule):
    """A LightningModule with neither training step nor loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs)

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = SGD(self.parameters(), lr=0.1, momentum=0.9)
        schedule = MultiStepLR(optimizer, [EPOCHS // 2, EPOCHS * 3 // 4])
        return [optimizer], [schedule]


torch.manual_seed(0)
student = Digits()
loader = DataLoader(tl.data.WithIds(train), batch_size=50, shuffle=True)
teacher = tl.teachers.MarginLoss(student, classes=10, level="centred")
teaching = tl.integrations.Teaching(
    teacher,
    Adam(teacher.parameters(), lr=0.02),
    tl.Reversible(steps=2),
    tl.data.RandomBatches(clean, 64),
    teacher_every=5,
)
student.teach(teaching)

L.Trainer(max_epochs=EPOCHS, logger=False, enable_checkpointing=False).fit(student, loader)
print(f"accuracy: {accuracy(student):.1%}")
