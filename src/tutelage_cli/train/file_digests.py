"""Digests of the files that the settings of a run name, besides its data."""

import hashlib
from pathlib import Path

from tutelage.commentaries.folders import WEIGHTS
from tutelage.errors import UsageError
from tutelage_cli.train.settings import TrainSettings


def file_digests(settings: TrainSettings) -> dict[str, str]:
    """The digest of each file or folder, by the flag that names it.

    Of a commentary that of its weights, since its card may be completed later.
    """
    commentary = settings.commentary and Path(settings.commentary) / WEIGHTS
    named = {
        "--weights-from": settings.weights_from,
        "--commentary": commentary,
        "--student-weights": settings.student_weights,
        "--student": _place_of(settings.student or ""),
    }
    return {flag: _digest(path.expanduser()) for flag, path in named.items() if path}


def refuse_changed_files(
    run: Path, stored: dict[str, str], now: dict[str, str], instead: str
) -> None:
    """Refuse to resume a run whose files have changed; runs of earlier releases have none.

    Args:
        run: Folder of the run.
        stored: What the run has of ``file_digests``; may hold other facts.
        now: ``file_digests`` of its settings.
        instead: What to do in place of resuming it, for the error.
    """
    for flag, digest in now.items():
        if stored.get(flag, digest) != digest:
            raise UsageError(
                f"The file of {flag} of the run {run} has changed since; {instead}."
            )


def _place_of(student: str) -> Path | None:
    # FILE.py:FUNCTION or a folder of transformers; the other names have none
    file, _, _ = student.rpartition(":")
    if file.endswith(".py"):
        return Path(file)
    folder = Path(student).expanduser()
    return folder if student and (folder / "config.json").exists() else None


def _digest(path: Path) -> str:
    # of a folder of transformers its configuration and weights; runs may lie there, too
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        if file == path or file.suffix in {".json", ".safetensors", ".bin"}:
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
