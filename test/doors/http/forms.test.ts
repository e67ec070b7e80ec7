// A form that is refused is not parsed any further: the rest of it is discarded.
import { Readable } from 'node:stream';
import multipart from '@fastify/multipart';
import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { asSluiceError } from '../../../src/core/errors.ts';
import { openBody } from '../../../src/doors/http/wire/request-body.ts';

const OPTIONS = { maxBytes: 1e9, maxExpandedBytes: 1e9, idleMs: 10_000, minBytesPerSecond: 1 };

/** A part of a form; `file`: the name of its file. */
const part = (name: string, value: string, file?: string): string =>
  `--b\r\nContent-Disposition: form-data; name="${name}"${file ? `; filename="${file}"` : ''}\r\n\r\n${value}\r\n`;

/** What opening the body of a form gives, which comes in these pieces, and how many readers its bytes have after that. */
async function open(form: readonly string[]): Promise<{ code: string | null; readers: number }> {
  const app = Fastify();
  await app.register(multipart, { throwFileSizeLimit: false });
  app.post('/', async (request) => {
    let code: string | null = null;
    try {
      await openBody(request, OPTIONS);
    } catch (error) {
      code = asSluiceError(error, 'internal_error').code;
    }
    return { code, readers: request.raw.listenerCount('data') };
  });
  async function* pieces(): AsyncGenerator<Buffer> {
    for (const piece of [...form, '--b--\r\n']) {
      yield Buffer.from(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  const headers = { 'content-type': 'multipart/form-data; boundary=b' };
  const reply = await app.inject({ method: 'POST', url: '/', headers, payload: Readable.from(pieces()) });
  await app.close();
  return reply.json();
}

test('of more parts than a form may have nothing is read', async () => {
  const parts = (count: number) => Array.from({ length: count }, (_, i) => part(`f${i}`, 'x')).join('');
  expect((await open([parts(50), part('file', 'a,b', 'a.csv')])).code).toBeNull();
  expect(await open(Array(50).fill(parts(60)))).toEqual({ code: 'invalid_content', readers: 0 });
});
