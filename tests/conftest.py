"""What all tests share: the option that rewrites golden files."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make goldens`."""
    parser.addoption("--update-goldens", action="store_true", help="rewrite tests/cases/*/*/expected.yaml and its like")
