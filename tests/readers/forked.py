"""One process for each question, forked after the library is there, with nothing else in its environment.

A library takes a second to import, and a workload has many containers.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]


def answer_all(answer: Callable[[Any], Answer]) -> None:
    """Read the questions, answer each in a process of its own, write the answers."""
    questions = json.load(sys.stdin)
    json.dump([_answered(answer, question) for question in questions], sys.stdout)


def _answered(answer: Callable[[Any], Answer], question: Any) -> Answer:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _write(writing, answer, question)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        text = file.read()
    os.waitpid(child, 0)
    found: Answer = json.loads(text)
    return found


def _write(writing: int, answer: Callable[[Any], Answer], question: Any) -> None:
    with contextlib.redirect_stdout(sys.stderr):
        os.environ.clear()
        os.environ.update(question["environment"])
        try:
            found = answer(question)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
    with open(writing, "w") as file:
        json.dump(found, file)
