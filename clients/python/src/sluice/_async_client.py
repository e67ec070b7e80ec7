"""The client for asyncio: the flows of `Client`, with requests that are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from ._async_duplex import AsyncDuplexBackend
from ._client import MOST_ERROR_BYTES, BodyFailed, Feed, Remote, broken, clean, headers_of
from ._duplex import make_duplex
from ._exchange import Call, Flow, Pause, Reply, Step
from ._http_errors import SluiceError


class AsyncClient(Remote):
    """The same client for asyncio: every method of `Client` returns an awaitable.

    `await client.predict(frame, model="credit")`, `await client.models["credit"].columns`. Use it in one event loop.
    """

    _http: httpx2.AsyncClient

    def _new_http(self, options: dict[str, Any]) -> httpx2.AsyncClient:
        http = httpx2.AsyncClient(**options)
        make_duplex(http, AsyncDuplexBackend)
        return http

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _run(self, flow: Flow[Any]) -> Any:
        value: Any = None
        try:
            while True:
                value = await self._perform(flow.send(value))
        except StopIteration as end:
            return end.value
        finally:
            flow.close()

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        feed = Feed(step)
        failure: BaseException
        try:
            return await self._send(step, feed)
        except BodyFailed:
            failure = feed.error or SluiceError("the frame could not be converted")
        except httpx2.TransportError as error:
            return broken(error, feed)
        except BaseException as error:
            failure = clean(error)
        raise failure

    async def _send(self, call: Call, feed: Feed) -> Reply:
        first, second = await asyncio.to_thread(feed.start)
        content = first if second is None else rest(feed, first or b"", second)
        response = await self._http.send(self._request(call, content if call.body is not None else None), stream=True)
        try:
            body = b""
            if response.status_code < 300 and call.begin is not None:
                feed.started = True
                into = call.begin()
                async for chunk in response.aiter_bytes():
                    into(chunk)
            else:
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if response.status_code >= 300 and len(body) > MOST_ERROR_BYTES:
                        break
            return Reply(response.status_code, headers_of(response), body)
        finally:
            await response.aclose()


async def rest(feed: Feed, first: bytes, second: bytes) -> AsyncIterator[bytes]:
    """All parts of a body, converted in a thread, so that the event loop does not wait for them."""
    yield first
    yield second
    while (chunk := await asyncio.to_thread(feed.next)) is not None:
        yield chunk
