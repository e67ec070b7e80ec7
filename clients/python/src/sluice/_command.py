"""Finds and runs the sluice command."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from ._errors import RegistrationError

CODE = re.compile(r"\[([a-z0-9_]+)\]\s*$", re.MULTILINE)


def find_command(command: str | Sequence[str] | None) -> list[str]:
    """The command as a list of arguments: `command`, else SLUICE_COMMAND, else `sluice`, else `npx sluice`.

    Raises RegistrationError (`command_not_found`).
    """
    chosen = command if command is not None else os.environ.get("SLUICE_COMMAND")
    if chosen:
        return shlex.split(chosen) if isinstance(chosen, str) else list(chosen)
    for words in (["sluice"], ["npx", "--no-install", "sluice"]):
        program = shutil.which(words[0])
        if program is not None:
            return [program, *words[1:]]
    raise RegistrationError(
        "command_not_found",
        "neither sluice nor npx is on the path: install Sluice, set SLUICE_COMMAND, or pass command=",
    )


def add_model(command: Sequence[str], arguments: Sequence[str], timeout: float) -> tuple[dict[str, Any], str]:
    """Runs `sluice model add --json`. Returns its JSON document and its report as Markdown.

    `timeout` is in seconds. Raises RegistrationError with the code and the message of the command.
    """
    full = [*command, "model", "add", *arguments, "--json"]
    try:
        run = subprocess.run(full, capture_output=True, text=True, encoding="utf-8", timeout=timeout, check=False)
    except FileNotFoundError as error:
        raise RegistrationError("command_not_found", f"{command[0]} cannot be started") from error
    except subprocess.TimeoutExpired as error:
        raise RegistrationError("command_timeout", f"sluice model add did not end within {timeout:g} s") from error
    if run.returncode != 0:
        codes = CODE.findall(run.stderr)
        raise RegistrationError(codes[-1] if codes else "command_failed", run.stderr.strip() or "no message")
    return json.loads(run.stdout), run.stderr.strip()
