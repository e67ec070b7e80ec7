"""Files scored as jobs: a resumable upload (tus 1.0), progress, and a result that is downloaded in parts."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from ._exchange import REPEATED, Call, Flow, Pause, Reply
from ._http_errors import ApiError, ConnectionFailed, JobFailed, SluiceError

PART_BYTES = 64 << 20
"""Bytes of a part. The service acknowledges a part once it is on disk."""
READ_BYTES = 1 << 20
LONGEST_POLL = 2.0
FORMATS = {".csv": ("csv", "comma"), ".tsv": ("csv", "tab"), ".json": ("json", None), ".ndjson": ("ndjson", None)}

Exchange = Callable[[Call], Flow[Reply]]


def query_of(source: str, target: str, model: str, options: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The path of the operation and its query. Raises ValueError for formats that jobs do not store."""
    ending = os.path.splitext(source)[1].lower()
    if ending not in FORMATS:
        raise ValueError(f"the source must be one of {', '.join(FORMATS)}; read other files as a frame and use predict")
    if os.path.splitext(target)[1].lower() != ending:
        raise ValueError(f"the target must end in {ending} like the source: the result has the format of the file")
    suffix, delimiter = FORMATS[ending]
    query = {"modelId": model}
    if delimiter is not None:
        query["delimiter"] = delimiter
    if options["passthrough"]:
        query["passthrough"] = options["passthrough"]
    if options["top"] is not None:
        query["top_effects"] = str(options["top"])
    operation = "predict/interpretation" if options["explain"] else "predict"
    return f"/api/v1/scoring/{operation}.{suffix}", query


class Bar:
    """A progress bar of tqdm; nothing if tqdm is missing or not wanted."""

    def __init__(self, total: int, wanted: bool) -> None:
        self._bar: Any = None
        if wanted:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, unit="B", unit_scale=True, desc="upload")

    def at(self, done: int, label: str) -> None:
        """Shows the position in bytes, and what is being done."""
        if self._bar is not None:
            self._bar.set_description(label, refresh=False)
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()


def score_file(
    exchange: Exchange, source: str, target: str, model: str, options: dict[str, Any], max_retries: int
) -> Flow[dict[str, Any]]:
    """Uploads a file, waits for its job and stores the result. Returns the counts of its rows."""
    path, query = query_of(source, target, model, options)
    size = os.path.getsize(source)
    bar = Bar(size, options["progress"])
    try:
        job = yield from upload(exchange, path, query, source, size, bar, max_retries)
        state = yield from finished(exchange, job, size, bar)
        yield from download(exchange, job, target, int(state["resultBytes"]), max_retries)
        try:
            yield from exchange(Call("DELETE", job))
        except (ApiError, ConnectionFailed):
            # The result is complete; the service removes old jobs itself.
            pass
        return dict(state["summary"])
    finally:
        bar.close()


def upload(
    exchange: Exchange, path: str, query: dict[str, str], source: str, size: int, bar: Bar, max_retries: int
) -> Flow[str]:
    """Sends the file in parts. Returns the path of its job."""
    tus = {"tus-resumable": "1.0.0"}
    # With the same key a repeated request returns the same upload.
    head = {**tus, "upload-length": str(size), "idempotency-key": str(uuid.uuid4())}
    created = yield from exchange(Call("POST", path, query, head))
    place = path_of(created.headers["location"])
    reply, offset, failures = created, 0, 0
    with open(source, "rb") as file:
        while "sluice-job" not in reply.headers:
            try:
                if failures > 0:
                    reply = yield from exchange(Call("HEAD", place, headers=tus))
                    offset = int(reply.headers["upload-offset"])
                if "sluice-job" in reply.headers:
                    break
                part = Call(
                    "PATCH",
                    place,
                    headers={
                        **tus,
                        "upload-offset": str(offset),
                        "content-type": "application/offset+octet-stream",
                    },
                    body=reader(file, offset, size, bar),
                    repeatable=False,
                )
                reply = yield from exchange(part)
                offset, failures = int(reply.headers["upload-offset"]), 0
            except (ConnectionFailed, ApiError) as error:
                # What arrived is kept: the next part begins after it.
                passing = isinstance(error, ConnectionFailed) or error.status in {409, 423, *REPEATED}
                failures += 1
                if not passing or failures > max_retries:
                    raise
                yield Pause(0.5 * 2**failures)
    return path_of(reply.headers["sluice-job"])


def reader(file: Any, offset: int, size: int, bar: Bar) -> Callable[[], Iterator[bytes]]:
    """The body of the part that begins at an offset."""

    def read() -> Iterator[bytes]:
        at, end = offset, min(size, offset + PART_BYTES)
        file.seek(at)
        while at < end:
            chunk = file.read(min(READ_BYTES, end - at))
            if not chunk:
                raise SluiceError("the file became shorter while it was sent")
            at += len(chunk)
            bar.at(at, "upload")
            yield chunk

    return read


def path_of(url: str) -> str:
    """The path of an address of the same service."""
    from urllib.parse import urlsplit

    return urlsplit(url).path


def finished(exchange: Exchange, job: str, size: int, bar: Bar) -> Flow[dict[str, Any]]:
    """Waits for the end of a job. Returns its description; raises JobFailed."""
    import json

    wait = 0.05
    while True:
        reply = yield from exchange(Call("GET", job))
        state: dict[str, Any] = json.loads(reply.body)
        bar.at(int(size * state.get("progress", 0)), "score")
        if state["state"] == "done":
            return state
        if state["state"] in ("failed", "cancelled", "canceled"):
            error = state.get("error") or {}
            code = str(error.get("code", state["state"]))
            text = error.get("message") or f"the job is {state['state']}"
            raise JobFailed(f"{text} [{code}, job {state['id']}]", code, str(state["id"]))
        yield Pause(wait)
        wait = min(LONGEST_POLL, wait * 1.5)


def download(exchange: Exchange, job: str, target: str, size: int, max_retries: int) -> Flow[None]:
    """Stores the result under its name once it is complete. Continues after errors of the connection."""
    partial = f"{target}.{uuid.uuid4().hex[:8]}.partial"
    failures = 0
    try:
        with open(partial, "wb") as file:
            while file.tell() < size or failures == 0:
                at = file.tell()
                headers = {"accept-encoding": "identity", **({"range": f"bytes={at}-"} if at > 0 else {})}
                try:
                    yield from exchange(
                        Call("GET", f"{job}/result", headers=headers, begin=lambda: file.write, repeatable=False)
                    )
                    if file.tell() == size:
                        break
                    raise SluiceError(
                        "the size of the downloaded result differs from the size that the job reports: "
                        "download the result again"
                    )
                except (ConnectionFailed, ApiError) as error:
                    passing = isinstance(error, ConnectionFailed) or error.status in REPEATED
                    failures = 1 if file.tell() > at else failures + 1
                    if not passing or failures > max_retries:
                        raise
                    yield Pause(0.5 * 2**failures)
        os.replace(partial, target)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
