// Which models there are and what an application for each looks like.
import type { FastifyInstance } from 'fastify';
import type { ColumnSpec } from '../model/manifest.ts';
import type { ModelPackage } from '../model/package.ts';
import type { ModelHost } from '../pipeline/model-host.ts';
import { parseReference } from '../registry/registry.ts';
import { assertMayUse } from './access.ts';
import { mayUse } from './keys.ts';

export function addModelRoutes(app: FastifyInstance, host: ModelHost): void {
  app.get('/api/v1/models', { config: { scope: 'models:read' } }, async (request) => ({
    models: (await host.registry.list()).filter((m) => mayUse(request.apiKey!, m.id)),
  }));
  app.get<{ Params: { ref: string } }>('/api/v1/models/:ref', { config: { scope: 'models:read' } }, async (request) => {
    assertMayUse(request, request.params.ref);
    const model = await host.registry.resolve(request.params.ref);
    const entry = (await host.registry.list()).find((m) => m.id === parseReference(request.params.ref).id);
    return describe(model, entry?.versions ?? [], entry?.aliases ?? {});
  });
}

function describe({ manifest }: ModelPackage, versions: string[], aliases: Record<string, string>) {
  return {
    id: manifest.id,
    version: String(manifest.version),
    task: manifest.task,
    sha256: manifest.onnx.sha256,
    columns: manifest.columns.map((c) => {
      const values = c.values ?? (c.codes ? Object.keys(c.codes) : undefined);
      return { name: c.name, kind: c.kind, ...(values ? { values } : {}) };
    }),
    versions,
    aliases,
    sample: Object.fromEntries(manifest.columns.map((c) => [c.name, sampleOf(c)])),
  };
}

/** A value the column takes. */
function sampleOf(c: ColumnSpec): string | number | boolean {
  if (c.kind === 'boolean') return false;
  if (c.kind !== 'number') return (c.values ?? Object.keys(c.codes ?? {}))[0] ?? '';
  const range = Array.isArray(c.range) ? { min: c.range[0], max: c.range[1] } : (c.range ?? {});
  return range.min ?? range.max ?? 1;
}
