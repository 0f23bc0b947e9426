"""Auxiliary targets of an image: learned vectors, compared with attributes.

Raghu et al. 2021, appendix A and Figure A.1: CelebA's attributes; at the smaller scales those
of CIFAR-10's classes, and the entropy of people's votes. Figures: ``docs/results.md``.
"""

from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import torch
from torch import Tensor, nn
from torch.optim import Adam

from papers.data.published.celeba import attribute_names, read_celeba
from papers.framework.recipe import Outcome, Recipe, above, curves, expectation
from papers.framework.settings import RecipeSettings
from papers.students import batches_of
from tutelage.errors import UsageError
from tutelage.losses.objectives import Auxiliary, binary_cross_entropy
from tutelage.models import FourBlocks, TwoHeads
from tutelage.randomness import mixed_seed, seeded
from tutelage.signals import Unrolled
from tutelage.teachers import AuxiliaryTargets
from tutelage.training.loops import episodic
from tutelage.types import Batch
from tutelage_cli.claims import Claim
from tutelage_cli.data.batches import Batches
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.local import load_known, local_folder
from tutelage_cli.data.parquet import parquet_splits
from tutelage_cli.data.resize import Size

ARMS = ("learned", "untaught")
OF_CLASSES = {
    "animal": ("bird", "cat", "deer", "dog", "frog", "horse"),
    "flies": ("airplane", "bird"),
    "road": ("automobile", "truck"),
    "water": ("ship",),
    "hooves": ("deer", "horse"),
    "pet": ("cat", "dog"),
}
"""attributes of CIFAR-10's images by the classes that have them"""
OF_FACES = ("Blond_Hair", "Black_Hair", "Eyeglasses", "Wearing_Hat")  # the paper's, of CelebA


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    faces: str = "celeba"
    """folder of CelebA, or a name in ``$TUTELAGE_DATA``; empty: CIFAR-10"""
    train: int = 40_000  # images; of CelebA also the largest number of held-out and test images
    held_out: int = 500  # images of the held-out loss, at the end of a student's training
    tested: int = 5000  # test images whose vectors are compared with attributes
    vector: int = 40  # components of a vector
    width: int = 64  # channels of student and teacher
    steps: int = 100  # of each student
    batch: int = 4
    lr: float = 1e-3  # of Adam, for students and teacher
    teacher_steps: int = 50  # students, one after the other


class Material(NamedTuple):
    """Images in three parts, with their attributes."""

    train: ImageSet
    held_out: ImageSet
    test: ImageSet
    attributes: Tensor  # [N, A] by id, of all parts; the students' targets
    compared: Tensor  # [T, S] of the test images; compared with vectors


def _disagreement() -> Tensor:
    # entropy of the votes on each of CIFAR-10's test images, in nats
    folder = local_folder("cifar10h")
    files = parquet_splits(folder).get("test", []) if folder else []
    if not files:
        raise UsageError(
            "cifar10h is not here: set TUTELAGE_DATA to a folder that holds a copy with the "
            "split test in its subfolder cifar10h."
        )
    votes = torch.tensor(pq.read_table(files[0])["counts"].to_pylist(), dtype=torch.float64)
    share = votes / votes.sum(1, keepdim=True)
    return -torch.special.xlogy(share, share).sum(1)


@cache
def _objects(settings: Settings) -> Material:
    splits = load_known("cifar10")
    rows = [[name in having for having in OF_CLASSES.values()] for name in splits.train.classes]
    table = torch.tensor(rows, dtype=torch.float32)
    order = torch.arange(settings.train + settings.held_out)
    test = splits.test.rows(torch.arange(settings.tested))
    compared = torch.cat(
        [table[test.labels].double(), _disagreement()[: settings.tested, None]], 1
    )
    return Material(
        splits.train.rows(order[: settings.train]),
        splits.train.rows(order[settings.train :]),
        test,
        table[splits.train.labels],
        compared,
    )


@cache
def _faces(settings: Settings) -> Material:
    copy = local_folder(settings.faces)
    root = Path(settings.faces).expanduser() if copy is None else copy
    names = attribute_names(root)
    parts = read_celeba(root, OF_FACES[0], Size(64, 64), most=settings.train)
    known = torch.cat([part.facts["attributes"] for part in parts])
    ids = torch.cat([part.images.ids for part in parts])
    table = torch.zeros(int(ids.max()) + 1, len(names))
    table[ids] = known.float()
    held_out, test = (
        part.rows(torch.arange(most))
        for part, most in ((parts.held_out, settings.held_out), (parts.test, settings.tested))
    )
    columns = [names.index(name) for name in OF_FACES]
    compared = test.facts["attributes"][:, columns].double()
    images = parts.train.images, held_out.images, test.images
    return Material(*images, table, compared)


def _material(settings: Settings) -> Material:
    return _faces(settings) if settings.faces else _objects(settings)


@torch.no_grad()
def _correlations(teacher: AuxiliaryTargets, test: Batch, compared: Tensor) -> list[float]:
    # of each attribute: the largest |correlation| with a component of the vectors
    vectors = teacher.prepare(test).aux
    assert vectors is not None
    both = torch.cat([vectors.double().cpu(), compared], 1).T
    matrix = torch.corrcoef(both).nan_to_num()  # NaN: a component is the same for all images
    return matrix[: vectors.shape[1], vectors.shape[1] :].abs().amax(0).tolist()


def _learn(
    teacher: AuxiliaryTargets,
    settings: Settings,
    training: Batches,
    held_out: Batch,
    table: Tensor,
) -> list[float]:
    # held-out loss of each student
    side = training.examples.images.shape[-1]

    def new_student(number: int) -> tuple[nn.Module, Adam]:
        with seeded(mixed_seed(training.seed, 0, number)):
            trunk = FourBlocks(3, side, width=settings.width)
            sizes = {"outputs": table.shape[1], "auxiliary": settings.vector}
            student = TwoHeads(trunk, features=trunk.features, **sizes).to(training.device)
        return student, Adam(student.parameters(), settings.lr)

    def batches(number: int) -> list[Batch]:
        drawn = map(
            training.draw, range(number * settings.steps, (number + 1) * settings.steps)
        )
        return [batch._replace(targets=table[batch.ids]) for batch in drawn]

    episodes = episodic(
        new_student,
        teacher,
        Adam(teacher.parameters(), settings.lr),
        batches,
        lambda _number: held_out,
        signal=Unrolled(settings.steps),
        objective=Auxiliary(binary_cross_entropy),
        seed=mixed_seed(training.seed, 4),
    )
    return [float(e.held_out_loss) for e in islice(episodes, settings.teacher_steps)]


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Learn auxiliary targets, and compare them with attributes."""
    material = _material(settings)
    sizes = settings.batch, len(material.held_out), len(material.test)
    training, judging, testing = batches_of(material[:3], sizes, mixed_seed(seed, 3), device)
    table = material.attributes.to(device)
    held_out, test = (next(batches.whole(batches.size)) for batches in (judging, testing))
    held_out = held_out._replace(targets=table[held_out.ids])
    with seeded(mixed_seed(seed, 1)):
        trunk = FourBlocks(3, test.inputs.shape[-1], width=settings.width)
        network = nn.Sequential(trunk, nn.Linear(trunk.features, settings.vector))
    teacher = AuxiliaryTargets(network).to(device)
    losses = [] if arm == "untaught" else _learn(teacher, settings, training, held_out, table)
    correlations = _correlations(teacher, test, material.compared)
    of_labels = correlations if settings.faces else correlations[: len(OF_CLASSES)]
    metrics = {
        "correlation": sum(of_labels) / len(of_labels),
        "least": min(of_labels),
        "last": correlations[-1],
    }
    return Outcome(metrics, {"by attribute": correlations, "held-out loss": losses})


RECIPE = Recipe(
    name="commentaries-vectors",
    title="Learned auxiliary targets encode attributes of the images.",
    paper="commentaries",
    where="Appendix A and Figure A.1",
    arms=ARMS,
    metrics={
        "correlation": "largest |correlation| of an attribute with a component of the vectors "
        "over test images; mean over attributes",
        "least": "the same for the attribute for which it is smallest",
        "last": "the same for the last attribute; on CIFAR-10, that is the disagreement of "
        "people on an image, which is not used in training",
    },
    settings={
        "smoke": Settings("", 40, 20, 40, 4, 4, 2, 4, 1e-3, 2),
        "mini": Settings("", 20_000, 500, 2000, 40, 16, 100, 4, 1e-3, 50),
        "gpu": Settings(faces="", teacher_steps=30),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 8, "gpu": 10, "paper": 30},
    run=run,
    claims=(
        Claim(
            "Components of the learned vectors are more strongly correlated with attributes "
            "than those of an untrained network.",
            above("correlation", "learned", "untaught"),
        ),
        expectation(
            "A component is also more strongly correlated with the disagreement of people on "
            "an image (CIFAR-10).",
            above("last", "learned", "untaught"),
        ),
    ),
    plots=(
        curves(
            "Correlation of attributes and vectors",
            "largest |correlation|",
            ARMS,
            "by attribute",
            f"{', '.join(OF_CLASSES)}, people's votes",
        ),
        curves(
            "Held-out loss of each student", "nats", ["learned"], "held-out loss", "student"
        ),
    ),
    prepare=_material,
)
