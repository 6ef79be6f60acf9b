"""The libraries that read what is injected, asked for what they make of it.

`venv.py` installs them, each other file is a program that runs among them: JSON in, JSON out.
"""
