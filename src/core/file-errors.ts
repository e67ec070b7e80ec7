// What a fault of the file system means, in words, beside the code that administrators know.

const WORDS: Readonly<Record<string, string>> = {
  EACCES: 'no permission',
  EDQUOT: 'the quota is used up',
  EFBIG: 'the file is larger than the system permits',
  EIO: 'the disk failed',
  EMFILE: 'this process has too many open files: raise its limit (ulimit -n)',
  ENAMETOOLONG: 'the name is too long',
  ENFILE: 'this machine has too many open files',
  ENOENT: 'it or its folder does not exist',
  ENOSPC: 'no space is left on the disk',
  EPERM: 'it is not permitted',
  EROFS: 'the file system is read-only',
};

/** `ENOSPC, no space is left on the disk`; the message of what is no fault of the file system. */
export function fileFault(cause: unknown): string {
  const { code } = cause as NodeJS.ErrnoException;
  if (code === undefined) return cause instanceof Error ? cause.message : String(cause);
  return WORDS[code] === undefined ? code : `${code}, ${WORDS[code]}`;
}

/** Whether there is no room for more. */
export const isFull = (cause: unknown): boolean =>
  ['ENOSPC', 'EDQUOT', 'EFBIG'].includes((cause as NodeJS.ErrnoException).code ?? '');
