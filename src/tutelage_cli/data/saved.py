"""Folders that ``save_to_disk`` of Hugging Face datasets wrote, which are no source here."""

from pathlib import Path

from tutelage.errors import UsageError

_ONE, _SEVERAL = ("state.json", "dataset_info.json"), "dataset_dict.json"


def refuse_saved(folder: Path) -> None:
    """Refuse a folder of ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk``."""
    several = (folder / _SEVERAL).is_file()
    if not several and not all((folder / name).is_file() for name in _ONE):
        return
    saved = f"datasets.load_from_disk({str(folder)!r})"
    export = (
        f"for name, part in {saved}.items(): part.to_parquet(f'FOLDER/{{name}}.parquet')"
        if several
        else f"{saved}.to_parquet('FOLDER/train.parquet')"
    )
    raise UsageError(
        f"{folder} was written by save_to_disk of datasets, which is read by load_from_disk "
        f"alone. Export it as Parquet and give that folder: {export}"
    )
