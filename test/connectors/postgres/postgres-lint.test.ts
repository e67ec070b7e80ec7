// What pipelines with tables need and exclude, key by key: a pipeline that is accepted here fails at night otherwise.
import { expect, test } from 'vitest';
import { connectorOf } from '../../../src/connectors/connectors.ts';
import type { LintedPipeline } from '../../../src/connectors/contract/connector.ts';
import { lintTables } from '../../../src/connectors/postgres/postgres-lint.ts';

const FILE = { type: 'file', path: 'in.csv' };
const TOPIC = { type: 'kafka', topic: 'a', group: 'g' };
const TABLE = { type: 'postgres', url_env: 'DB', table: 't' };
const MERGE = { ...TABLE, mode: 'merge' };

const judged = (pipeline: object): string[] => {
  const messages: string[] = [];
  const whole = { source: FILE, sink: TABLE, score: { passthrough: ['id', 'branch'] }, ...pipeline };
  const source = connectorOf(whole.source);
  const linted = { ...whole, reads: source.capabilities.reads, several: source.isPattern?.(whole.source) ?? false };
  lintTables(linted as unknown as LintedPipeline, (path, message) => messages.push(`${path} | ${message}`));
  return messages;
};

test.each([
  ['a file into a table', {}],
  ['a table into a file', { source: TABLE, sink: { type: 'file', path: 'out.csv' } }],
  ['a query', { source: { type: 'postgres', url_env: 'DB', query: 'select 1' } }],
  ['merge by its columns', { sink: { ...MERGE, key: ['branch', 'id'] } }],
  ['merge by what a record of a topic has', { source: TOPIC, sink: { ...MERGE, key: ['topic', 'partition', 'offset', 'id'] } }],
  ['replace from one file', { sink: { ...TABLE, mode: 'replace' } }],
  ['append from several files', { source: { type: 'file', path: 'in/*.csv' } }],
  ['dead letters of a topic in a table', { source: TOPIC, dead_letter: TABLE }],
  ['an address without a password', { sink: { type: 'postgres', url: 'postgres://me@host:5432/db', table: 't' } }],
])('%s holds', (_, pipeline) => {
  expect(judged(pipeline)).toEqual([]);
}); // biome-ignore format: a table

test.each([
  ['neither table nor query', { source: { type: 'postgres', url_env: 'DB' } }, 'source | source: needs one of table and query'],
  ['both', { source: { ...TABLE, query: 'select 1' } }, 'source | source: needs one of table and query'],
  ['two addresses', { sink: { ...TABLE, url: 'postgresql://host/db' } }, 'sink.url | sink: needs one of url and url_env'],
  ['another protocol', { sink: { type: 'postgres', url: 'mysql://host/db', table: 't' } }, 'sink.url | url: must have the form postgresql://user@host:port/database'],
  ['no address', { source: { type: 'postgres', url: 'host', table: 't' } }, 'source.url | url: must have the form postgresql://user@host:port/database'],
  ['a password', { sink: { type: 'postgres', url: 'postgresql://me:secret@host/db', table: 't' } }, 'sink.url | url: put the password in the environment (url_env, PGPASSWORD) or in .pgpass'],
  ['all columns', { score: { passthrough: '*' } }, 'score | passthrough: a table needs a list of columns'],
  ['replace from a topic', { source: TOPIC, sink: { ...TABLE, mode: 'replace' } }, 'sink.mode | mode: replace is not supported for topics, because a topic never ends'],
  ['replace from several files', { source: { type: 'file', path: 'in/*.csv' }, sink: { ...TABLE, mode: 'replace' } }, 'sink.mode | mode: replace is not supported for several inputs, because each would replace the previous one'],
  ['a key without merge', { sink: { ...TABLE, key: ['id'] } }, 'sink.key | key: requires mode: merge'],
  ['merge without a key', { sink: MERGE }, 'sink | sink: mode: merge needs key'],
  ['a key of one column that is absent', { sink: { ...MERGE, key: ['id', 'date'] } }, 'sink.key | key: date is not in score.passthrough'],
  ['a key of the topic, from a file', { sink: { ...MERGE, key: ['topic', 'offset'] } }, 'sink.key | key: topic, offset is not in score.passthrough'],
  ['no columns at all', { sink: { ...MERGE, key: ['id'] }, score: {} }, 'sink.key | key: id is not in score.passthrough'],
  ['dead letters of a file', { dead_letter: TABLE }, 'dead_letter | a table of dead letters needs a topic as the source and a table as the sink'],
  ['dead letters beside another topic', { source: TOPIC, sink: TOPIC, dead_letter: TABLE }, 'dead_letter | a table of dead letters needs a topic as the source and a table as the sink'],
])('%s is refused', (_, pipeline, message) => {
  expect(judged(pipeline)).toEqual([message]);
}); // biome-ignore format: a table
