"""What JAX concludes from a container's environment: the coordinator's address, the processes, and which it is.

A question is the environment, and the names that the cluster's DNS knows.
"""

import socket
import time
from typing import Any

import forked
import jax  # noqa: F401  # its clusters are registered by it
from jax._src import clusters
from jax._src.clusters import cloud_tpu_cluster


class NoMetadataServer(Exception):
    """There is none where we run."""


def main() -> None:
    """As on a machine with chips and libtpu, which is all that this one lacks."""
    cloud_tpu_cluster.running_in_cloud_tpu_vm = True
    forked.answer_all(conclusion)


def conclusion(question: Any) -> forked.Answer:
    """What `jax.distributed.initialize()` would begin with."""
    asked: list[str] = []

    def get_metadata(key: str) -> tuple[str, int]:
        asked.append(key)
        return "", 404

    def gethostbyname(name: str) -> str:
        if name in question["names"]:
            return "127.0.0.1"
        raise socket.gaierror(f"no such name: {name}")

    cloud_tpu_cluster.get_metadata = get_metadata
    socket.gethostbyname = gethostbyname
    time.sleep = lambda _seconds: None
    address, count, index, _ = clusters.ClusterEnv.auto_detect_unset_distributed_params(None, None, None, None, None, 1)
    return {"address": address, "count": count, "id": index, "asked": asked}


main()
