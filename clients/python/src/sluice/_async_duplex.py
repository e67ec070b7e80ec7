"""The same connections for asyncio: they read while they write."""

from __future__ import annotations

import asyncio
import collections
import ssl
from typing import Any

import httpcore2

from ._duplex import READ


class AsyncDuplexStream(httpcore2.AsyncNetworkStream):
    """A connection. What arrives during a write is kept for the next read; it is never more than the response."""

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
        if len(buffer) < READ:
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
