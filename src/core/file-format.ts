// Names of formats, compressions and delimiters, and detection of inputs that are not text by their first bytes.
// formats/formats.ts defines the formats.
import { SluiceError } from './errors.ts';

/** Formats that consist of text records. */
export const TEXT_FORMATS = ['csv', 'tsv', 'ndjson', 'json'] as const;
export type TextFormat = (typeof TEXT_FORMATS)[number];

/**
 * Formats that can be read while the input arrives. Parquet is not one of them, because reading starts at the end of
 * the file.
 */
export const STREAM_FORMATS = [...TEXT_FORMATS, 'arrow'] as const;

export const FILE_FORMATS = [...TEXT_FORMATS, 'parquet', 'arrow'] as const;
export type FileFormat = (typeof FILE_FORMATS)[number];

export const COMPRESSIONS = ['none', 'gzip', 'zstd'] as const;
export type Compression = (typeof COMPRESSIONS)[number];

export const DELIMITER_NAMES = ['tab', 'comma', 'semicolon', 'pipe'] as const;

/** Formats of topic values. */
export const RECORD_FORMATS = ['json', 'avro', 'json_schema', 'protobuf'] as const;
export type RecordFormatName = (typeof RECORD_FORMATS)[number];

// The code below recognises content other than CSV or JSON text by its first bytes, so that the error can name it.

interface ForeignContent {
  /** Name of the detected content. */
  name: string;
  /** Advice for the owner of the input. */
  advice: string;
}

const GIVE_ARROW = 'name it .arrow, or set format arrow';
const UNPACK = 'decompress it first';
const SAVE_AS = 'save it as CSV in UTF-8';
const packed = (name: string): string => `name it .${name}, or set compression (Content-Encoding over HTTP)`;

const ascii = (text: string): number[] => [...Buffer.from(text, 'latin1')];

/**
 * Signatures by which content is recognised. If one signature is a prefix of another signature, the longer one comes
 * first. Source: the specifications of the formats.
 */
const SIGNATURES: readonly [bytes: readonly number[], name: string, advice: string][] = [
  [[0xff, 0xfe, 0, 0], 'UTF-32 text', SAVE_AS],
  [[0, 0, 0xfe, 0xff], 'UTF-32 text', SAVE_AS],
  [[0xff, 0xfe], 'UTF-16 text', `declare encoding: utf-16, or ${SAVE_AS}`],
  [[0xfe, 0xff], 'UTF-16 text', `declare encoding: utf-16, or ${SAVE_AS}`],
  [[0x1f, 0x8b], 'compressed with gzip', packed('gz')],
  [[0x28, 0xb5, 0x2f, 0xfd], 'compressed with zstd', packed('zst')],
  [[0x04, 0x22, 0x4d, 0x18], 'compressed with lz4', UNPACK],
  [ascii('BZh91AY&SY'), 'compressed with bzip2', UNPACK],
  [[0xfd, 0x37, 0x7a, 0x58, 0x5a, 0], 'compressed with xz', UNPACK],
  [[0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c], 'a 7-Zip archive', UNPACK],
  [ascii('PK\x05\x06'), 'an empty ZIP archive', 'check the program that wrote it'],
  [ascii('PK\x03\x04'), 'a ZIP archive or an Excel workbook (.xlsx)', 'unzip it, or save the sheet as CSV in UTF-8'],
  [[0xd0, 0xcf, 0x11, 0xe0], 'an Excel workbook (.xls)', SAVE_AS],
  [ascii('PAR1\x15'), 'a Parquet file', 'name it .parquet, or set format parquet'],
  [ascii('ARROW1\0'), 'an Arrow file', GIVE_ARROW],
  [[0xff, 0xff, 0xff, 0xff], 'an Arrow stream', GIVE_ARROW],
  [ascii('FEA1\0'), 'a Feather file', 'save it as Parquet or CSV'],
  [ascii('ORC\x0a'), 'an ORC file', 'save it as Parquet or CSV'],
  [ascii('Obj\x01'), 'an Avro file', 'save it as NDJSON, Parquet or CSV'],
  [ascii('SQLite format 3\0'), 'an SQLite database', 'export its table as CSV'],
  [ascii('%PDF-'), 'a PDF document', 'export the original table as CSV'],
];
const MARKUP = /^\s*<(?:!doctype|\?xml|html)/i;
/** Number of input bytes used for detection. */
const HEAD = 64;
/** 1 for each byte with which content other than text may start. Most inputs need only this check. */
const SUSPECT = new Uint8Array(256);
for (const byte of [...SIGNATURES.map(([bytes]) => bytes[0]!), ...ascii(' \t\r\n<')]) SUSPECT[byte] = 1;

/**
 * Rejects an input whose first bytes (`head`) show that it is not UTF-8 text. For most formats, four bytes are enough.
 * @throws SluiceError invalid_encoding for other encodings | foreign_content, with the detected format and the remedy
 */
export function refuseForeignContent(head: Uint8Array): void {
  const found = foreignContent(head);
  if (!found) return;
  const code = found.name.startsWith('UTF-') ? 'invalid_encoding' : 'foreign_content';
  throw new SluiceError(code, `the input is ${found.name}: ${found.advice}`);
}

function foreignContent(head: Uint8Array): ForeignContent | null {
  if (SUSPECT[head[0] ?? 0] === 0 && head[1] !== 0 && head[2] !== 0 && head[3] !== 0) return null;
  for (const [bytes, name, advice] of SIGNATURES) {
    if (bytes.length <= head.length && bytes.every((b, i) => head[i] === b)) return { name, advice };
  }
  const first = head.subarray(0, HEAD);
  const zeros = first.filter((b) => b === 0).length;
  if (first.length >= 4 && zeros * 3 > first.length) {
    if (zeros * 3 > first.length * 2) return { name: 'UTF-32 text', advice: SAVE_AS };
    const order = first[0] === 0 ? 'utf-16be' : 'utf-16le';
    return { name: 'UTF-16 text', advice: `declare encoding: ${order}, or ${SAVE_AS}` };
  }
  if (MARKUP.test(Buffer.from(first).toString('latin1'))) {
    return { name: 'an HTML or XML page', advice: 'check whether a download returned an error page' };
  }
  return null;
}
