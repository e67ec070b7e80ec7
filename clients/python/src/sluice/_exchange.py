"""Requests with retries, as generators: they yield what to send or how long to wait, and a driver does it."""

from __future__ import annotations

import email.utils
import json
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ._http_errors import ConnectionFailed, error_of

T = TypeVar("T")


@dataclass
class Call:
    """A request. `body`: returns the bytes to send, anew for each attempt. `into`: receives the body of a success."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Callable[[], Iterator[bytes]] | None = None
    begin: Callable[[], Callable[[bytes], Any]] | None = None
    """Called when the response starts, in each attempt; returns what receives its bytes."""
    repeatable: bool = True
    """Whether another attempt may send the same again."""


@dataclass
class Reply:
    """A response. `headers` have names in lower case; `body` is empty if `Call.begin` received it."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Broken:
    """The connection failed. `sent`: part of the body was read, or part of the response was passed on."""

    message: str
    sent: bool = False


@dataclass
class Pause:
    """A wait before the next attempt, in seconds."""

    seconds: float


Step = Call | Pause
Flow = Generator[Step, Any, T]

REPEATED = {429, 500, 502, 503, 504}
LONGEST_PAUSE = 60.0
LONGEST_MESSAGE = 2_000


def exchange(call: Call, max_retries: int) -> Flow[Reply]:
    """Sends a request and returns its successful reply, after up to `max_retries` further attempts.

    Repeats after connection errors, 429, 500, 502, 503, 504, and other statuses with Retry-After. Raises ApiError and
    ConnectionFailed.
    """
    attempt = 0
    while True:
        outcome: Reply | Broken = yield call
        if isinstance(outcome, Reply) and outcome.status < 300:
            return outcome
        wait: float | None = 0.25 * 2**attempt * (1 + random.random())
        error: Exception
        if isinstance(outcome, Broken):
            error = ConnectionFailed(outcome.message)
            if outcome.sent and not call.repeatable:
                wait = None
        else:
            asked = seconds_of(outcome.headers.get("retry-after"))
            error = error_from(outcome, asked)
            if asked is not None:
                wait = asked if asked <= LONGEST_PAUSE else None
            elif outcome.status not in REPEATED:
                wait = None
            if not call.repeatable:
                wait = None
        if wait is None or attempt >= max_retries:
            raise error
        attempt += 1
        yield Pause(wait)


def seconds_of(header: str | None) -> float | None:
    """The value of Retry-After, a number of seconds or a date, as seconds from now."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def error_from(reply: Reply, retry_after: float | None) -> Exception:
    """The error of a response, from its problem document (RFC 9457) if it has one."""
    problem: dict[str, Any] = {}
    try:
        parsed = json.loads(reply.body)
        problem = parsed if isinstance(parsed, dict) else {}
    except ValueError:
        pass
    code = str(problem.get("code", f"http_{reply.status}"))
    request_id = problem.get("requestId") or reply.headers.get("x-request-id")
    text = str(problem.get("detail") or problem.get("title") or f"the answer has the status {reply.status}")
    details = problem.get("errors")
    first = [str(d.get("message", "")) for d in details[:5]] if isinstance(details, list) else []
    listed = "".join(f"\n- {line}" for line in first if line and line not in text)
    suffix = f" [{code}, request {request_id}]" if request_id else f" [{code}]"
    return error_of(
        reply.status,
        message=f"{text[:LONGEST_MESSAGE]}{suffix}{listed}",
        code=code,
        request_id=request_id,
        details=[d for d in details if isinstance(d, dict)] if isinstance(details, list) else [],
        retry_after=retry_after,
    )
