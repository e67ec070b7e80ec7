// Predictions as a Parquet file, written row group by row group from the lines of JSON the engine makes.
import { ByteWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer';
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { ByteSink } from './byte-sink.ts';

const GROUP_ROWS = 50_000;

type Type = 'STRING' | 'DOUBLE' | 'INT32' | 'BOOLEAN';
type Json = Record<string, unknown>;

interface Column {
  name: string;
  type: Type;
  of(line: Json): unknown;
}

/** The columns of CSV, with types. */
function columnsOf(manifest: Manifest, passthrough: readonly string[], spec: InterpretationSpec | null): Column[] {
  const key = (name: string, type: Type): Column => ({ name, type, of: (l) => l[name] });
  const error = (part: string): Column => ({
    name: `error_${part}`,
    type: 'STRING',
    of: (l) => (l.error as Json | undefined)?.[part],
  });
  const x = (l: Json): Json => (l.interpretation as Json | undefined) ?? {};
  const binary = manifest.task === 'binary';
  const classes = manifest.task === 'multiclass' ? (manifest.classes ?? []) : [];
  return [
    ...passthrough.map(
      (name): Column => ({
        name,
        type: 'STRING',
        of: (l) => (l[name] === undefined || l[name] === null ? null : String(l[name])),
      }),
    ),
    key('row', 'INT32'),
    ...(binary || classes.length > 0
      ? [
          {
            name: 'prediction',
            type: binary ? 'BOOLEAN' : 'STRING',
            of: (l) => (binary ? l.prediction : l.prediction === undefined ? null : String(l.prediction)),
          } as Column,
          key('probability', 'DOUBLE'),
        ]
      : [key('value', 'DOUBLE')]),
    ...classes.map(
      (c): Column => ({
        name: `probability.${c}`,
        type: 'DOUBLE',
        of: (l) => (l.probabilities as Json | undefined)?.[String(c)],
      }),
    ),
    ...(manifest.scorecard ? [key('points', 'INT32')] : []),
    ...(manifest.decisions ? [key('decision', 'STRING')] : []),
    error('code'),
    error('column'),
    error('message'),
    ...(spec?.effects
      ? [
          { name: 'base', type: 'DOUBLE', of: (l) => x(l).base } as Column,
          ...manifest.columns.map(
            (c): Column => ({
              name: `effect.${c.name}`,
              type: 'DOUBLE',
              of: (l) =>
                (x(l).effects as { column: string; effect: number }[] | undefined)?.find((e) => e.column === c.name)
                  ?.effect,
            }),
          ),
        ]
      : []),
    ...(spec?.reasons
      ? [
          {
            name: 'reasons',
            type: 'STRING',
            of: (l) => (x(l).reasons as { code: string }[] | undefined)?.map((r) => r.code).join(';'),
          } as Column,
        ]
      : []),
  ];
}

/** Takes lines of JSON, any number at a time but whole. */
export function parquetOutput(
  sink: ByteSink,
  manifest: Manifest,
  passthrough: readonly string[],
  spec: InterpretationSpec | null,
): { write(bytes: Uint8Array): Promise<void>; end(): Promise<void> } {
  const columns = columnsOf(manifest, passthrough, spec);
  let held: unknown[][] = columns.map(() => []);
  const bytes = new ByteWriter();
  const asColumns = (data: unknown[][]) =>
    columns.map((c, i) => ({ name: c.name, type: c.type, data: data[i]!, nullable: true }));
  const writer = new ParquetWriter({ writer: bytes, schema: schemaFromColumnData({ columnData: asColumns(held) }) });
  const drain = async (): Promise<void> => {
    await sink.write(bytes.getBytes());
    // What is written needs no room any more; the writer goes on counting in `offset`.
    bytes.index = 0;
  };
  const group = async (): Promise<void> => {
    if (held[0]!.length === 0) return;
    await writer.write({ columnData: asColumns(held), rowGroupSize: GROUP_ROWS });
    held = columns.map(() => []);
    await drain();
  };
  return {
    async write(lines) {
      for (const line of Buffer.from(lines).toString('utf8').split('\n')) {
        if (line === '') continue;
        const row = JSON.parse(line) as Json;
        columns.forEach((c, i) => {
          held[i]!.push(c.of(row) ?? null);
        });
      }
      if (held[0]!.length >= GROUP_ROWS) await group();
    },
    async end() {
      await group();
      await writer.finish();
      await drain();
    },
  };
}
