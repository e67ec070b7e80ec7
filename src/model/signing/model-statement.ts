// What a signature of a package says: an in-toto statement in the model-signing format of the OpenSSF, which names each file with its SHA-256.
import { createHash } from 'node:crypto';
import { SluiceError } from '../../core/errors.ts';
import type { ModelPackage, PackageFile } from '../package/model-package.ts';
import { hashedFiles, LOCK, SIGNATURE } from '../package/package-hash.ts';

const IN_TOTO = 'https://in-toto.io/Statement/v1';
const PREDICATE = 'https://model_signing/signature/v1.0';

interface Statement {
  _type: string;
  subject: { name: string; digest: { sha256: string } }[];
  predicateType: string;
  predicate: {
    serialization: { method: string; hash_type: string; allow_symlinks: boolean; ignore_paths?: string[] };
    resources: { name: string; algorithm: string; digest: string }[];
  };
}

type Named = Pick<PackageFile, 'name' | 'sha256'>;

/** SHA-256 over the digests of the files, in the order in which they are named. */
function rootOf(digests: readonly string[]): string {
  const hash = createHash('sha256');
  for (const digest of digests) hash.update(digest, 'hex');
  return hash.digest('hex');
}

/** The statement about a package, as JSON. All of its files are named but the signature itself. */
export function statementFor({ ref, files }: Pick<ModelPackage, 'ref' | 'files'>): string {
  const signed = files.filter((f) => f.name !== SIGNATURE);
  const statement: Statement = {
    _type: IN_TOTO,
    subject: [{ name: ref, digest: { sha256: rootOf(signed.map((f) => f.sha256)) } }],
    predicateType: PREDICATE,
    predicate: {
      serialization: {
        method: 'files',
        hash_type: 'sha256',
        allow_symlinks: false,
        ignore_paths: [SIGNATURE, '.git', '.gitattributes', '.github', '.gitignore'],
      },
      resources: signed.map((f) => ({ name: f.name, algorithm: 'sha256', digest: f.sha256 })),
    },
  };
  return JSON.stringify(statement, null, 1);
}

const invalid = (how: string, cause?: unknown): SluiceError =>
  new SluiceError('signature_invalid', `${SIGNATURE} ${how}`, { cause });

/** The files that a statement names. @throws SluiceError signature_invalid: it is of another form, or contradicts itself */
export function readModelStatement(payload: Buffer): Named[] {
  let statement: Statement;
  try {
    statement = JSON.parse(payload.toString()) as Statement;
    if (statement._type !== IN_TOTO || statement.predicateType !== PREDICATE) throw new Error('of another type');
    const { method, hash_type } = statement.predicate.serialization;
    const algorithms = statement.predicate.resources.map((r) => r.algorithm);
    if (method !== 'files' || [hash_type, ...algorithms].some((a) => a !== 'sha256')) {
      throw invalid(
        'names files by another hash than SHA-256, or pieces of them: sign with the defaults of model_signing',
      );
    }
    const { resources } = statement.predicate;
    const named = resources.map((r) => ({ name: String(r.name), sha256: String(r.digest) }));
    const [subject, ...others] = statement.subject;
    if (others.length > 0 || subject!.digest.sha256 !== rootOf(named.map((r) => r.sha256))) {
      throw new Error('its digest is not that of its files');
    }
    return named;
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw invalid('holds no statement of the model-signing format', cause);
  }
}

/**
 * Holds the files of a package against those that were signed. The lock may have been written after the signature: it names the same files.
 * @throws SluiceError signature_invalid, naming the files
 */
export function assertSigned({ ref, files }: Pick<ModelPackage, 'ref' | 'files'>, signed: readonly Named[]): void {
  const before = new Map(signed.map((f) => [f.name, f.sha256]));
  const lock = files.find((f) => f.name === LOCK && before.has(LOCK));
  const now = [...hashedFiles(files), ...(lock ? [lock] : [])];
  const faults = now.flatMap(({ name, sha256 }) => {
    if (!before.has(name)) return [`${name} was added`];
    return before.get(name) === sha256 ? [] : [`${name} was changed`];
  });
  const names = new Set(now.map((f) => f.name));
  for (const name of before.keys()) {
    const hidden = name.split('/').some((part) => part.startsWith('.'));
    if (!names.has(name) && !hidden) faults.push(`${name} is gone`);
  }
  if (faults.length > 0) throw invalid(`of ${ref} is of other files: ${faults.slice(0, 5).join(', ')}`);
}
