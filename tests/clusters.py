"""Ray in tests: a cluster of two nodes on this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RAY_WARNS = [
    pytest.mark.filterwarnings(f"ignore::{kind}")
    for kind in ("DeprecationWarning", "FutureWarning", "ResourceWarning")
]
"""marks of tests that start Ray, whose own code warns"""


def require_ray() -> Any:
    """The module; the test is skipped without it."""
    return pytest.importorskip("ray", reason="the extra 'cluster' is not installed")


def for_nodes(patch: pytest.MonkeyPatch) -> None:
    """Let the processes that Ray starts import this project, and start a cluster of its own.

    Without tokens, which Ray would store in the user's home folder.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    patch.setenv("PYTHONPATH", os.pathsep.join(paths))
    patch.setenv("RAY_ADDRESS", "local")
    patch.setenv("RAY_AUTH_MODE", "disabled")


class Nodes:
    """A cluster whose nodes have a CPU each.

    Args:
        cluster: Ray's own, with one node.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.address: str = cluster.address
        self.second = cluster.add_node(num_cpus=1)

    def kill_second(self) -> str:
        """Kill all processes of the second node; gives its id."""
        killed = self.second
        self._cluster.remove_node(killed, allow_graceful=False)
        return killed.node_id

    def add_second(self) -> None:
        """Add a node in place of the killed one."""
        self.second = self._cluster.add_node(num_cpus=1)


@contextmanager
def two_nodes() -> Iterator[Nodes]:
    """A cluster of two nodes, which this process is connected to."""
    ray = require_ray()
    cluster_utils = import_module("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        for_nodes(patch)
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        try:
            nodes = Nodes(cluster)
            patch.setenv("RAY_ADDRESS", nodes.address)
            ray.init(logging_level="error", log_to_driver=False)
            yield nodes
        finally:
            ray.shutdown()
            cluster.shutdown()
