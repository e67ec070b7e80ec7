"""Errors of a registration: what cannot be carried over, and what the command rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Problem(NamedTuple):
    """A part of a model or of its frame that Sluice cannot reproduce."""

    what: str
    """The step, column or class, by its name."""
    why: str
    """The reason."""
    remedy: str
    """What to do instead."""


class CannotRegister(Exception):
    """The model has parts that cannot be carried over. No command was run and nothing was registered.

    `problems`: every problem that was found, as tuples (what, why, remedy).
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        lines = [f"- {what}: {why}. {remedy}" for what, why, remedy in self.problems]
        super().__init__("the model cannot be registered:\n" + "\n".join(lines))


class RegistrationError(Exception):
    """The sluice command failed, or rejected the model.

    `code`: code of the command's error (docs/errors.md), or `command_not_found`, `command_timeout`, `command_failed`.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def first_line(error: BaseException) -> str:
    """The first line of an error's message without its full stop, or the type of an error without a message."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200].rstrip(".")
