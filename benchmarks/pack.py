"""Packs what `benchmarks/gpu.sh` needs and a machine without a package index lacks.

    python -m benchmarks.pack [--data FOLDER] [--out benchmarks/packed] [--quality 86]

Wheels of pure Python, in the releases installed here, and CIFAR-10 and MNIST in the form in
which `TUTELAGE_DATA` names them. CIFAR-10 becomes JPEG of full colour resolution, a third of
the size. That changes pixels, by 5 of 255 levels (root mean square) at quality 86: results with
it are not those of the lossless images. What is over the limit is refused.
"""

import argparse
import io
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

LIMIT = 45 * 2**20
"""bytes of all that is packed"""
TARGET = "3.12"
"""Python of the machine that it is for"""
NEEDED = (
    "tyro",
    "docstring-parser",
    "typeguard",
    "jaxtyping",
    "wadler-lindig",
    "datasets",
    "dill",
    "multiprocess",
    "rich",
    "markdown-it-py",
    "mdurl",
    "joblib",
)
"""what the package imports besides compiled packages"""
PEERS = (
    "higher",
    "backpack-for-pytorch",
    "unfoldNd",
    "opacus",
    "opt-einsum",
    "einops",
    "betty-ml",
)
"""what is measured beside it, where it can be had"""


def jpeg(picture: bytes, quality: int) -> bytes:
    """A picture as JPEG in full colour resolution.

    Args:
        picture: A file's bytes.
        quality: Of the JPEG, up to 95.

    Returns:
        The new file's bytes, with the standard tables, which pack well as they repeat.
    """
    made = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as opened:
        opened.convert("RGB").save(made, "JPEG", quality=quality, subsampling=0)
    return made.getvalue()


def repack(source: Path, target: Path, quality: int, images: int | None) -> None:
    """A parquet file of pictures with its pictures as JPEG.

    Args:
        source: The file.
        target: The new file.
        quality: Of the JPEGs.
        images: Rows to take from the beginning; None: all.
    """
    table = pq.read_table(source)
    table = table if images is None else table.slice(0, images)
    place = table.column_names.index("image")
    rows = [
        {"bytes": jpeg(row["bytes"], quality), "path": None}
        for row in table.column(place).to_pylist()
    ]
    field = table.schema.field(place)
    column = pa.array(rows, field.type)
    table = table.set_column(place, field, column).replace_schema_metadata(
        table.schema.metadata
    )
    pq.write_table(
        table, target, compression="zstd", compression_level=19, use_dictionary=False
    )


def pack_data(data: Path, out: Path, quality: int, images: int | None) -> None:
    """Pack CIFAR-10 as JPEG, and MNIST as it is.

    Args:
        data: The folder of data sets.
        out: The folder that ``TUTELAGE_DATA`` is to name.
        quality: Of the JPEGs.
        images: Rows of each split of CIFAR-10; None: all.
    """
    for name in ("cifar10", "mnist"):
        (out / name).mkdir(parents=True, exist_ok=True)
        for file in sorted((data / name).glob("*.parquet")):
            target = out / name / file.name
            if name == "cifar10":
                repack(file, target, quality, images)
            else:
                shutil.copyfile(file, target)


def pack_wheel(name: str, out: Path) -> None:
    """Download a wheel of pure Python in the release that is installed here.

    Args:
        name: Of the distribution.
        out: Where to.
    """
    command = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "download"]
    kind = ["--no-deps", "--only-binary=:all:", "--python-version", TARGET]
    kind += ["--implementation", "py", "--abi", "none", "--platform", "any"]
    asked = f"{name}=={version(name)}"
    subprocess.run([*command, *kind, "--dest", str(out), asked], check=True)


def pack_wheels(out: Path) -> None:
    """Download all wheels; a peer that is not installed here, or has no wheel, is told.

    Args:
        out: Where to.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in NEEDED:
        pack_wheel(name, out)
    for name in PEERS:
        try:
            pack_wheel(name, out)
        except (PackageNotFoundError, subprocess.CalledProcessError) as error:
            print(f"left out: {name} ({error})")


def size(folder: Path) -> int:
    """Bytes of all files below a folder.

    Args:
        folder: The folder.

    Returns:
        Their sum.
    """
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Pack, and say how large it became."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TUTELAGE_DATA", "")))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "packed")
    parser.add_argument("--quality", type=int, default=86)
    parser.add_argument("--images", type=int)
    asked = parser.parse_args()
    shutil.rmtree(asked.out, ignore_errors=True)
    pack_wheels(asked.out / "wheels")
    pack_data(asked.data, asked.out / "data", asked.quality, asked.images)
    for part in sorted([*asked.out.glob("wheels"), *asked.out.glob("data/*")]):
        print(f"{size(part) / 2**20:6.1f} MiB  {part}")
    if size(asked.out) > LIMIT:
        sys.exit(
            f"{asked.out} holds {size(asked.out) / 2**20:.1f} MiB, over {LIMIT / 2**20:.0f}: "
            "lower --quality, or take fewer images with --images."
        )


if __name__ == "__main__":
    main()
