// The last resolution of every reference of a remote registry, on disk, so that a restart during an outage changes nothing.
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';

interface KeptPackage {
  stamp: string;
  /** Its key in the cache. */
  sha256: string;
}

/** Of one model. */
interface Resolution {
  /** Reference → version; null: the store does not have the model, the registry behind it serves it. */
  references: Record<string, string | null>;
  packages: Record<string, KeptPackage>;
}

/** One file per model. Caches keep their files in the folder `meanings`, a name that older releases read. */
export class Resolutions {
  readonly #folder: string;
  readonly #known = new Map<string, Resolution>();

  constructor(cacheFolder: string, address: string) {
    const name = createHash('sha256').update(address).digest('hex').slice(0, 32);
    this.#folder = path.join(cacheFolder, 'meanings', name);
  }

  /** `id` was checked by parseReference, so it is safe as a file name. */
  async of(id: string): Promise<Resolution> {
    const known = this.#known.get(id);
    if (known) return known;
    const resolution = await readResolution(path.join(this.#folder, `${id}.json`));
    const raced = this.#known.get(id);
    if (raced) return raced;
    this.#known.set(id, resolution);
    return resolution;
  }

  async keep(id: string, reference: string, version: string | null): Promise<void> {
    const resolution = await this.of(id);
    if (resolution.references[reference] === version) return;
    resolution.references[reference] = version;
    await this.#write(id, resolution);
  }

  async keepPackage(id: string, version: string, kept: KeptPackage): Promise<void> {
    const resolution = await this.of(id);
    resolution.packages[version] = kept;
    await this.#write(id, resolution);
  }

  async #write(id: string, resolution: Resolution): Promise<void> {
    const partial = path.join(this.#folder, `.${randomUUID()}.partial`);
    try {
      await mkdir(this.#folder, { recursive: true });
      await writeFile(partial, `${JSON.stringify(resolution)}\n`);
      await rename(partial, path.join(this.#folder, `${id}.json`));
    } catch (cause) {
      await rm(partial, { force: true });
      throw new SluiceError('registry_unavailable', `${this.#folder} cannot be written`, { cause });
    }
  }
}

/** A missing or damaged file counts as nothing resolved yet. */
async function readResolution(file: string): Promise<Resolution> {
  const none = (): Resolution => ({ references: Object.create(null), packages: Object.create(null) });
  try {
    const { references, packages } = JSON.parse(await readFile(file, 'utf8')) as Partial<Resolution>;
    const resolution = none();
    Object.assign(resolution.references, references);
    Object.assign(resolution.packages, packages);
    return resolution;
  } catch {
    return none();
  }
}
