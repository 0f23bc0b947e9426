"""Decoded data sets kept on disk, so that the pictures of a source are decoded once."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from tutelage.storage.atomic_files import require_regular
from tutelage.storage.cache_folder import cache_folder as cache_folder
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.mapped import PREFIX, MappedFile, MappedRows, Rows, in_use

VERSION = 4
"""increase it when the same files and arguments give other images, labels or ids"""
MAX_BYTES = 8 * 2**30
"""bytes of all that is kept; what was used longest ago goes first, unless it is in use"""
FEATURES = "features-"
"""begins the names of computed features"""


def cached(
    decode: Callable[[], Splits[ImageSet]],
    *,
    files: Sequence[Path],
    arguments: Sequence[str | None],
) -> Splits[ImageSet]:
    """The splits of a source: decoded the first time, later read back from the disk.

    They are kept in the user's cache folder under the paths, sizes and modification times of
    the files and under the arguments. A cache that is damaged, full or out of reach is no
    fault: the source is decoded. Memory-mapped images are in files of their own beside.
    """
    entry = _entry(files, arguments) if files else None
    if entry is None:
        return decode()
    splits = _read(entry)
    if splits is None:
        splits = decode()
        _write(splits, entry)
    return splits


def _entry(files: Sequence[Path], arguments: Sequence[str | None]) -> Path | None:
    try:
        key = json.dumps([VERSION, list(arguments), list(_facts(files))])
        folder = cache_folder()
    except (OSError, RuntimeError):
        return None  # a file of the source is gone (OSError), or the user has no home
    return folder / f"{PREFIX}{hashlib.sha256(key.encode()).hexdigest()}.safetensors"


def _facts(files: Sequence[Path]) -> Iterator[tuple[str, str, int, int]]:
    # Readers take classes from names, so the name counts as well as where links lead to.
    # Resolving every file would take longer than all the rest; its folder is enough.
    resolved = cache(Path.resolve)
    for file in files:
        status = file.stat()
        place = file.resolve() if file.is_symlink() else resolved(file.parent)
        yield str(file.absolute()), str(place), status.st_size, status.st_mtime_ns


def _read(entry: Path) -> Splits[ImageSet] | None:
    if not entry.is_file():
        return None
    try:
        with safe_open(entry, "pt") as stored:
            metadata, tensors = stored.metadata(), stored.get_tensors()
        name, *classes = json.loads(metadata["name and classes"])
        texts = json.loads(tensors["texts"].numpy().tobytes())
        train, test = (
            ImageSet(
                _images(entry, part, tensors, metadata),
                tensors[f"{part}.labels"],
                tensors[f"{part}.ids"],
                tuple(classes),
                name,
                tuple(texts[part]),
            )
            for part in ("train", "test")
        )
        splits = Splits(train, test, tuple(texts["notes"]))
    # Damaged. ValueError: no JSON, or what ImageSet and Splits refuse.
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    with suppress(OSError):
        for file in (entry, *_files(splits)):
            os.utime(file)
    return splits


def _images(
    entry: Path, part: str, tensors: dict[str, torch.Tensor], metadata: dict[str, str]
) -> Rows:
    if part not in metadata:
        return tensors[f"{part}.images"]
    name, shape, row = json.loads(metadata[part])
    store = MappedFile(entry.with_name(name), tuple(shape), "|u1")
    store.map()
    return MappedRows((store,), tensors[f"{part}.images"], tuple(row), torch.uint8)


def _files(splits: Splits[ImageSet]) -> dict[Path, MappedFile]:
    stores = [
        store
        for images in (splits.train.images, splits.test.images)
        if isinstance(images, MappedRows)
        for store in images.stores
        if isinstance(store, MappedFile)
    ]
    return {store.path: store for store in stores}


def _write(splits: Splits[ImageSet], entry: Path) -> None:
    """Write the entry whole or not at all; a folder that cannot be written is no fault."""
    tensors: dict[str, torch.Tensor] = {}
    metadata = {"name and classes": json.dumps([splits.train.name, *splits.train.classes])}
    files = _files(splits)
    names = {path: f"{entry.stem}-{number}.pixels" for number, path in enumerate(files)}
    for part, of in (("train", splits.train), ("test", splits.test)):
        images = of.images
        if isinstance(images, MappedRows):
            [store] = images.stores
            assert isinstance(store, MappedFile)  # as it was decoded
            metadata[part] = json.dumps([names[store.path], store.shape, images.row_shape])
            images = images.indices
        columns = {"images": images, "labels": of.labels, "ids": of.ids}
        tensors |= {f"{part}.{column}": values for column, values in columns.items()}
    texts = {"train": splits.train.sources, "test": splits.test.sources, "notes": splits.notes}
    tensors["texts"] = torch.frombuffer(
        bytearray(json.dumps(texts).encode()), dtype=torch.uint8
    )
    if any(path.parent != entry.parent for path in files):
        return  # they had no room there
    if _keep(tensors, metadata, entry, PREFIX):
        with suppress(OSError):
            for path, store in files.items():
                store.keep_as(entry.with_name(names[path]))


def _keep(
    tensors: dict[str, torch.Tensor], metadata: dict[str, str], entry: Path, prefix: str
) -> bool:
    part = entry.with_name(f"{prefix}{uuid4().hex}.tmp")
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        try:
            save_file(tensors, part, metadata)
            require_regular(entry)
            part.replace(entry)
        finally:
            part.unlink(missing_ok=True)
        _make_room(entry.parent)
    except (OSError, SafetensorError):
        return False
    return True


def cached_rows(
    compute: Callable[[torch.Tensor], torch.Tensor],
    needed: torch.Tensor,
    key: str,
    shape: tuple[int, int],
) -> torch.Tensor:
    """Features of examples, those that are not kept on the disk computed and kept.

    What is neither needed nor kept is not a number. A cache that is damaged, full or out of
    reach is no fault: they are computed.
    """
    try:
        entry = cache_folder() / f"{FEATURES}{key}.safetensors"
    except RuntimeError:  # the user has no home
        entry = None
    found = None if entry is None else _read_tensor(entry)
    if found is None or found.shape != shape:
        found = torch.full(shape, torch.nan)
    missing = needed[found[needed].isnan().any(1)]
    if len(missing):
        found[missing] = compute(missing)
        if entry is not None:
            _keep({"features": found}, {}, entry, FEATURES)
    return found


def _read_tensor(entry: Path) -> torch.Tensor | None:
    if not entry.is_file():
        return None
    try:
        with safe_open(entry, "pt") as stored:
            found = stored.get_tensors()["features"]
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    with suppress(OSError):
        os.utime(entry)
    return found if found.dtype == torch.float32 else None


def _make_room(folder: Path) -> None:
    # What a killed process left behind counts too.
    kinds = (PREFIX, FEATURES)
    found = [(path.stat(), path) for kind in kinds for path in folder.glob(f"{kind}*")]
    total = 0
    for status, path in sorted(found, key=lambda pair: pair[0].st_mtime_ns, reverse=True):
        total += status.st_size
        if total > MAX_BYTES:
            total -= status.st_size
            if not in_use(path):
                path.unlink(missing_ok=True)
