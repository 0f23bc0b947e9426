"""Student networks, and the catalogue that builds them by name."""

from tutelage.models.catalogue import STUDENTS, build_student, default_tap
from tutelage.models.cifar_resnet import (
    CifarResNet,
    resnet8,
    resnet20,
    resnet32,
    resnet44,
    resnet56,
    resnet110,
)
from tutelage.models.four_block_cnn import FourBlockCNN, FourBlocks
from tutelage.models.heads import linear, mlp
from tutelage.models.internal_states import internal_state
from tutelage.models.mask_unet import MaskUNet
from tutelage.models.resnet_cifar_stem import CifarStemResNet, resnet18_cifar, resnet34_cifar
from tutelage.models.sentence_vectors import SentenceVectors, sentence_vectors
from tutelage.models.text_classifier import TextClassifier, text_classifier
from tutelage.models.torchvision_models import torchvision_model
from tutelage.models.two_block_cnn import TwoBlockCNN
from tutelage.models.two_heads import TwoHeads
from tutelage.models.wide_resnet import WideResNet, wrn

__all__ = [
    "STUDENTS",
    "CifarResNet",
    "CifarStemResNet",
    "FourBlockCNN",
    "FourBlocks",
    "MaskUNet",
    "SentenceVectors",
    "TextClassifier",
    "TwoBlockCNN",
    "TwoHeads",
    "WideResNet",
    "build_student",
    "default_tap",
    "internal_state",
    "linear",
    "mlp",
    "resnet8",
    "resnet18_cifar",
    "resnet20",
    "resnet32",
    "resnet34_cifar",
    "resnet44",
    "resnet56",
    "resnet110",
    "sentence_vectors",
    "text_classifier",
    "torchvision_model",
    "wrn",
]
