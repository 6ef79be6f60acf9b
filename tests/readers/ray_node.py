"""What Ray makes of a node's environment: the slice's type, topology and name, and the node's place in it.

A question is the environment, and the chips that the container asks for, which Ray would count among the devices.
"""

from typing import Any

import forked
from ray._private.accelerators import tpu


def conclusion(question: Any) -> forked.Answer:
    """Its accelerator manager, asked as Ray does when a node starts."""
    asked: list[str] = []
    manager = tpu.TPUAcceleratorManager

    def metadata(key: str) -> None:
        asked.append(key)

    tpu._get_tpu_metadata = metadata
    manager.get_current_node_num_accelerators = staticmethod(lambda: question["chips"])
    return {
        "type": manager.get_current_node_tpu_pod_type(),
        "topology": manager.get_current_node_tpu_topology(),
        "id": manager.get_current_node_tpu_worker_id(),
        "workers": manager.get_num_workers_in_current_tpu_pod(),
        "resources": manager.get_current_node_additional_resources(),
        "asked": asked,
    }


forked.answer_all(conclusion)
