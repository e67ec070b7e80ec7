"""Predictions by the sluice command, without a service: for notebooks and tests."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from ._command import CODE, find_command
from ._errors import RegistrationError
from ._exchange import Flow
from ._http_errors import CommandFailed
from ._operations import Operations, Request

DONE = (0, 3)
"""Exit codes with an output: every row was scored, or some were rejected."""


class Local(Operations):
    """Runs `sluice score` for each call. `model` is the default of every method."""

    def __init__(self, model: str, registry: str | None, command: str | Sequence[str] | None, timeout: float) -> None:
        self._default = model
        self._registry = [] if registry is None else ["--registry", registry]
        self._timeout = timeout
        self._known: dict[str, dict[str, Any]] = {}
        try:
            self._command = find_command(command)
        except RegistrationError as error:
            raise CommandFailed(str(error), error.code) from None

    def __repr__(self) -> str:
        return f"sluice.local({self._default!r})"

    @property
    def columns(self) -> Any:
        """The columns of the default model, as `models[…].columns`."""
        return self.models[self._default].columns

    @property
    def sample(self) -> Any:
        """An example application of the default model."""
        return self.models[self._default].sample

    def close(self) -> None:
        """Nothing is open between calls."""

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _model(self, model: str | None) -> str:
        return self._default if model is None else model

    def _run(self, flow: Flow[Any]) -> Any:
        try:
            next(flow)
        except StopIteration as end:
            return end.value
        raise AssertionError("a local operation sends no request")

    def _describe(self, ref: str, *, fresh: bool = False) -> Flow[dict[str, Any]]:
        # A reference can move to another version; a run of the command takes the version of that moment.
        if fresh or ref not in self._known:
            self._known[ref] = json.loads(self._output(["model", "show", ref, *self._registry, "--json"]))
        return self._known[ref]
        yield

    def _columns(self, ref: str) -> Flow[list[dict[str, Any]] | None]:
        return list((yield from self._describe(ref))["columns"])

    def _list(self) -> Flow[list[dict[str, Any]]]:
        return list(json.loads(self._output(["model", "list", *self._registry, "--json"]))["models"])
        yield

    def _drift(self, ref: str, window: str) -> Flow[dict[str, Any]]:
        raise NotImplementedError("drift is measured by a service: use sluice.Client")
        yield

    def _score(self, request: Request) -> Flow[Any]:
        frame = request.frame
        arguments = ["score", "-", "--model", request.model, "--input-format", frame.suffix, "--format", frame.suffix]
        arguments += [*self._registry, "--allow-empty", "--quiet"]
        if request.explain:
            arguments.append("--interpretation")
        if request.top is not None:
            arguments += ["--top", str(request.top)]
        into = frame.begin_answer()
        failure: list[Exception] = []
        with tempfile.TemporaryFile() as messages:
            process = self._start(arguments, messages)

            def feed() -> None:
                assert process.stdin is not None
                try:
                    with process.stdin as pipe:
                        for chunk in frame.chunks(request.names):
                            pipe.write(chunk)
                except BrokenPipeError:
                    # The command ended early; its message has the reason.
                    pass
                except Exception as error:
                    failure.append(error)
                    process.kill()

            # Writing in a thread of its own, because the command answers while it reads.
            feeder = threading.Thread(target=feed, daemon=True)
            watch = threading.Timer(self._timeout, process.kill)
            feeder.start()
            watch.start()
            assert process.stdout is not None
            try:
                while chunk := process.stdout.read1(1 << 20):  # type: ignore[attr-defined]
                    into(chunk)
                code = process.wait()
            finally:
                watch.cancel()
                if process.poll() is None:
                    process.kill()
                    process.wait()
                feeder.join()
                process.stdout.close()
            if failure:
                raise failure[0]
            messages.seek(0)
            self._check(code, messages.read().decode("utf-8", "replace"))
        return None
        yield

    def _score_file(self, source: str, target: str, model: str, options: dict[str, Any]) -> Flow[dict[str, Any]]:
        arguments = ["score", source, "--model", model, "-o", target, *self._registry, "--json", "--quiet"]
        if options["explain"]:
            arguments.append("--interpretation")
        if options["top"] is not None:
            arguments += ["--top", str(options["top"])]
        if options["passthrough"]:
            arguments += ["--passthrough", options["passthrough"]]
        text = self._output(arguments)
        summary = json.loads(text.strip().splitlines()[-1])
        counts = summary.get("summary", summary)
        return {name: counts[name] for name in ("rows", "scored", "rejected")}
        yield

    def _start(self, arguments: Sequence[str], messages: Any) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*self._command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages
            )
        except OSError:
            raise CommandFailed(f"{self._command[0]} cannot be started", "command_not_found") from None

    def _output(self, arguments: Sequence[str]) -> str:
        try:
            run = subprocess.run(
                [*self._command, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=self._timeout,
                check=False,
            )
        except OSError:
            raise CommandFailed(f"{self._command[0]} cannot be started", "command_not_found") from None
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"the command did not end within {self._timeout:g} s", "command_timeout") from None
        self._check(run.returncode, run.stderr)
        return run.stdout or run.stderr

    def _check(self, code: int, messages: str) -> None:
        """Raises CommandFailed with the message of a command that failed."""
        if code in DONE:
            return
        # The first line is the error; the rejected rows below it have codes of their own.
        codes = CODE.findall(messages)
        text = messages.strip() or f"the command ended with status {code}, without a message"
        raise CommandFailed(text, codes[0] if codes else "command_timeout" if code < 0 else "command_failed")


def local(
    model: str,
    registry: str | os.PathLike[str] | None = None,
    command: str | Sequence[str] | None = None,
    timeout: float = 600.0,
) -> Local:
    """The implementation of `sluice.local`."""
    return Local(model, None if registry is None else os.fspath(registry), command, timeout)
