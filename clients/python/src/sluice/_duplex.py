"""Connections that read while they write: the service answers while a frame is still being sent."""

from __future__ import annotations

import asyncio
import collections
import selectors
import ssl
import time
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


class AsyncDuplexStream(httpcore2.AsyncNetworkStream):
    """The same for asyncio. With trio, the response is read after the request was sent."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._early: collections.deque[bytes] = collections.deque()
        self._reading: asyncio.Future[Any] | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._early:
            return self._early.popleft()
        reading, self._reading = self._reading, None
        if reading is None:
            return await self._inner.read(max_bytes, timeout)
        try:
            return await asyncio.wait_for(reading, timeout)
        except asyncio.TimeoutError as error:
            raise httpcore2.ReadTimeout("the read operation timed out") from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if len(buffer) < READ or not _in_asyncio():
            await self._inner.write(buffer, timeout)
            return
        writing: asyncio.Future[Any] = asyncio.ensure_future(self._inner.write(buffer, timeout))
        try:
            while not writing.done():
                if self._reading is None:
                    self._reading = asyncio.ensure_future(self._inner.read(READ, None))
                await asyncio.wait({writing, self._reading}, return_when=asyncio.FIRST_COMPLETED)
                if not self._reading.done():
                    continue
                if self._reading.exception() is not None or not self._reading.result():
                    # The end or an error is for the next read; the write finds out by itself.
                    await asyncio.wait({writing})
                else:
                    self._early.append(self._reading.result())
                    self._reading = None
        except asyncio.CancelledError:
            writing.cancel()
            raise
        writing.result()

    async def aclose(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})
            if not reading.cancelled():
                reading.exception()
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return AsyncDuplexStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and (self._early or (self._reading is not None and self._reading.done())):
            return True
        return self._inner.get_extra_info(info)


class AsyncDuplexBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections that read while they write."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(self, *args: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        return AsyncDuplexStream(await self._inner.connect_tcp(*args, **options))

    async def connect_unix_socket(self, *args: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        return AsyncDuplexStream(await self._inner.connect_unix_socket(*args, **options))

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


def _in_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def make_duplex(client: httpx2.Client | httpx2.AsyncClient) -> bool:
    """Lets the connections of a client read while they write. False: this version of httpx2 has other internals.

    httpx2 has no option for the network backend of its transports. Without it the client sends everything before it
    reads, and the service keeps the response in a bounded file meanwhile.
    """
    wrap: Any = DuplexBackend if isinstance(client, httpx2.Client) else AsyncDuplexBackend
    transports = [client._transport, *client._mounts.values()]
    pools = [getattr(transport, "_pool", None) for transport in transports if transport is not None]
    found = [pool for pool in pools if hasattr(pool, "_network_backend")]
    for pool in found:
        backend = getattr(pool, "_network_backend")  # noqa: B009
        setattr(pool, "_network_backend", wrap(backend))  # noqa: B010
    return len(found) == len(pools)
