"""The command ``tutelage``: checks that its packages are installed, and ends on Ctrl-C.

Exit codes: 0, 2 for wrong use, and 130 where Ctrl-C or SIGTERM stopped the command.
"""

import signal
import sys
from importlib.metadata import version
from importlib.util import find_spec

from tutelage.errors import interrupted
from tutelage_cli.runner.workers import ENDING, handling, raise_interrupt

WRONG_USE, STOPPED = 2, 130
"""exit codes"""
MODULES = {
    "altair": "altair",
    "datasets": "datasets",
    "joblib": "joblib",
    "mlxtend": "mlxtend",
    "PIL": "pillow",
    "pyarrow": "pyarrow",
    "yaml": "pyyaml",
    "rich": "rich",
    "sklearn": "scikit-learn",
    "scipy": "scipy",
    "tensorboard": "tensorboard",
    "tokenizers": "tokenizers",
    "torchvision": "torchvision",
    "tyro": "tyro",
    "vl_convert": "vl-convert-python",
}
"""Modules of the extra ``train`` and the packages that bring them."""


def main() -> int:
    """Run the command line as a process that ends with it."""
    for number in ENDING:  # after the command there is nothing left to stop
        signal.signal(number, signal.SIG_IGN)
    try:
        with handling(raise_interrupt):
            return _main()
    except BaseException as error:
        if not interrupted(error):
            raise
        sys.stderr.write("tutelage: interrupted.\n")
        return STOPPED


def _main() -> int:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"tutelage {version('tutelage')}\n")
        return 0
    missing = [package for module, package in MODULES.items() if find_spec(module) is None]
    if missing:
        sys.stderr.write(
            f"tutelage: not installed: {', '.join(missing)}. "
            "Install the command line with: pip install '.[train]' in a checkout of tutelage\n"
        )
        return WRONG_USE
    from tutelage_cli.cli import main as run  # takes a while, in which Ctrl-C may come

    return run()


if __name__ == "__main__":
    sys.exit(main())
