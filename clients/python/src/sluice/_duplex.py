"""Connections that read while they write: the service answers while a frame is still being sent."""

from __future__ import annotations

import collections
import selectors
import ssl
import time
from collections.abc import Callable
from typing import Any

import httpcore2
import httpx2

PIECE = 256 * 1024
"""Bytes passed to the socket at once. Shorter writes, such as heads of requests, need no reading beside them."""
READ = 64 * 1024


class DuplexStream(httpcore2.NetworkStream):
    """A connection. What arrives during a write is kept for the next read; it is never more than the response."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner
        self._early: collections.deque[bytes] = collections.deque()
        self._ended = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._early:
            return self._early.popleft()
        return b"" if self._ended else self._inner.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        sock = self._inner.get_extra_info("socket")
        if len(buffer) < READ or sock is None or self._inner.get_extra_info("ssl_object") is None:
            self._inner.write(buffer, timeout)
            return
        view = memoryview(buffer)
        sock.settimeout(0)
        last = time.monotonic()
        while view:
            sent = 0
            events = selectors.EVENT_READ | selectors.EVENT_WRITE
            try:
                sent = sock.send(view[:PIECE])
                view = view[sent:]
            except ssl.SSLWantReadError:
                events = selectors.EVENT_READ
            except (ssl.SSLWantWriteError, BlockingIOError):
                pass
            except OSError as error:
                self._collect(sock)
                raise httpcore2.WriteError(str(error)) from error
            got = self._collect(sock)
            now = time.monotonic()
            if sent or got:
                last = now
            elif timeout is not None and now - last > timeout:
                raise httpcore2.WriteTimeout("the write operation timed out")
            else:
                # A closed connection is always readable: only writing can find out more.
                waited = selectors.EVENT_WRITE if self._ended else events
                with selectors.DefaultSelector() as selector:
                    selector.register(sock, waited)
                    selector.select(timeout)

    def _collect(self, sock: Any) -> bool:
        """Takes the bytes that have arrived. Whether there were any."""
        got = False
        while not self._ended:
            try:
                data = sock.recv(READ)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                break
            except OSError:
                # The next write or read fails for the same reason.
                break
            got = True
            if data:
                self._early.append(data)
            else:
                self._ended = True
        return got

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return DuplexStream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and (self._early or self._ended):
            return True
        return self._inner.get_extra_info(info)


class DuplexBackend(httpcore2.NetworkBackend):
    """Opens connections that read while they write."""

    def __init__(self, inner: httpcore2.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        return DuplexStream(self._inner.connect_tcp(*args, **options))

    def connect_unix_socket(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        return DuplexStream(self._inner.connect_unix_socket(*args, **options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


def make_duplex(client: httpx2.Client | httpx2.AsyncClient, wrap: Callable[[Any], Any]) -> bool:
    """Lets the connections of a client read while they write. False: this version of httpx2 has other internals.

    httpx2 has no option for the network backend of its transports. Without it the client sends everything before it
    reads, and the service keeps the response in a bounded file meanwhile.
    """
    transports = [client._transport, *client._mounts.values()]
    pools = [getattr(transport, "_pool", None) for transport in transports if transport is not None]
    found = [pool for pool in pools if hasattr(pool, "_network_backend")]
    for pool in found:
        backend = getattr(pool, "_network_backend")  # noqa: B009
        setattr(pool, "_network_backend", wrap(backend))  # noqa: B010
    return len(found) == len(pools)
