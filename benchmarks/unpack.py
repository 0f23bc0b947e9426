"""Makes what `benchmarks.pack` packed importable, with the standard library alone.

    python -m benchmarks.unpack WHEELS FOLDER

A wheel whose package is there already is passed over, so that nothing of the machine's own is
put aside; FOLDER goes on the path behind it.
"""

import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path


def packages(wheel: zipfile.ZipFile) -> set[str]:
    """The names that a wheel makes importable.

    Args:
        wheel: An open wheel.

    Returns:
        Its packages and modules at the top.
    """
    names = (name.split("/") for name in wheel.namelist() if name.endswith(".py"))
    return {parts[0].removesuffix(".py") for parts in names if parts[0].isidentifier()} | {
        parts[0].removesuffix(".py") for parts in names if len(parts) == 1
    }


def unpack(wheels: Path, folder: Path) -> list[str]:
    """Unpack the wheels whose packages are missing.

    Args:
        wheels: A folder of pure-Python wheels.
        folder: Where to.

    Returns:
        The names of the files unpacked.
    """
    done = []
    for file in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(file) as wheel:
            if all(find_spec(name) is not None for name in packages(wheel)):
                continue
            wheel.extractall(folder)
        done.append(file.name)
    return done


def main() -> None:
    """Unpack and say what."""
    wheels, folder = map(Path, sys.argv[1:])
    print("unpacked:", ", ".join(unpack(wheels, folder)) or "nothing")


if __name__ == "__main__":
    main()
