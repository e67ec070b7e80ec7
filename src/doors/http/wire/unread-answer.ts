// Timeout of a client that does not read a response already passed to the socket.
import type { ServerResponse } from 'node:http';
import { clientTimer } from './client-timer.ts';

/**
 * Call it once the request body has ended. Destroys the connection if the client reads nothing of the pending response
 * for `idleMs`. Time that the service needs to produce the response does not count.
 */
export function cutUnread(res: ServerResponse, idleMs: number): void {
  if (idleMs === 0 || res.writableFinished || res.destroyed) return;
  const { socket } = res.req;
  const waits = () => res.writableLength + socket.writableLength;
  let before = { queued: queuedIn(socket), written: socket.bytesWritten };
  let since = waits();
  const check = () => {
    const now = { queued: queuedIn(socket), written: socket.bytesWritten };
    const [was, is] = [since, waits()];
    const still = now.queued === before.queued && now.written === before.written && is === was;
    if (is > 0 && still) return socket.destroy();
    before = now;
    since = is;
    stop = clientTimer(idleMs, check);
  };
  let stop = clientTimer(idleMs, check);
  for (const event of ['finish', 'close']) res.once(event, () => stop());
}

interface Handle {
  writeQueueSize?: number;
  /** Under TLS, the raw connection; the queue of the TLS handle does not change until a write is complete. */
  _parent?: Handle;
}

/**
 * Number of bytes that the kernel has not accepted yet; only they show progress within a large write. Node has no
 * public API for it, but uses the same property for its own timeouts. Without it, the client must read such a write
 * within one interval.
 */
function queuedIn(socket: object): number {
  const handle = (socket as { _handle?: Handle | null })._handle;
  return (handle?._parent ?? handle)?.writeQueueSize ?? 0;
}
