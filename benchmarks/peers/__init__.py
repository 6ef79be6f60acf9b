"""Peers in Python; each is a program."""
