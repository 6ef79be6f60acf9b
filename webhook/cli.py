"""The command `accel`: filled by its own change."""


def main() -> None:
    """Entry point."""
