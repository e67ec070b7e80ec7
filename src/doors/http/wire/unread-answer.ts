// Timeout for a client that does not read a response that was already passed to the socket.
import type { ServerResponse } from 'node:http';
import { clientTimer } from './client-timer.ts';

/**
 * Call this function when the request body has ended. Destroys the connection if the client reads nothing of the
 * pending response for `idleMs`. Time in which the service produces the response does not count.
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
  /**
   * Under TLS, the handle of the raw connection. The queue of the TLS handle does not change until a write is complete.
   */
  _parent?: Handle;
}

/**
 * Number of bytes that the kernel has not accepted yet. Only this number shows progress within a large write. Node has
 * no public API for this number, but reads it from the same property for its own timeouts. If the property is missing,
 * the client must read such a write within one interval.
 */
function queuedIn(socket: object): number {
  const handle = (socket as { _handle?: Handle | null })._handle;
  return (handle?._parent ?? handle)?.writeQueueSize ?? 0;
}
