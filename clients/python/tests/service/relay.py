"""A TCP relay to the service that cuts connections, so that clients meet the failures of real networks."""

from __future__ import annotations

import contextlib
import socket
import threading


class Relay:
    """Passes bytes on. `cuts`: one entry per connection: (after this many bytes to the service, or from it); None: whole."""

    def __init__(self, port: int, cuts: list[tuple[int | None, int | None]]) -> None:
        self._target = port
        self._cuts = list(cuts)
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            cut = self._cuts[self.connections] if self.connections < len(self._cuts) else (None, None)
            self.connections += 1
            server = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [client, server]
            for source, target, limit in ((client, server, cut[0]), (server, client, cut[1])):
                threading.Thread(target=self._pass, args=(source, target, limit), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, limit: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if limit is not None and passed + len(data) > limit:
                    target.sendall(data[: limit - passed])
                    break
                target.sendall(data)
                passed += len(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """Ends all connections."""
        for end in (self._listener, *self._sockets):
            end.close()
