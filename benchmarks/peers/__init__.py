"""Peers in Python, each a program of its own that is started beside the others."""
