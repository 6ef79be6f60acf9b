"""Shared code of tests: one noun per file."""
