"""Which templates of an object ask for an accelerator, and whether they were injected. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec

from webhook.check.facts import Asked
from webhook.core.admission import view
from webhook.core.annotations import INJECTED, PREFIX
from webhook.core.devices import asked_amounts
from webhook.core.inject import inject, is_mirrored, targets_of
from webhook.core.kinds import owners
from webhook.core.kinds.kind import Context, Kind, Target
from webhook.core.messages import Denied
from webhook.core.patch import at
from webhook.core.site import Site

ENDED = ("Succeeded", "Failed")


def asked(workload: Kind[Any], value: dict[str, Any], site: Site) -> Iterator[Asked]:
    """The templates of a stored object (JSON) that ask; none if it has ended, or is injected through another object."""
    raw = msgspec.json.encode(_as_it_came(value))
    metadata = value.get("metadata") or {}
    if PREFIX.encode() not in raw or metadata.get("deletionTimestamp") or _ended(value):
        return
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    try:
        obj = view(workload, raw)
        if is_mirrored(obj.metadata) or owners.skipped(workload, obj, site) is not None:
            return
        refusal = _refused(workload, obj, Context(namespace, site)) if workload.reapply == "mutable" else ""
        for target in targets_of(workload, obj, Context(namespace, site)):
            yield msgspec.structs.replace(
                _asked(workload, namespace, name, target), disagrees=refusal or _differs(target)
            )
    except Denied as denied:
        line = denied.message.splitlines()[0]
        yield Asked(workload.kind, namespace, name, injected=INJECTED.encode() in raw, refused=line)


def _asked(workload: Kind[Any], namespace: str, name: str, target: Target) -> Asked:
    resolution = target.resolution
    host = resolution.request.mode == "host"
    return Asked(
        kind=workload.kind,
        namespace=namespace,
        name=name,
        hardware=resolution.accelerator,
        devices=0 if host else sum(device_container.devices for device_container in resolution.device_containers),
        host=host,
        injected=target.template.annotations.get(INJECTED) is not None,
    )


def _refused(workload: Kind[Any], obj: Any, context: Context) -> str:
    """Why an update of the stored object would be refused, since each update is validated; empty if it would not."""
    try:
        inject(workload, obj, context)
    except Denied as denied:
        return denied.message.splitlines()[0]
    return ""


def _differs(target: Target) -> str:
    """How an injected template's fields differ from what its annotations mean; empty if they agree.

    Only hardware and devices are compared: the site's labels and schedulers may have changed since, and stored objects
    keep what they were created with.
    """
    template, resolution = target.template, target.resolution
    hardware, injected = resolution.accelerator, template.annotations.get(INJECTED)
    if injected is None:
        return ""
    if injected != hardware.name:
        return f"asks for {hardware.name}, and {injected} was injected"
    for label, values in hardware.selector:
        have = (template.spec.nodeSelector or {}).get(label)
        if have is not None and have not in values and not resolution.formed:
            return f"asks for {hardware.name}, and selects {label}: {have}"
    if resolution.request.mode == "plugin":
        for held in resolution.device_containers:
            # In the stored object: the view that was resolved lacks what a LimitRange filled in.
            container = at(template.view, ("spec", held.list_name, held.index))
            if held.devices and not asked_amounts(container, hardware.resource):
                return f"asks for {hardware.name}, and container {held.container.name} has no {hardware.resource}"
    return ""


def _as_it_came(value: dict[str, Any]) -> dict[str, Any]:
    """Without the node that the scheduler chose: only Pods created with one are left alone."""
    spec = value.get("spec") or {}
    if "nodeName" not in spec:
        return value
    return {**value, "spec": {key: kept for key, kept in spec.items() if key != "nodeName"}}


def _ended(value: dict[str, Any]) -> bool:
    status = value.get("status") or {}
    done = any(c.get("status") == "True" and c.get("type") in DONE for c in status.get("conditions") or ())
    return status.get("phase") in ENDED or done


DONE = ("Complete", "Completed", "Failed")
"""Conditions of a Job and of a JobSet that has ended."""
