// The registry of connectors. To add a connector, create its folder and add an entry here.
import type { TSchema } from 'typebox';
import type { Connector, End, EndSchemas } from './contract/connector.ts';
import { FILE } from './file/file-connector.ts';
import { KAFKA } from './kafka/kafka-connector.ts';
import { OBJECT_STORAGE } from './object-storage/object-connector.ts';
import { POSTGRES } from './postgres/postgres-connector.ts';
import { STANDARD_STREAMS } from './stdio/stdio-connector.ts';
import { UPLOAD } from './upload/upload-connector.ts';

/** Connectors by name: the `type` of a source, a sink or dead letters in a pipeline. */
export const CONNECTORS = {
  kafka: KAFKA,
  file: FILE,
  'object-storage': OBJECT_STORAGE,
  stdio: STANDARD_STREAMS,
  postgres: POSTGRES,
  upload: UPLOAD,
} satisfies Record<string, Connector>;

type Connectors = typeof CONNECTORS;
type SchemasOf<K extends keyof Connectors> = Connectors[K]['options'];
type SchemasAs<E extends keyof EndSchemas> = {
  [K in keyof Connectors as SchemasOf<K> extends Record<E, TSchema> ? K : never]: SchemasOf<K> extends Record<
    E,
    infer T
  >
    ? T
    : never;
};

/** The schemas of all sources, sinks and dead letters, by connector type. */
export interface AllSchemas {
  sources: SchemasAs<'source'>;
  sinks: SchemasAs<'sink'>;
  deadLetters: SchemasAs<'deadLetter'>;
}

export function endSchemas(): AllSchemas {
  const found = { sources: {}, sinks: {}, deadLetters: {} } as Record<keyof AllSchemas, Record<string, TSchema>>;
  for (const [type, connector] of Object.entries<Connector>(CONNECTORS)) {
    const { source, sink, deadLetter } = connector.options;
    if (source) found.sources[type] = source;
    if (sink) found.sinks[type] = sink;
    if (deadLetter) found.deadLetters[type] = deadLetter;
  }
  return found as unknown as AllSchemas;
}

const BY_TYPE: Readonly<Record<string, Connector>> = CONNECTORS;

/** The connector with this name. undefined: there is none, which cannot happen in a validated pipeline. */
export const connectorNamed = (type: unknown): Connector | undefined =>
  typeof type === 'string' && Object.hasOwn(BY_TYPE, type) ? BY_TYPE[type] : undefined;

/** The connector of a pipeline's source, sink or dead letters. */
export const connectorOf = ({ type }: End): Connector => BY_TYPE[type]!;

/** Whether a source reads the rows of a query. Reading it again means executing the query again. */
export const isQuery = (source: unknown): boolean =>
  connectorNamed((source as Partial<End> | undefined)?.type)?.capabilities.reads === 'rows';

/** Whether a source reads an endless stream of records. */
export const isEndless = (source: End): boolean => connectorOf(source).capabilities.reads === 'records';

/** Whether a run ends without a signal: at the end of its source, or after the records that a topic had at the start. */
export const endsAlone = (source: End): boolean =>
  !isEndless(source) || (source as { until_caught_up?: boolean }).until_caught_up === true;
