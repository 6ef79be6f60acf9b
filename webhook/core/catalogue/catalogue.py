"""The catalogue: what an accelerator's name means in hardware. Pure: parses bytes, looks up, computes."""

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from webhook.core import topology
from webhook.core.catalogue import tpu
from webhook.core.catalogue.accelerator import Accelerator, Selector, Slice
from webhook.core.catalogue.families import TPU_RESOURCE, Families
from webhook.core.messages import Denied
from webhook.core.schema.catalogue import Ambiguous, AnyEntry, Devices, Instance, Labels, Model, Platform, Tpu, several
from webhook.core.schema.site import GfdSettings
from webhook.core.topology import Shape
from webhook.core.yaml import decode
from webhook.errors import BadConfig

Sourced = tuple[str, AnyEntry]
"""An entry and its position, for errors: "tpu.yaml: $[3]"."""

ACCELERATOR_LABEL: Final = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY_LABEL: Final = "cloud.google.com/gke-tpu-topology"
LEGACY_ANNOTATION: Final = "tf-version.cloud-tpus.google.com"
INSTANCE_LABEL: Final = "node.kubernetes.io/instance-type"

KARPENTER: Final = "karpenter.k8s.aws/"
AUTO_MODE: Final = "eks.amazonaws.com/"
"""EKS Auto Mode has Karpenter's labels under its own prefix.

Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
"""

FIRST_PORT: Final = 8431
"""The first of TPU_RUNTIME_METRICS_PORTS.

Source: https://github.com/ai-on-gke/tpu-device-plugin/blob/4626a9f4/pkg/tpu/util/util.go
"""

REMEMBERED: Final = 4096
"""Resolved names that are cached. Users choose names, so the cache is bounded."""

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
SINGLE: Final = "gfd.mig: single"
MIG_PRODUCT: Final = "-MIG-"
SHARED: Final = "-SHARED"
"""What GPU feature discovery puts after the product: `A100-SXM4-40GB-MIG-1g.5gb-SHARED`."""

UNDIVIDED: Final = GfdSettings()

PART: Final = "-mig-"
"""Between a model and the profile of its partition."""

NEAREST: Final = 3
"""Names that a denial suggests."""

LONGEST_NAME: Final = 63
"""Characters of a name that are compared with others; no type name is longer."""

_TPU: Final = re.compile(
    r"(?:tpu-)?(?P<generation>[a-z0-9]++)-(?P<size>[1-9][0-9]{0,6}|[1-9][0-9]*+(?:x[1-9][0-9]*+)++)"
)


class Catalogue:
    """All types that this site knows, on its platform. Only its cache of resolved names is mutable."""

    def __init__(
        self,
        entries: Iterable[AnyEntry],
        *,
        platform: Platform = "gke",
        auto_mode: bool = False,
        legacy_nodes: bool = False,
        legacy_version: str = "",
        own: Iterable[str] = (),
        gfd: GfdSettings = UNDIVIDED,
    ) -> None:
        self.platform = platform
        self._gfd = gfd
        self._own = frozenset(own)  # entries of the site's, by name
        self._auto_mode = auto_mode
        self._legacy_nodes = legacy_nodes
        self._legacy_version = legacy_version
        self._entries = {entry.name: entry for entry in entries}
        self.families = Families(self._entries.values())
        self._spelled = _spelled(self._entries.values())
        self._profiles = _profiles(self._entries.values())
        self._generations = {s: e for e in self._entries.values() if isinstance(e, Tpu) for s in e.spellings}
        self._parts = {
            e.mig.prefix: (e, frozenset(self._profiles.get(e.name, ())))
            for e in self._entries.values()
            if isinstance(e, Devices) and e.mig
        }
        self._sizes = _sizes(self._entries)
        self._names = tuple(name for entry in self._entries.values() for name in self._names_of(entry))
        self._whole = tuple(name for name in self._names if PART not in name)
        self._singles: dict[tuple[str, str], Selector] = {}  # one for each model and profile, and each profile
        self._resolved: dict[tuple[str, str | None, int | None], Accelerator] = {}

    @classmethod
    def parse(
        cls,
        files: Iterable[tuple[str, bytes]],
        *,
        platform: Platform = "gke",
        auto_mode: bool = False,
        gfd: GfdSettings = UNDIVIDED,
        legacy_nodes: bool = False,
        legacy_version: str = "",
        extra: Iterable[AnyEntry] = (),
        extra_name: str = "extra",
    ) -> "Catalogue":
        """From data files, (name, YAML bytes) each; `extra` entries override by name. Raises `BadConfig`."""
        sourced: dict[str, Sourced] = {}
        for filename, data in files:
            sourced |= _sourced(f"{filename}: $", decode.decode(data, filename, tuple[AnyEntry, ...]))
        sourced |= _sourced(extra_name, extra)
        _check_links(sourced, extra_name)
        own = [name for name, (place, _) in sourced.items() if place.startswith(extra_name)]
        return cls(
            (entry for _, entry in sourced.values()),
            own=own,
            gfd=gfd,
            platform=platform,
            auto_mode=auto_mode,
            legacy_nodes=legacy_nodes,
            legacy_version=legacy_version,
        )

    def resolve(
        self,
        name: str,
        topology: str | None = None,
        chips_per_host: int | None = None,
        where: str = tpu.TOPOLOGY,
    ) -> Accelerator:
        """The accelerator that `name` means; raises `Denied` with what would be valid.

        `chips_per_host` picks one of `per_host_choices`; anything else means the type's own default. `where` the
        topology is set is only for the denial.
        """
        key = (name, topology, chips_per_host)
        found = self._resolved.get(key)
        if found is None:
            found = self._resolve(name, topology, chips_per_host, where)
            if len(self._resolved) >= REMEMBERED:
                self._resolved.clear()
            self._resolved[key] = found
        return found

    def names(self) -> Iterable[str]:
        """Canonical names of all default types, in the catalogue's order."""
        return self._names

    def models(self) -> frozenset[str]:
        """The names of all models."""
        return frozenset(entry.name for entry in self._entries.values() if isinstance(entry, Model))

    def named(self, name: str) -> str:
        """The type that a name means, by whatever spelling; empty where none does."""
        if self._rules(name) is not None:
            return f"the TPU {spelling(name)}"
        entry = self._spelled.get(spelling(name))
        return entry.name if entry is not None else ""

    def rival(self, alias: str, model: str) -> str:
        """Another model that has this alias too; empty where none has."""
        every = (entry for entry in self._entries.values() if isinstance(entry, Model) and entry.name != model)
        return next((e.name for e in every if spelling(alias) in map(spelling, e.aliases)), "")

    def matching(self, pattern: str) -> Iterator[str]:
        """The names that match a shell pattern (`nvidia-*`)."""
        return (name for name in self._names if fnmatchcase(name, pattern))

    def any_model(self, resource: str) -> str:
        """The name of the type that a resource by itself means: `nvidia-gpu`, `nvidia-mig-1g.5gb`, `tpu-any`.

        Empty if there is none. `tpu-any` cannot be requested, it is only a name for patterns.
        """
        if resource == TPU_RESOURCE:
            return "tpu-any"
        for entry in self._entries.values():
            if isinstance(entry, Devices) and entry.resource == resource:
                return entry.name
            if isinstance(entry, Devices) and entry.mig and resource.startswith(entry.mig.resource):
                return entry.mig.prefix + resource.removeprefix(entry.mig.resource)
        return ""

    def whole_machine(self, resource: str, instance_type: str | None) -> int:
        """The devices of a machine type with this resource, or of the largest one that is known; 0: none is."""
        sizes = self._sizes.get(resource, {})
        return sizes.get(instance_type or "") or max(sizes.values(), default=0)

    def shapes(self, accelerator: Accelerator) -> tuple[str, ...]:
        """Every topology that a TPU type of this size can have, its default (if it has one) first."""
        if accelerator.slice is None:
            return ()
        rules = self._entries[accelerator.slice.generation]
        assert isinstance(rules, Tpu), "a slice's generation is the name of its entry"
        return tuple(map(topology.written, tpu.possible_shapes(rules, accelerator.slice.chips)))

    def counts(self, accelerator: Accelerator) -> str:
        """What the number in a TPU type's name counts, for people: "TensorCores (2 per chip)", else empty."""
        if accelerator.slice is None:
            return ""
        rules = self._entries[accelerator.slice.generation]
        assert isinstance(rules, Tpu), "a slice's generation is the name of its entry"
        cores = rules.cores_per_chip
        return "chips" if cores == 1 else f"TensorCores ({cores} per chip)"

    def _names_of(self, entry: AnyEntry) -> Iterator[str]:
        if isinstance(entry, Tpu):
            for volume in tpu.default_volumes(entry):
                yield f"{entry.prefix}-{volume * entry.cores_per_chip}"
        elif not isinstance(entry, Ambiguous):
            yield entry.name
        if isinstance(entry, Devices) and entry.mig:
            yield from (entry.mig.prefix + profile for profile in self._profiles.get(entry.name, ()))
        if isinstance(entry, Model):
            yield from (f"{entry.name}{PART}{profile}" for profile in entry.mig)

    def _resolve(self, name: str, asked: str | None, chips_per_host: int | None, where: str) -> Accelerator:
        known = self._rules(name)
        if known is not None:
            rules, size = known
            return self._slice(rules, tpu.wanted_shape(rules, size, name, asked, where), chips_per_host)
        found = self._device(name)
        if asked is not None:
            raise Denied("topology-without-tpu", value=asked, type=found.name)
        return found

    def _device(self, name: str) -> Accelerator:
        """Everything except TPUs."""
        entry = self._spelled.get(spelling(name))
        if isinstance(entry, Devices):
            return self._any(entry)
        if isinstance(entry, Model):
            return self._model(entry)
        if isinstance(entry, Instance):
            return self._instance(entry)
        if isinstance(entry, Ambiguous):
            raise Denied("ambiguous-type", value=name, choices=", ".join(entry.choices))
        return self._part(name)

    def _any(self, entry: Devices) -> Accelerator:
        return Accelerator(
            name=entry.name,
            family=entry.family,
            resource=entry.resource,
            count=None,
            max_per_node=None,
            tolerations=self._tolerations(entry),
        )

    def _model(self, entry: Model) -> Accelerator:
        devices = self._devices(entry.of)
        return Accelerator(
            name=entry.name,
            family=devices.family,
            resource=devices.resource,
            count=None,
            max_per_node=entry.most.get(self.platform),
            selector=self._selector(self._labels(entry, self._gfd.of(entry.name)[1])),
            tolerations=self._tolerations(devices, entry),
            pinned=self.platform == "none" or self.platform in entry.select,
            form=self._form(entry),
        )

    def _labels(self, entry: Model, shared: bool, part: str = "") -> Labels:
        """The labels of a model's nodes, or of those whose GPUs are all cut into parts of one profile.

        Source: https://github.com/NVIDIA/k8s-device-plugin/blob/1b826acc/docs/gpu-feature-discovery/README.md
        """
        labels = entry.select.get(self.platform, {})
        if self.platform != "gfd" or PRODUCT_LABEL not in labels:
            return labels
        end = f"{MIG_PRODUCT}{part}" * bool(part) + SHARED * shared
        return {**labels, PRODUCT_LABEL: tuple(value + end for value in several(labels[PRODUCT_LABEL]))}

    def _form(self, entry: Model) -> str:
        known = self.platform == "gfd" and PRODUCT_LABEL in entry.select.get("gfd", {})
        return self._gfd.written(entry.name) if known else ""

    def _instance(self, entry: Instance) -> Accelerator:
        devices = self._devices(entry.of)
        return Accelerator(
            name=entry.name,
            family=devices.family,
            resource=devices.resource,
            count=entry.count,
            max_per_node=entry.count,
            selector=self._selector({INSTANCE_LABEL: entry.instance_type}) if self._has_label(entry) else (),
            tolerations=self._tolerations(devices),
            extras=tuple(entry.extras.items()),
        )

    def _part(self, name: str) -> Accelerator:
        """A partition of a GPU: `nvidia-a100-40gb-mig-1g.5gb`, or of any model: `nvidia-mig-1g.5gb`."""
        spelled = spelling(name)
        for prefix, (devices, profiles) in self._parts.items():
            profile = spelled.removeprefix(prefix)
            if profile != spelled and profile in profiles:
                return self._mig(devices, profile, self._any(devices), prefix + profile)
        whole, part, profile = spelled.rpartition(PART)
        entry = self._spelled.get(whole) if part else None
        if isinstance(entry, Model) and profile in entry.mig:
            return self._mig(self._devices(entry.of), profile, self._model(entry), f"{entry.name}{PART}{profile}")
        if isinstance(entry, Ambiguous):
            choices = [c for c in entry.choices if profile in self._mig_of(c)]
            if choices:
                listing = ", ".join(f"{choice}{PART}{profile}" for choice in choices)
                raise Denied("ambiguous-type", value=name, choices=listing)
        raise self._unknown(name)

    def _mig_of(self, name: str) -> tuple[str, ...]:
        entry = self._spelled.get(name)
        return entry.mig if isinstance(entry, Model) else ()

    def _mig(self, devices: Devices, profile: str, whole: Accelerator, name: str) -> Accelerator:
        """`whole` cut into parts: a resource of their own, or ordinary devices behind a label."""
        if devices.mig is None:
            return whole
        key = devices.mig.labels.get(self.platform)
        if key:
            return replace(whole, name=name, selector=(*whole.selector, (key, (profile,))), max_per_node=None)
        resource = devices.mig.resource + profile
        if self.platform != "gfd":
            return replace(whole, name=name, resource=resource, max_per_node=None)
        if self._gfd.of(whole.name)[0] == "single":
            return replace(
                whole, name=name, selector=self._single(whole, devices, profile), max_per_node=None, form=SINGLE
            )
        # Whole GPUs of the same nodes may be shared beside the parts, or the parts alone.
        return replace(whole, name=name, resource=resource, selector=_either(whole.selector), max_per_node=None)

    def _single(self, whole: Accelerator, devices: Devices, profile: str) -> Selector:
        """The labels of nodes that are cut into this profile: of one model, or of any that is so divided."""
        key = (whole.name, profile)
        found = self._singles.get(key)
        if found is None:
            every = [e for e in self._entries.values() if isinstance(e, Model) and profile in e.mig]
            named = [e for e in every if e.of == devices.name and whole.name in (e.name, devices.name)]
            found = self._singles[key] = self._product_labels(named, profile)
        return found

    def _product_labels(self, models: Iterable[Model], profile: str) -> Selector:
        values: dict[str, None] = {}
        for entry in models:
            strategy, shared = self._gfd.of(entry.name)
            product = self._labels(entry, shared, profile).get(PRODUCT_LABEL, ()) if strategy == "single" else ()
            values.update(dict.fromkeys(several(product)))
        return ((PRODUCT_LABEL, tuple(values)),) if values else ()

    def _devices(self, name: str) -> Devices:
        entry = self._entries[name]
        assert isinstance(entry, Devices), "links are checked when the files are read"
        return entry

    def _tolerations(self, devices: Devices, model: Model | None = None) -> tuple[str, ...]:
        more = devices.platform_tolerations.get(self.platform, ())
        own = model.platform_tolerations.get(self.platform, ()) if model else ()
        return (*devices.tolerations, *more, *own)

    def _has_label(self, entry: Instance) -> bool:
        """Whether the cluster's nodes say that they are of this machine type; on `none` only the admin can know."""
        return self.platform != "none" or entry.name in self._own

    def _selector(self, labels: Labels) -> Selector:
        swap = self._auto_mode and self.platform == "eks"
        return tuple(
            (AUTO_MODE + key.removeprefix(KARPENTER) if swap and key.startswith(KARPENTER) else key, several(values))
            for key, values in labels.items()
        )

    def _rules(self, name: str) -> tuple[Tpu, str] | None:
        """`tpu-v4-16` as (v4, "16"), `v5p-4x4x8` as (v5p, "4x4x8")."""
        match = _TPU.fullmatch(spelling(name))
        rules = self._generations.get(match["generation"]) if match else None
        return (rules, match["size"]) if match and rules else None

    def _slice(self, rules: Tpu, shape: Shape, wanted: int | None) -> Accelerator:
        choices = rules.other_hosts.get(topology.written(shape), (rules.chips_per_host,))
        per_host = wanted if wanted in choices else choices[0]
        figures = slice_of(rules, shape, per_host)
        if rules.legacy_only or (self._legacy_nodes and rules.legacy_resource):
            return self._legacy(rules, figures)
        return Accelerator(
            name=tpu.canonical_name(rules, shape),
            family="tpu",
            resource=TPU_RESOURCE,
            count=per_host,
            max_per_node=per_host,
            hosts=figures.hosts,
            selector=() if self.platform == "none" else _labels(rules, figures),
            tolerations=rules.tolerations,
            slice=figures,
            per_host_choices=tuple(choice for choice in choices if choice != per_host),
        )

    def _legacy(self, rules: Tpu, figures: Slice) -> Accelerator:
        """One Pod has the whole slice, counts TensorCores, and runs on any node."""
        cores = figures.chips * rules.cores_per_chip
        return Accelerator(
            name=f"{rules.prefix}-{cores}",
            family="tpu",
            resource=rules.legacy_resource,
            count=cores,
            max_per_node=cores,
            annotations=((LEGACY_ANNOTATION, self._legacy_version),) if self._legacy_version else (),
            slice=figures,
        )

    def _unknown(self, name: str) -> Denied:
        spelled = spelling(name)[:LONGEST_NAME]
        rules = self._generations.get(spelled.removeprefix("tpu-"))
        if rules is not None:
            return tpu.no_such_size(rules, 0, name)
        near = ", ".join(self._nearest(spelled)) or "none (accel catalogue lists all)"
        return Denied("unknown-type", value=name, nearest=near)

    def _nearest(self, spelled: str) -> list[str]:
        """What was probably meant: partitions of that model, else names that contain it, else similar names."""
        for prefix, (_, profiles) in self._parts.items():
            if spelled.startswith(prefix):
                parts = [prefix + profile for profile in sorted(profiles)]
                return difflib.get_close_matches(spelled, parts, n=NEAREST, cutoff=0)
        model, part, _ = spelled.rpartition(PART)
        if part and self._mig_of(model):
            return [f"{model}{PART}{profile}" for profile in self._mig_of(model)]
        words = [name for name in self._whole if f"-{spelled}-" in f"-{spelling(name)}-"]
        return words[:NEAREST] or difflib.get_close_matches(spelled, self._whole, n=NEAREST, cutoff=0.6)


def spelling(name: str) -> str:
    """How names are compared: case-insensitively, and `_` is `-` (`tpu_v3_8`)."""
    return name.lower().replace("_", "-")


def _spelled(entries: Iterable[AnyEntry]) -> dict[str, AnyEntry]:
    """Entries by every spelling that is not a TPU's; a name takes precedence over another entry's alias."""
    every = [entry for entry in entries if not isinstance(entry, Tpu)]
    spelled: dict[str, AnyEntry] = {spelling(alias): e for e in every if isinstance(e, Model) for alias in e.aliases}
    return spelled | {spelling(entry.name): entry for entry in every}


def _profiles(entries: Iterable[AnyEntry]) -> dict[str, dict[str, None]]:
    """For each entry of devices, the profiles that any of its models has, without duplicates, in order."""
    profiles: dict[str, dict[str, None]] = {}
    for entry in entries:
        if isinstance(entry, Model):
            profiles.setdefault(entry.of, {}).update(dict.fromkeys(entry.mig))
    return profiles


def _sizes(entries: dict[str, AnyEntry]) -> dict[str, dict[str, int]]:
    """Of each resource the machine types that have it, each with the number of its devices."""
    sizes: dict[str, dict[str, int]] = {}
    for entry in entries.values():
        devices = entries.get(entry.of) if isinstance(entry, Instance) else None
        if isinstance(entry, Instance) and isinstance(devices, Devices):
            sizes.setdefault(devices.resource, {})[entry.instance_type] = entry.count
    return sizes


def _sourced(where: str, entries: Iterable[AnyEntry]) -> dict[str, Sourced]:
    """Entries of one file by name, each with its position; raises `BadConfig` if a name occurs twice."""
    sourced: dict[str, Sourced] = {}
    for index, entry in enumerate(entries):
        if entry.name in sourced:
            raise BadConfig(f"{where}[{index}].name: {entry.name} is already defined, at {sourced[entry.name][0]}")
        sourced[entry.name] = (f"{where}[{index}]", entry)
    return sourced


def _check_links(sourced: dict[str, Sourced], own: str) -> None:
    """Entries must refer only to existing entries; raises `BadConfig`.

    A site's entry, whose position begins with `own`, is at fault if it replaced what a built-in one refers to.
    """
    for where, entry in sourced.values():
        if isinstance(entry, Model):
            _check_mig_labels(sourced, where, entry, own)
        if isinstance(entry, Model | Instance):
            there, target = sourced.get(entry.of, ("", None))
            if not isinstance(target, Devices):
                _check_replaced(where, there, own, "devices")
                known = [name for name, (_, e) in sourced.items() if isinstance(e, Devices)]
                raise BadConfig(f'{where}.of: found "{entry.of}"; valid: {", ".join(known)}')
        if isinstance(entry, Ambiguous):
            for choice in entry.choices:
                there, target = sourced.get(choice, ("", None))
                if not isinstance(target, Model):
                    _check_replaced(where, there, own, "model")
                    raise BadConfig(f'{where}.choices: found "{choice}"; valid: the name of a model')


def _check_mig_labels(sourced: dict[str, Sourced], where: str, model: Model, own: str) -> None:
    """A label cannot have the model's value and the part's; raises `BadConfig`."""
    there, devices = sourced.get(model.of, ("", None))
    if not isinstance(devices, Devices) or devices.mig is None or not model.mig:
        return
    for platform, key in devices.mig.labels.items():
        if key in model.select.get(platform, {}):
            place = f"{there}.mig.labels.{platform}" if there.startswith(own) else f"{where}.select.{platform}"
            raise BadConfig(
                f"{place}: {key} cannot be {model.name}'s and a part's at once; for MIG's strategy single on "
                "platform gfd say gfd: {mig: single} instead"
            )


def _check_replaced(where: str, there: str, own: str, kind: str) -> None:
    if there.startswith(own) and not where.startswith(own):
        raise BadConfig(f"{there}.kind: {where} needs an entry of this name; valid: {kind}")


def _either(selector: Selector) -> Selector:
    """A product's label with and without the end of a shared one."""
    return tuple(
        (label, tuple(dict.fromkeys(v for value in values for v in (value.removesuffix(SHARED), value))))
        if label == PRODUCT_LABEL
        else (label, values)
        for label, values in selector
    )


def slice_of(rules: Tpu, shape: Shape, per_host: int) -> Slice:
    """Everything that libtpu needs to know about a slice."""
    chips = topology.volume(shape)
    grid = topology.host_bounds(shape, per_host)
    if grid is None:
        raise ValueError(f"{rules.name}: hosts of {per_host} chips do not tile {topology.written(shape)}")
    return Slice(
        generation=rules.name,
        accelerator_type=f"{rules.name}-{chips * rules.cores_per_chip}",
        topology=topology.written(shape),
        chips=chips,
        chips_per_host=per_host,
        hosts=topology.volume(grid),
        chips_per_host_bounds=topology.bounds(topology.HOST_BOUNDS[per_host]),
        host_bounds=topology.bounds(grid),
        wrap=topology.wraps(shape, rules.wrap),
        resilient=_resilient(rules, shape),
        ports=tuple(range(FIRST_PORT, FIRST_PORT + per_host * rules.ports_per_chip)),
        multislice=rules.multislice,
        divisible=rules.divisible,
    )


def _resilient(rules: Tpu, shape: Shape) -> bool:
    """Only whole cubes have redundant links."""
    return rules.ici_resiliency and rules.cubes is not None and min(shape) >= rules.cubes.edge


def _labels(rules: Tpu, figures: Slice) -> Selector:
    single = rules.single_host_label if figures.hosts == 1 else ""
    return (ACCELERATOR_LABEL, (single or rules.label,)), (TOPOLOGY_LABEL, (figures.topology,))
