"""Worker processes that keep what they have loaded."""

import sys


def keep_loaded() -> None:
    """Let this worker of joblib's go on however much memory it has come to hold.

    Where psutil is installed, a worker ends itself once it has grown by 300 MB, which torch and
    a data set alone exceed, and its successor loads both anew. An initialiser for
    ``joblib.Parallel``.
    """
    executor = sys.modules.get("joblib.externals.loky.process_executor")
    if executor is not None:
        setattr(executor, "_USE_PSUTIL", False)  # noqa: B010 - it has no public switch
