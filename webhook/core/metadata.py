"""What an object's metadata says, where any of it may be missing. Pure."""

from webhook.core.schema.pod import NO_LABELS, Annotations, Labels, Metadata, OwnerReference


def annotations_of(metadata: Metadata | None) -> Annotations:
    """The annotations, empty where they or their parent are missing."""
    return (metadata and metadata.annotations) or {}


def labels_of(metadata: Metadata | None) -> Labels:
    """The labels, empty where they or their parent are missing."""
    return (metadata and metadata.labels) or NO_LABELS


def controller_of(metadata: Metadata | None) -> OwnerReference | None:
    """The one owner that manages the object (`controller: true`), if any."""
    for owner in (metadata and metadata.ownerReferences) or ():
        if owner.controller:
            return owner
    return None
