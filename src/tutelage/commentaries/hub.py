"""Commentaries in data set repositories of the Hugging Face Hub."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tutelage.commentaries.folders import CARD, FILES, read_card, require_free
from tutelage.errors import MissingExtraError, UsageError, first_few
from tutelage.storage.atomic_files import fresh_folder, replace_folder
from tutelage.storage.json_files import write_error

HUB = "hf://"
"""begins the address of a commentary on the Hub: ``hf://user/name``, or with ``@revision``"""
_NAME = re.compile(r"(?:hf://)?(?:datasets/)?(\w[\w.-]*/\w[\w.-]*)(?:@([\w./-]+))?")
_IGNORED = {".gitattributes", ".gitignore", "LICENSE"}


def push_commentary(
    folder: str | Path, repository: str, *, private: bool = False, token: str | None = None
) -> str:
    """Upload a commentary to a data set repository of the Hugging Face Hub.

    The repository is made if there is none; a commentary in it gets a new revision.

    Args:
        folder: The commentary.
        repository: ``user/name``.
        private: Whether a repository that is made is private.
        token: A token that may write; by default that of ``hf auth login`` or ``HF_TOKEN``.

    Returns:
        Its address, ``hf://user/name``.

    Raises:
        UsageError: If the folder is no commentary, the repository holds something else, there
            is no token that may write, or the Hub cannot be reached.
    """
    folder = Path(folder)
    read_card(folder)
    name, revision = _parsed(repository)
    if revision is not None:
        raise UsageError(
            f"{repository} names a revision, which is made by the Hub: leave it out."
        )
    hub = _hub()
    if token is None and hub.get_token() is None:
        raise UsageError(
            f"No token to write {name} with: log in with hf auth login, or set HF_TOKEN."
        )
    with _errors_in_one_line(name):
        api = hub.HfApi(token=token)
        api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        there = set(api.list_repo_files(name, repo_type="dataset"))
        strange = there - _IGNORED - (FILES if CARD in there else {"README.md"})
        if strange:
            raise UsageError(
                f"{HUB}{name} holds something that is not a commentary "
                f"({first_few(sorted(strange), 3)}); name another."
            )
        api.upload_folder(
            repo_id=name,
            folder_path=folder,
            repo_type="dataset",
            allow_patterns=sorted(FILES),
            commit_message="Upload a commentary of tutelage",
        )
    return f"{HUB}{name}"


def pull_commentary(
    repository: str,
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
    token: str | None = None,
) -> Path:
    """Download a commentary from a data set repository of the Hugging Face Hub.

    Args:
        repository: ``user/name`` or ``hf://user/name``, either with ``@revision``.
        out: The folder that it is copied to; None: it stays in the cache of the Hub's client.
        overwrite: Whether a commentary in ``out`` is replaced.
        token: Of private repositories; by default that of ``hf auth login`` or ``HF_TOKEN``.

    Returns:
        The folder.

    Raises:
        UsageError: If there is no such repository or no commentary in it, the Hub cannot be
            reached, or ``out`` is taken.
    """
    name, revision = _parsed(repository)
    if out is not None:
        require_free(Path(out), overwrite=overwrite)
    with _errors_in_one_line(name):
        found = _hub().snapshot_download(
            name,
            repo_type="dataset",
            revision=revision,
            allow_patterns=sorted(FILES),
            token=token,
        )
    stored = Path(found)
    if not (stored / CARD).is_file():
        raise UsageError(f"{HUB}{name} is no commentary: it has no {CARD}.")
    read_card(stored)
    return stored if out is None else _copied(stored, Path(out).resolve())


def local_folder(place: str | Path) -> Path:
    """The folder of a commentary, downloaded where ``place`` begins with ``hf://``."""
    if is_address(place):
        return pull_commentary(HUB + "/".join(Path(place).parts[1:]))
    return Path(place)


def is_address(place: str | Path) -> bool:
    """Whether it is an address of the Hub, which has one slash less in a ``Path``."""
    return Path(place).parts[:1] == ("hf:",)


def _copied(stored: Path, out: Path) -> Path:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh = fresh_folder(out)
        try:
            for name in FILES:
                if (stored / name).is_file():
                    shutil.copyfile(stored / name, fresh / name)
            replace_folder(fresh, out)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise UsageError(write_error(error, out, "or name another folder")) from error
    return out


def _parsed(repository: str) -> tuple[str, str | None]:
    match = _NAME.fullmatch(repository)
    if match is None:
        raise UsageError(
            f"'{repository}' is no repository of the Hugging Face Hub; allowed: user/name, or "
            f"{HUB}user/name."
        )
    return match[1], match[2]


def _hub() -> Any:
    try:
        import huggingface_hub.errors  # `import huggingface_hub` alone does not bring it
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "hub") from error
    return huggingface_hub


@contextmanager
def _errors_in_one_line(name: str) -> Iterator[None]:
    errors = _hub().errors
    try:
        yield
    except UsageError:
        raise
    except errors.RevisionNotFoundError as error:
        raise UsageError(f"{HUB}{name} has no such revision; leave it out.") from error
    except errors.RepositoryNotFoundError as error:
        raise UsageError(
            f"There is no data set repository {name} on the Hugging Face Hub, or it is private "
            "and needs a token: check the name, or log in with hf auth login."
        ) from error
    except (errors.HTTPError, OSError, ValueError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        if status in (401, 403) or isinstance(error, errors.LocalTokenNotFoundError):
            raise UsageError(
                f"The token may not use {name} ({reason:.120}): log in with hf auth login, or "
                "set HF_TOKEN to one that may."
            ) from error
        raise UsageError(
            f"{HUB}{name} cannot be reached on the Hugging Face Hub ({reason:.120}): try again "
            "with a network."
        ) from error
