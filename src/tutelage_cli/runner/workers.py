"""Worker processes that keep what they have loaded."""

import sys


def keep_loaded() -> None:
    """Keep this joblib worker alive however much its memory has grown.

    Where psutil is installed, a worker exits once it has grown by 300 MB, which torch and a
    data set exceed, and its replacement loads both again. An initialiser for
    ``joblib.Parallel``.
    """
    executor = sys.modules.get("joblib.externals.loky.process_executor")
    if executor is not None:
        setattr(executor, "_USE_PSUTIL", False)  # noqa: B010 - it has no public switch
