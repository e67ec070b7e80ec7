// The carriers that make.py wrote: files and records with values of one type.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { readAvro } from '../../../src/formats/avro/avro-values.ts';
import { readProtobuf } from '../../../src/formats/protobuf/protobuf-values.ts';
import type { Kind, Value } from './rule.ts';

interface Stored {
  kind: Kind;
  values: Value[];
  /** Kinds of the values to the Python client that sent them. */
  client?: string[];
}
export interface Table extends Stored {
  name: string;
  format: 'arrow' | 'parquet';
  /** Its bytes, as base64. */
  file: string;
}
interface Records extends Stored {
  name: string;
  format: 'avro' | 'protobuf';
  schema: string;
  /** The bytes of each record without the schema id, hexadecimal. */
  records: string[];
}
export type Carrier = Table | Records;
export const isTable = (carrier: Carrier): carrier is Table => 'file' in carrier;

const FILE = path.join(import.meta.dirname, 'carriers.json.gz');
const stored = JSON.parse(gunzipSync(readFileSync(FILE)).toString()) as Record<string, object>;
export const CARRIERS = Object.entries(stored).map(([name, carrier]) => ({ name, ...carrier }) as Carrier);

/** The records as lines of JSON, as a topic is read; `x` is a column of the model, or is passed through. */
export function linesOf(carrier: Records, forModel: boolean): string[] {
  const { format, schema, records } = carrier;
  const read =
    format === 'avro'
      ? readAvro({ type: 'AVRO', text: schema, references: [] }, null)
      : readProtobuf({ type: 'PROTOBUF', text: schema, references: [] });
  // In front of a Protobuf message stands which one of its file it is: 0 is the first. M may be the second.
  const head = format === 'avro' ? [] : /message N/.test(schema) ? [2, 2] : [0];
  const fields = new Set(forModel ? ['x'] : []);
  return records.map((hex) => read(Buffer.concat([Buffer.from(head), Buffer.from(hex, 'hex')]))(fields).toString());
}
