"""The client of the HTTPS service, and what it shares with the client for asyncio."""

from __future__ import annotations

import ipaddress
import os
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

import httpx2

from ._duplex import DuplexBackend, make_duplex
from ._exchange import Broken, Call, Flow, Pause, Reply, Step, exchange
from ._http_errors import ApiError, NotPermitted, SluiceError
from ._operations import Operations, Request
from ._uploads import score_file

FRESH_SECONDS = 60.0
"""How long the columns of a model are reused. The server checks the types again in any case."""
WHOLE_BYTES = 1 << 20
"""Bodies up to this size are sent with their length, which the service answers fastest."""
MOST_ERROR_BYTES = 1 << 20


class Secret:
    """An API key that no repr, pickle or traceback shows."""

    __slots__ = ("reveal",)

    def __init__(self, value: str) -> None:
        self.reveal: Callable[[], str] = lambda: value

    def __repr__(self) -> str:
        return "<hidden>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key cannot be pickled")


def address_of(url: str | None) -> str:
    """The address of the service. Raises ValueError if it is missing or would send the key unencrypted."""
    chosen = url or os.environ.get("SLUICE_URL")
    if not chosen:
        raise ValueError("no address: pass url=, or set SLUICE_URL")
    parts = urlsplit(chosen)
    if parts.username or parts.password:
        raise ValueError("the address contains credentials: pass api_key= instead")
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError("the address must look like https://host:port")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("the address must begin with https://, because http:// would send the key unencrypted")
    return chosen.rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Remote(Operations):
    """What both clients share: settings, and operations as flows of requests."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        timeout: float = 60.0,
        *,
        max_retries: int = 2,
    ) -> None:
        # The argument is replaced first, so that no traceback with local variables shows the key.
        key, api_key = api_key or os.environ.get("SLUICE_API_KEY"), None
        secret, key = (Secret(key) if key else None), None
        if secret is None:
            raise ValueError("no API key: pass api_key=, or set SLUICE_API_KEY")
        self._open(address_of(url), secret, None if ca is None else os.fspath(ca), timeout, max_retries)

    def _open(self, url: str, secret: Secret | None, ca: str | None, timeout: float, max_retries: int) -> None:
        self._url = url
        self._secret = secret
        self._ca = ca
        self._timeout = timeout
        self._max_retries = max_retries
        self._known: dict[str, tuple[float, dict[str, Any]]] = {}
        options: dict[str, Any] = {"timeout": timeout}
        if ca is not None:
            options["verify"] = ssl.create_default_context(cafile=ca)
        self._http = self._new_http(options)

    def _new_http(self, options: dict[str, Any]) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.__dict__.get('_url')!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self._url, "ca": self._ca, "timeout": self._timeout, "max_retries": self._max_retries}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The key is not pickled: the process that unpickles has its own.
        key = os.environ.get("SLUICE_API_KEY")
        secret, key = (Secret(key) if key else None), None
        self._open(state["url"], secret, state["ca"], state["timeout"], state["max_retries"])

    # Flows

    def _exchange(self, call: Call) -> Flow[Reply]:
        return (yield from exchange(call, self._max_retries))

    def _json(self, path: str, query: dict[str, str] | None = None) -> Flow[Any]:
        reply = yield from self._exchange(Call("GET", path, query or {}))
        return parsed(reply)

    def _describe(self, ref: str, *, fresh: bool = False) -> Flow[dict[str, Any]]:
        known = self._known.get(ref)
        if known is not None and not fresh and time.monotonic() - known[0] < FRESH_SECONDS:
            return known[1]
        described = yield from self._json(f"/api/v1/models/{quote(ref, safe=':@')}")
        self._known[ref] = (time.monotonic(), described)
        return described

    def _columns(self, ref: str) -> Flow[list[dict[str, Any]] | None]:
        try:
            described = yield from self._describe(ref)
        except NotPermitted as error:
            if error.code != "forbidden":
                raise
            # Without the scope models:read the server alone checks the types.
            return None
        return list(described["columns"])

    def _list(self) -> Flow[list[dict[str, Any]]]:
        answer = yield from self._json("/api/v1/models")
        return list(answer["models"])

    def _drift(self, ref: str, window: str) -> Flow[dict[str, Any]]:
        answer = yield from self._json(f"/api/v1/models/{quote(ref, safe=':@')}/drift", {"window": window})
        return dict(answer)

    def _score(self, request: Request) -> Flow[Any]:
        operation = "predict/interpretation" if request.explain else "predict"
        query = {"modelId": request.model}
        if request.top is not None:
            query["top_effects"] = str(request.top)
        frame, names = request.frame, request.names
        call = Call(
            "POST",
            f"/api/v1/scoring/{operation}.{frame.suffix}",
            query,
            {"content-type": frame.media_type},
            body=lambda: frame.chunks(names),
            begin=frame.begin_answer,
            repeatable=frame.repeatable,
        )
        try:
            yield from self._exchange(call)
        except ApiError as error:
            if error.code in ("bad_type", "header_mismatch", "model_not_found"):
                self._known.pop(request.model, None)
            raise
        return None

    def _score_file(self, source: str, target: str, model: str, options: dict[str, Any]) -> Flow[dict[str, Any]]:
        return (yield from score_file(self._exchange, source, target, model, options, self._max_retries))

    # Requests

    def _request(self, call: Call, content: Any) -> httpx2.Request:
        if self._secret is None:
            raise ValueError("no API key: set SLUICE_API_KEY before a pickled client is used")
        headers = {**call.headers, "authorization": f"API-Key {self._secret.reveal()}"}
        request: httpx2.Request = self._http.build_request(
            call.method, self._url + call.path, params=dict(call.query) or None, headers=headers, content=content
        )
        return request


class Feed:
    """The body of one attempt. Errors of the frame are kept, so that they differ from errors of the network."""

    def __init__(self, call: Call) -> None:
        self.error: Exception | None = None
        # Whether part of the body was read, or part of the response was passed on.
        self.started = False
        self._chunks: Iterator[bytes] | None = call.body() if call.body is not None else None

    def next(self) -> bytes | None:
        """The next bytes; None at the end."""
        if self._chunks is None:
            return None
        self.started = True
        try:
            return next(self._chunks, None)
        except Exception as error:
            self.error = error
            raise BodyFailed from None

    def start(self) -> tuple[bytes | None, bytes | None]:
        """The whole body if it is small, and otherwise its first two parts."""
        first = self.next()
        if first is None or len(first) > WHOLE_BYTES:
            return (b"" if first is None else first), (None if first is None else self.next())
        return first, self.next()

    def rest(self, first: bytes, second: bytes) -> Iterator[bytes]:
        """All parts."""
        yield first
        yield second
        while (chunk := self.next()) is not None:
            yield chunk


class BodyFailed(Exception):
    """A frame could not be converted; `Feed.error` has the reason."""


def clean(error: BaseException) -> Any:
    """The error without the frames of the HTTP library, whose local variables contain the key."""
    error.__traceback__ = None
    error.__context__ = None
    error.__cause__ = None
    return error


def broken(error: httpx2.TransportError, feed: Feed) -> Broken:
    """Describes a failed connection."""
    if isinstance(error, httpx2.TimeoutException):
        text = f"no data within the timeout ({type(error).__name__})"
    else:
        text = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        text += "; pass the certificate of the service or of its authority as ca="
    return Broken(f"the service did not answer: {text}", feed.started)


def parsed(reply: Reply) -> Any:
    """The JSON document of a reply."""
    import json

    try:
        return json.loads(reply.body)
    except ValueError:
        raise SluiceError("the response is not JSON: check that the address belongs to a Sluice service") from None


def headers_of(response: httpx2.Response) -> dict[str, str]:
    """The headers of a response, names in lower case."""
    return {name.lower(): value for name, value in response.headers.items()}


class Client(Remote):
    """A client of the service. Share one between threads; it keeps connections open.

    - `url`: address such as `https://scores.bank.example`. Default: `SLUICE_URL`.
    - `api_key`: the API key. Default: `SLUICE_API_KEY`. No repr, pickle or traceback of the client shows it.
    - `ca`: PEM file with the certificate of the service or of its authority. Default: the trust store of the system.
    - `timeout`: longest silence of the service in seconds, also while connecting. Default: 60.
    - `max_retries`: further attempts after connection errors, 429, 500, 502, 503, 504, and other statuses with
      `Retry-After`. Predictions change nothing, so repeating them is safe. Default: 2.

    Raises ValueError without an address or key, and for `http://` addresses of other machines.
    """

    _http: httpx2.Client

    def _new_http(self, options: dict[str, Any]) -> httpx2.Client:
        http = httpx2.Client(**options)
        make_duplex(http, DuplexBackend)
        return http

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _run(self, flow: Flow[Any]) -> Any:
        value: Any = None
        try:
            while True:
                value = self._perform(flow.send(value))
        except StopIteration as end:
            return end.value
        finally:
            flow.close()

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        feed = Feed(step)
        failure: BaseException
        try:
            return self._send(step, feed)
        except BodyFailed:
            failure = feed.error or SluiceError("the frame could not be converted")
        except httpx2.TransportError as error:
            return broken(error, feed)
        except BaseException as error:
            failure = clean(error)
        raise failure

    def _send(self, call: Call, feed: Feed) -> Reply:
        first, second = feed.start()
        content = first if second is None else feed.rest(first or b"", second)
        response = self._http.send(self._request(call, content if call.body is not None else None), stream=True)
        try:
            body = b""
            if response.status_code < 300 and call.begin is not None:
                feed.started = True
                into = call.begin()
                for chunk in response.iter_bytes():
                    into(chunk)
            else:
                for chunk in response.iter_bytes():
                    body += chunk
                    if response.status_code >= 300 and len(body) > MOST_ERROR_BYTES:
                        break
            return Reply(response.status_code, headers_of(response), body)
        finally:
            response.close()
