// Packages uploaded and aliases moved over HTTP, for keys with the scope models:write.

import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ServerConfig } from '../../../config/server-config.ts';
import { SluiceError } from '../../../core/errors.ts';
import { named } from '../../../core/log.ts';
import { loadPackage, versionOf } from '../../../model/package/load-package.ts';
import type { Registry } from '../../../model/registry/registry.ts';
import { describeModel } from '../../../onboarding/describe.ts';
import { tryPackage } from '../../../onboarding/verify.ts';
import { assertMayUse } from '../access/permissions.ts';
import { REMOVAL_QUERY } from '../openapi/model-operations.ts';
import { DigestCheck } from '../wire/content-digest.ts';
import { systemFault } from '../wire/problem.ts';
import { openBody, refuseReset } from '../wire/request-body.ts';
import { tellModel } from '../wire/request-log.ts';

const MAX_FILES = 20;
const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const SMALL_BODY = 16 * 1024;

interface AliasPath {
  Params: { ref: string; alias: string };
}

export function addModelWrites(app: FastifyInstance, config: ServerConfig, registry: Registry): void {
  app.post('/api/v1/models', { config: { scope: 'models:write' } }, async (request, reply) => {
    const folder = await mkdtemp(path.join(config.spill.folder ?? tmpdir(), 'sluice-upload-'));
    try {
      await receive(request, folder, config.limits.model_bytes);
      const model = await loadPackage(folder);
      assertMayUse(request, model.manifest.id);
      tellModel(request, model);
      await tryPackage(model);
      const version = await registry.add(model.manifest.id, versionOf(model.manifest), folder, request.identity!.name);
      const entry = (await registry.list()).find((m) => m.id === model.manifest.id);
      reply.code(201).header('location', `/api/v1/models/${model.manifest.id}:${version}`);
      // A registry that numbers versions itself writes its own into model.yaml.
      const own = version === versionOf(model.manifest);
      const registered = own ? model : await registry.resolve(`${model.manifest.id}:${version}`);
      return describeModel(registered, entry);
    } catch (error) {
      throw withoutFolder(error, folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
  app.get<AliasPath>('/api/v1/models/:ref/aliases', { config: { scope: 'models:read' } }, async (request) => {
    const id = request.params.ref;
    assertMayUse(request, id);
    const history = await registry.history(id);
    const entry = (await registry.list()).find((m) => m.id === id);
    return { aliases: entry?.aliases ?? {}, history };
  });
  app.put<AliasPath>(
    '/api/v1/models/:ref/aliases/:alias',
    { config: { scope: 'models:write' } },
    async (request): Promise<unknown> => {
      const { ref: id, alias } = request.params;
      assertMayUse(request, id);
      const { version, reason } = await readMove(request, config);
      const model = await registry.resolve(`${id}:${version}`);
      tellModel(request, model);
      await tryPackage(model);
      const moved = await registry.moveAlias(id, alias, version, mover(request, reason));
      request.story.alias = named(alias);
      return moved;
    },
  );
  app.delete<AliasPath & { Querystring: { reason?: string } }>(
    '/api/v1/models/:ref/aliases/:alias',
    { config: { scope: 'models:write' }, schema: { querystring: REMOVAL_QUERY } },
    async (request): Promise<unknown> => {
      const { ref: id, alias } = request.params;
      assertMayUse(request, id);
      const moved = await registry.moveAlias(id, alias, null, mover(request, request.query.reason));
      Object.assign(request.story, { model: named(id), alias: named(alias) });
      return moved;
    },
  );
}

/** Who moves an alias, and why if that is said. */
const mover = ({ identity }: FastifyRequest, reason: string | undefined) => ({
  who: identity!.name,
  ...(reason === undefined ? {} : { why: reason }),
});

/** Writes the file parts of a multipart body into the folder, under their file names. */
async function receive(request: FastifyRequest, folder: string, maxBytes: number): Promise<void> {
  if (!request.isMultipart()) {
    throw new SluiceError('invalid_content', 'send the files of the package as multipart/form-data');
  }
  const names = new Set<string>();
  let left = maxBytes;
  const check = DigestCheck.of(request.headers);
  try {
    const parts = request.files({ limits: { fileSize: maxBytes, files: MAX_FILES } });
    const first = parts.next();
    // The form is read by a pipe, which has begun to listen in the same turn: both see every byte.
    if (check) request.raw.on('data', (bytes: Buffer) => check.update(bytes));
    for (let next = await first; !next.done; next = await parts.next()) {
      const part = next.value;
      const name = part.filename;
      if (!FILE_NAME.test(name) || names.has(name)) {
        part.file.resume();
        throw new SluiceError('invalid_content', 'a file of the package has no usable name, or is there twice');
      }
      names.add(name);
      await pipeline(part.file, createWriteStream(path.join(folder, name), { flags: 'wx' }));
      left -= part.file.bytesRead;
      if (part.file.truncated || left < 0) {
        throw new SluiceError('limit_exceeded', `a package has at most ${maxBytes} bytes`, {
          extra: { limit: { name: 'model_bytes', value: maxBytes, unit: 'bytes' } },
        });
      }
    }
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    const fault = systemFault(cause);
    if (fault instanceof SluiceError) throw fault;
    throw new SluiceError('invalid_content', 'the multipart body is malformed', { cause });
  }
  refuseReset(request.raw);
  check?.verify();
  if (!names.has('model.yaml')) throw new SluiceError('invalid_content', 'the package has no model.yaml');
}

/** Messages name files by their place in the package, not on this machine. */
function withoutFolder(error: unknown, folder: string): unknown {
  if (!(error instanceof SluiceError)) return error;
  return new SluiceError(error.code, error.message.replaceAll(`${folder}${path.sep}`, ''), { cause: error });
}

async function readMove(request: FastifyRequest, config: ServerConfig): Promise<{ version: string; reason?: string }> {
  const body = await openBody(request, {
    maxBytes: SMALL_BODY,
    maxExpandedBytes: SMALL_BODY,
    idleMs: config.timeouts.body_idle_ms,
    minBytesPerSecond: config.timeouts.body_min_bytes_per_second,
  });
  const chunks: Uint8Array[] = [];
  for await (const chunk of body.chunks()) chunks.push(chunk);
  const form = 'the body must be {"version": "…"}, or {"version": "…", "reason": "…"}';
  let value: { version?: unknown; reason?: unknown } | null;
  try {
    value = JSON.parse(Buffer.concat(chunks).toString()) as typeof value;
  } catch (cause) {
    throw new SluiceError('bad_request', form, { cause });
  }
  const { version, reason } = value ?? {};
  if (
    (typeof version !== 'string' && typeof version !== 'number') ||
    !['string', 'undefined'].includes(typeof reason)
  ) {
    throw new SluiceError('bad_request', form);
  }
  return { version: String(version), ...(reason === undefined ? {} : { reason: reason as string }) };
}
