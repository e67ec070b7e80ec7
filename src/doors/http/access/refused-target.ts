// What a request that was refused asked for, as far as the registry knows it: a record without the model would not say who tried what.
import type { FastifyRequest } from 'fastify';
import { named } from '../../../core/log.ts';
import { type ModelEntry, parseReference, type Registry } from '../../../model/registry/registry.ts';
import type { LoginRefused } from './permissions.ts';

interface Asked {
  ref?: string;
  name?: string;
  version?: string;
  alias?: string;
}

/** Writes job, model and alias into the story of a refused request. Names that the registry does not have are the client's, and are left out. */
export async function noteRefusedTarget(
  request: FastifyRequest,
  refusal: LoginRefused,
  registry: Pick<Registry, 'list'>,
): Promise<void> {
  const { ref, name, version, alias } = (request.params ?? {}) as Asked;
  const { modelId } = (request.query ?? {}) as { modelId?: string };
  const inPath = version === undefined ? name : `${name}:${version}`;
  if (refusal.job !== null) request.story.job = named(refusal.job);
  const reference = refusal.asked ?? ref ?? modelId ?? inPath;
  if (typeof reference !== 'string') return;
  try {
    const asked = parseReference(reference);
    const entry = (await registry.list()).find(({ id }) => id === asked.id);
    if (!entry) return;
    request.story.model = named(isListed(entry, asked) ? reference : asked.id);
    if (alias !== undefined && Object.hasOwn(entry.aliases, alias)) request.story.alias = named(alias);
  } catch {
    // No reference, or a registry that cannot be asked: the refusal is recorded without it.
  }
}

const isListed = ({ versions, aliases }: ModelEntry, { version, alias }: ReturnType<typeof parseReference>): boolean =>
  (version === undefined || versions.includes(version)) && (alias === undefined || Object.hasOwn(aliases, alias));
