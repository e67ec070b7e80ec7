// Parses and checks the headers of tus requests (https://tus.io/protocols/resumable-upload, version 1.0.0).
import { createHash, type Hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { SluiceError } from '../../../core/errors.ts';

export const TUS_VERSION = '1.0.0';
/** Checksum algorithms, whose names are the same in tus and in Node. */
const ALGORITHMS = ['sha1', 'sha256', 'sha512'];
const PART_TYPE = 'application/offset+octet-stream';

/** Response headers that state the capabilities of the service. `maxBytes`: maximum size of an upload. */
export const tusAbilities = (maxBytes: number): Record<string, string> => ({
  'tus-resumable': TUS_VERSION,
  'tus-version': TUS_VERSION,
  'tus-extension': 'creation,creation-with-upload,termination,expiration,checksum',
  'tus-max-size': String(maxBytes),
  'tus-checksum-algorithm': ALGORITHMS.join(','),
});

/** The headers of a request that creates an upload. */
export interface UploadHead {
  length: number;
  metadata: string | null;
  /** Whether the request contains the first part. */
  withPart: boolean;
}

/** @throws SluiceError bad_request | upload_media_type */
export function uploadHeadOf(headers: IncomingHttpHeaders): UploadHead {
  if (headers['upload-defer-length'] !== undefined)
    throw new SluiceError(
      'bad_request',
      'Upload-Defer-Length is not supported: send Upload-Length when creating the upload',
    );
  if (headers['upload-concat'] !== undefined) throw new SluiceError('bad_request', 'Upload-Concat is not supported');
  // tuspy sends an empty header if it has no metadata.
  const metadata = String(headers['upload-metadata'] ?? '').trim() || null;
  if (metadata !== null) checkMetadata(metadata);
  const typed = isPart(headers);
  const sends = Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined;
  if (sends && !typed) throw wrongType();
  return {
    length: countOf(headers, 'upload-length'),
    metadata,
    withPart: typed,
  };
}

/** The headers of a request that contains a part. */
export interface PartHead {
  offset: number;
  /** The checksum that the part must match; null if the client sent none. */
  check: PartCheck | null;
  /** Whether the part is stored only when it is complete and was checked. */
  whole: boolean;
}

/** @throws SluiceError bad_request | upload_media_type | invalid_content */
export function partHeadOf(headers: IncomingHttpHeaders, offset = countOf(headers, 'upload-offset')): PartHead {
  if (!isPart(headers)) throw wrongType();
  const encoding = headers['content-encoding'];
  // Offsets count the bytes of the upload. An encoded body that breaks off could end in the middle of an encoded unit,
  // so its offset would be unknown.
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity')
    throw new SluiceError('invalid_content', 'Content-Encoding is not supported for parts of an upload');
  const check = PartCheck.of(headers);
  return { offset, check, whole: check !== null || headers['content-digest'] !== undefined };
}

/** Compares received bytes with Upload-Checksum. */
class PartCheck {
  readonly #hash: Hash;
  readonly #sum: string;

  private constructor(algorithm: string, sum: string) {
    this.#hash = createHash(algorithm);
    this.#sum = sum;
  }

  /** Returns null if the request has no checksum. @throws SluiceError bad_request */
  static of(headers: IncomingHttpHeaders): PartCheck | null {
    const header = headers['upload-checksum'];
    if (header === undefined) return null;
    const [algorithm = '', sum = '', ...more] = String(header).trim().split(' ');
    if (!ALGORITHMS.includes(algorithm)) {
      throw new SluiceError('bad_request', `Upload-Checksum: the algorithm must be one of ${ALGORITHMS.join(', ')}`);
    }
    if (more.length > 0 || !BASE64.test(sum) || sum === '')
      throw new SluiceError('bad_request', 'Upload-Checksum must be an algorithm and a checksum in base64');
    return new PartCheck(algorithm, sum);
  }

  update(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  /** Call this method once, after the last byte. @throws SluiceError upload_checksum_mismatch */
  verify(): void {
    if (this.#hash.digest().equals(Buffer.from(this.#sum, 'base64'))) return;
    throw new SluiceError('upload_checksum_mismatch', 'the part does not match its Upload-Checksum');
  }
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

const isPart = (headers: IncomingHttpHeaders): boolean =>
  (headers['content-type'] ?? '').split(';')[0]!.trim().toLowerCase() === PART_TYPE;

const wrongType = (): SluiceError =>
  new SluiceError('upload_media_type', 'the Content-Type of a part must be application/offset+octet-stream');

/** @throws SluiceError bad_request */
function countOf(headers: IncomingHttpHeaders, name: 'upload-length' | 'upload-offset'): number {
  const value = headers[name];
  if (/^\d{1,15}$/.test(String(value ?? ''))) return Number(value);
  throw new SluiceError(
    'bad_request',
    `${name === 'upload-length' ? 'Upload-Length' : 'Upload-Offset'} must be a number`,
  );
}

/**
 * Checks the format `key base64, key`. Keys must be distinct, and consist of visible ASCII characters other than
 * commas.
 * @throws SluiceError bad_request
 */
function checkMetadata(header: string): void {
  const keys = new Set<string>();
  for (const pair of header.split(',')) {
    const [key = '', value = '', ...more] = pair.trim().split(' ');
    const sound = /^[\x21-\x7e]+$/.test(key) && !keys.has(key) && BASE64.test(value) && more.length === 0;
    if (!sound)
      throw new SluiceError(
        'bad_request',
        'Upload-Metadata must be pairs of a key and a base64 value, with unique keys',
      );
    keys.add(key);
  }
}
