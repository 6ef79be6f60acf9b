"""Some of the hostile files that `python -m tests.fuzz` makes as many of as one likes."""

from tests.fuzz import configs, manifests

SEED = 20261130


def test_some_mutated_manifests() -> None:
    """3,000 texts: injected, denied or refused, and nothing else."""
    assert manifests.run(3000, SEED) == []


def test_some_mutated_site_configs() -> None:
    """1,000 texts: a site, or an error of one line."""
    assert configs.run(1000, SEED) == []
