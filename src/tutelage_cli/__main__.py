"""The command ``tutelage``, which ends alike wherever it is interrupted, imports included."""

import sys

from tutelage.errors import interrupted

STOPPED = 130
"""the exit code"""


def main() -> int:
    """Run the command line."""
    try:
        from tutelage_cli.cli import main as run  # takes a while, in which Ctrl-C may come

        return run()
    except BaseException as error:
        if not interrupted(error):
            raise
        sys.stderr.write("tutelage: interrupted.\n")
        return STOPPED


if __name__ == "__main__":
    sys.exit(main())
