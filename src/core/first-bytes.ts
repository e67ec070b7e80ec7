// Files that are no UTF-8 text, known by how they begin: whoever gives one where text is expected is told what it is.

export interface KnownFormat {
  /** As in "the input is …". */
  is: string;
  /** What to do about it. */
  advice: string;
}

/** So many bytes are enough to know any of them. */
export const FIRST_BYTES = 10;

const unpack = (name: string): KnownFormat => ({ is: `compressed with ${name}`, advice: 'unpack it first' });
const packed = (name: string, ending: string): KnownFormat => ({
  is: `compressed with ${name}`,
  advice: `give it the ending ${ending}, or say compression ${name}`,
});
const encoded = (name: string): KnownFormat => ({ is: `${name} text`, advice: 'export it as UTF-8' });
const ARROW: KnownFormat = { is: 'an Arrow file', advice: 'write the table as Parquet or CSV' };
const UTF_16 = encoded('UTF-16');
const UTF_32 = encoded('UTF-32');

/** Beginnings in order: a longer one goes before those it begins with. None is the beginning of a line of text. */
const BEGINNINGS: readonly (readonly [beginning: string, format: KnownFormat])[] = [
  ['\x1f\x8b', packed('gzip', '.gz')],
  ['\x28\xb5\x2f\xfd', packed('zstd', '.zst')],
  ['PK\x03\x04', { is: 'a zip archive or an Excel workbook', advice: 'save the table as CSV, or unpack it first' }],
  ['PK\x05\x06', { is: 'an empty zip archive', advice: 'look at what wrote it' }],
  ['\xd0\xcf\x11\xe0', { is: 'an Excel workbook', advice: 'save the table as CSV' }],
  ['PAR1\x15', { is: 'a Parquet file', advice: 'give it the ending .parquet, or say format parquet' }],
  ['ARROW1\0', ARROW],
  ['\xff\xff\xff\xff', ARROW],
  ['BZh', unpack('bzip2')],
  ['\xfd7zXZ\0', unpack('xz')],
  ['\x04\x22\x4d\x18', unpack('lz4')],
  ['7z\xbc\xaf', unpack('7-Zip')],
  ['\xff\xfe\0\0', UTF_32],
  ['\0\0\xfe\xff', UTF_32],
  ['\xff\xfe', UTF_16],
  ['\xfe\xff', UTF_16],
];
/** What follows `BZh` and a digit: a header may begin with those letters. */
const BZIP2 = /^BZh[1-9](1AY&SY|\x17rE8P\x90)/;

/** What begins like this; null: it may be text. `bytes`: the first ones, as many as there are. */
export function knownFormat(bytes: Uint8Array): KnownFormat | null {
  const head = Buffer.from(bytes.subarray(0, FIRST_BYTES)).toString('latin1');
  for (const [beginning, format] of BEGINNINGS) {
    if (head.startsWith(beginning) && (beginning !== 'BZh' || BZIP2.test(head))) return format;
  }
  // zstd may begin with a skippable frame.
  if (/^[\x50-\x5f]\x2a\x4d\x18/.test(head)) return packed('zstd', '.zst');
  // Every second byte of ASCII in UTF-16 is 0, also where no mark says so.
  if (/^(?:[ -~]\0){2}|^(?:\0[ -~]){2}/.test(head)) return UTF_16;
  return null;
}
