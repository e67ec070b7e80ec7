// Errors of resumable uploads, with the statuses that their protocol (tus) has for them; part of the one catalogue.
import { type ErrorEntry, input } from './error-entries.ts';

export const UPLOAD_ERRORS = {
  upload_not_found: input(
    'There is no such upload.',
    'Begin a new one: it was removed, or nothing came for jobs.upload_ttl_ms; or it is of another key.',
    404,
  ),
  upload_offset_conflict: input(
    'A part of an upload begins elsewhere than the bytes that are there end.',
    'Ask with HEAD how many there are, and go on from there.',
    409,
  ),
  upload_locked: {
    ...input('Another request writes to the upload.', 'Ask with HEAD after Retry-After, and go on from there.', 423),
    retryable: true,
  },
  upload_too_large: input(
    'An upload is larger than it may be, or than it said it would be.',
    'Say the right Upload-Length; a larger upload wants a higher limits.body_bytes, or several files.',
    413,
  ),
  upload_checksum_mismatch: {
    ...input(
      'A part of an upload is not what its Upload-Checksum says.',
      'Send it again: nothing of it was kept.',
      460,
    ),
    retryable: true,
  },
  upload_media_type: input(
    'A part of an upload has another media type.',
    'Send it with Content-Type: application/offset+octet-stream.',
    415,
  ),
  tus_version: input('The request speaks another version of tus.', 'Send Tus-Resumable: 1.0.0.', 412),
} as const satisfies Record<string, ErrorEntry>;
