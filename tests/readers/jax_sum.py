"""`jax.distributed.initialize()` without arguments in one process for each environment, and a sum over all of them.

All names lead to loopback. JAX, gloo and their network are the real ones; the devices are CPUs.
"""

import json
import os
import socket
import subprocess
import sys
from typing import Any

SECONDS = 100


def main() -> None:
    """Start the processes; the answer of each is the last line that it writes."""
    environments = json.load(sys.stdin)
    command = [sys.executable, __file__, "process"]
    own = {"PATH": os.environ["PATH"], "JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    started = [subprocess.Popen(command, env={**own, **e}, stdout=subprocess.PIPE, text=True) for e in environments]
    try:
        texts = [process.communicate(timeout=SECONDS)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    json.dump([json.loads(text.splitlines()[-1]) for text in texts], sys.stdout)


def process() -> None:
    """One host: its number, the number of them, and the sum of all numbers from 1."""
    import jax
    from jax._src import distributed
    from jax._src.clusters import cloud_tpu_cluster

    cloud_tpu_cluster.running_in_cloud_tpu_vm = True
    resolve(distributed._jax)
    jax.distributed.initialize(initialization_timeout=SECONDS)
    devices = jax.local_device_count()
    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(jax.numpy.full(devices, jax.process_index() + 1.0))
    print(json.dumps({"id": jax.process_index(), "count": jax.process_count(), "sum": float(total[0])}), flush=True)
    jax.distributed.shutdown()


def resolve(runtime: Any) -> None:
    """Every name is loopback: for Python's resolver, and for the one that is compiled in."""
    connect = runtime.get_distributed_runtime_client

    def client(address: str, *args: Any, **kwargs: Any) -> Any:
        return connect(f"127.0.0.1:{address.rsplit(':', 1)[1]}", *args, **kwargs)

    runtime.get_distributed_runtime_client = client
    socket.gethostbyname = lambda _name: "127.0.0.1"


if sys.argv[1:] == ["process"]:
    process()
else:
    main()
