"""Tiny folders in the layouts that data sets are published in."""

import numpy as np
from PIL import Image


def picture(path, colour, size=(24, 16), box=None):
    """A picture of one colour on black; ``size`` is (width, height), ``box`` where it lies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = "L" if isinstance(colour, int) else "RGB"
    image = Image.new(mode, size)
    image.paste(colour, box or (0, 0, *size))
    image.save(path)


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), "utf-8")


def cub(root, species=3, each=10, beside=False):
    """Birds of one colour for each species, at (6, 4) to (18, 12), in pictures of 24x16."""
    home = root / "CUB_200_2011"
    masks = root / "segmentations" if beside else home / "segmentations"
    names = [f"{kind + 1:03d}.Bird_{kind}" for kind in range(species)]
    birds = [(kind, place) for kind in range(species) for place in range(each)]
    files = [f"{names[kind]}/Bird_{kind}_{place:04d}" for kind, place in birds]
    for (kind, _), file in zip(birds, files, strict=True):
        picture(home / "images" / f"{file}.jpg", (0, 80 * kind, 250))
        picture(masks / f"{file}.png", 255, box=(6, 4, 18, 12))
    numbered = list(enumerate(files, 1))
    lines(home / "images.txt", [f"{number} {file}.jpg" for number, file in numbered])
    lines(home / "classes.txt", [f"{number} {name}" for number, name in enumerate(names, 1)])
    lines(
        home / "image_class_labels.txt", [f"{n} {k + 1}" for n, (k, _) in enumerate(birds, 1)]
    )
    lines(
        home / "train_test_split.txt",
        [f"{n} {int(p < 5)}" for n, (_, p) in enumerate(birds, 1)],
    )
    lines(home / "bounding_boxes.txt", [f"{n} 6.0 4.0 12.0 8.0" for n, _ in numbered])
    return home


def places(root, categories=5, each=4):
    """Pictures of 20x12, whose red is 40 times the category."""
    count = categories * each
    rows = [(f"Places365_val_{n + 1:08d}.jpg", n % categories) for n in range(count)]
    for name, category in rows:
        picture(root / "val_large" / name, (40 * category, 0, 0), (20, 12))
    lines(root / "places365_val.txt", [f"{name} {category}" for name, category in rows])
    lists = [f"/{'abcde'[n]}/place_{n}{'/outdoor' * (n == 1)} {n}" for n in range(categories)]
    lines(root / "categories_places365.txt", lists)
    return root


HEADER = "Path,Sex,Age,Frontal/Lateral,AP/PA,Cardiomegaly,Edema"


def chexpert(root, home="CheXpert-v1.0-small"):
    """Patients 1 to 8 with a frontal picture each, the first with a lateral one too."""
    answers = ["1.0", "0.0", "-1.0", "", "1.0", "0.0", "0.0", "1.0"]
    rows = [
        (f"train/patient{n:05d}/study1/view1_frontal.jpg", "Frontal", answer)
        for n, answer in enumerate(answers, 1)
    ]
    rows.insert(1, ("train/patient00001/study1/view2_lateral.jpg", "Lateral", "1.0"))
    tested = [
        (f"valid/patient{64540 + n}/study1/view1_frontal.jpg", "Frontal", f"{n}.0")
        for n in range(2)
    ]
    for name, part in (("train", rows), ("valid", tested)):
        for place, (path, _, _) in enumerate(part):
            picture(root / home / path, 20 + place)
        listed = [
            f"{home}/{path},Male,60,{view},AP,{answer},1.0" for path, view, answer in part
        ]
        lines(root / home / f"{name}.csv", [HEADER, *listed])
    return root / home


ATTRIBUTES = ("Blond_Hair", "Eyeglasses", "Smiling")


def celeba(root, folders=("", "", "")):
    """Nine faces, three in each part; face n has the attributes that n's bits say."""
    pictures, anno, split = (root / folder for folder in folders)
    files = [f"{number:06d}.jpg" for number in range(1, 10)]
    for number, file in enumerate(files, 1):
        picture(pictures / "img_align_celeba" / file, (number * 20, 0, 0), (18, 22))
    marks = [
        f"{file}  " + "  ".join("1" if number >> bit & 1 else "-1" for bit in range(3))
        for number, file in enumerate(files, 1)
    ]
    lines(anno / "list_attr_celeba.txt", ["9", " ".join(ATTRIBUTES) + " ", *marks])
    lines(
        split / "list_eval_partition.txt",
        [f"{file} {place // 3}" for place, file in enumerate(files)],
    )
    return root


def deep_grey(path):
    """A grey picture of 16 bits a pixel in place of what is there."""
    Image.fromarray(np.full((16, 24), 1040, np.uint16)).save(path, "PNG")
