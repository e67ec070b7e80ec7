// Contradictions that the schema of a pipeline cannot express: keys that exclude or need each other, and file names that do not match their format.

import type { YamlDocument } from '../config/yaml.ts';
import type { YamlProblem } from '../config/yaml-problem.ts';
import { epochMs } from '../core/clock.ts';
import { COMPRESSIONS, FILE_FORMATS, type FileFormat, namedFormat } from '../core/file-format.ts';
import { momentOf } from '../core/time-of-day.ts';
import { declaredContradictions } from './declaration-contradictions.ts';
import type {
  FileSink,
  FileSource,
  Pipeline,
  PostgresSink,
  PostgresSource,
  StdioSink,
  StdioSource,
} from './pipeline-schema.ts';

type Say = (path: string, message: string) => void;
type DatabaseAddress = Pick<PostgresSource, 'url' | 'url_env'>;

export function judgeDatabases(pipeline: Pipeline, say: Say): void {
  const { source, sink, dead_letter: letters } = pipeline;
  if (source.type === 'postgres') {
    judgeAddress(source, 'source', say);
    if ((source.table === undefined) === (source.query === undefined))
      say('source', 'source: needs one of table and query');
  }
  if (sink.type === 'postgres') judgeTable(sink, pipeline, say);
  if (letters?.type === 'postgres' && (source.type !== 'kafka' || sink.type !== 'postgres')) {
    say('dead_letter', 'a table of dead letters needs a topic as the source and a table as the sink');
  }
}

/** A password in a file that is kept with the code is none. */
export function judgeAddress({ url, url_env }: DatabaseAddress, end: string, say: Say): void {
  if (url !== undefined && url_env !== undefined) say(`${end}.url`, `${end}: needs one of url and url_env`);
  if (url === undefined) return;
  if (!URL.canParse(url) || !/^postgres(ql)?:$/.test(new URL(url).protocol)) {
    say(`${end}.url`, 'url: is of the form postgresql://user@host:port/database');
  } else if (new URL(url).password !== '') {
    say(`${end}.url`, 'url: a password belongs into the environment (url_env, PGPASSWORD) or into .pgpass');
  }
}

/** Columns that a row of a topic has of itself. */
const OF_A_RECORD = ['topic', 'partition', 'offset'];

function judgeTable(sink: PostgresSink, { source, score }: Pipeline, say: Say): void {
  judgeAddress(sink, 'sink', say);
  const { mode, key } = sink;
  if (score.passthrough === '*') say('score', 'passthrough: a table needs the names of its columns');
  if (source.type === 'upload') say('sink', 'an upload goes to a file or a topic');
  if (mode === 'replace') {
    if (source.type === 'kafka')
      say('sink.mode', 'mode: a topic never ends, so nothing can take the place of all rows');
    if (source.type === 'file' && /[*?[]/.test(source.path)) {
      say('sink.mode', 'mode: replace is for one input; of several, each would take the place of the one before');
    }
  }
  if (mode !== 'merge') {
    if (key !== undefined) say('sink.key', 'key: is for mode: merge');
    return;
  }
  if (key === undefined) {
    say('sink', 'sink: mode: merge needs key');
    return;
  }
  const there = [...(score.passthrough ?? []), ...(source.type === 'kafka' ? OF_A_RECORD : [])];
  const absent = key.filter((name) => !there.includes(name));
  if (absent.length > 0 && score.passthrough !== '*')
    say('sink.key', `key: ${absent.join(', ')} is not in score.passthrough`);
}

// The only regular expression that is not a literal, because the operator of a pipeline writes it. It matches topic names only, which have
// at most 249 characters.

/** Matches whole names. @throws SyntaxError */
export const topicPattern = (pattern: string): RegExp => new RegExp(`^(?:${pattern})$`, 'u');

/** Every contradiction, each at the key that has to change. */
export function contradictions(pipeline: Pipeline, document: YamlDocument): YamlProblem[] {
  const problems: YamlProblem[] = [];
  const say: Say = (path, message) => {
    problems.push(document.atPath(path.split('.'), message));
  };
  const { source, sink } = pipeline;
  if (source.type === 'file') judgeFile(source, 'source', say);
  if (sink.type === 'file') judgeFile(sink, 'sink', say);
  judgeFormats(pipeline, say);
  judgeDeclared(pipeline, say);
  judgeTotals(pipeline, say);
  judgeScore(pipeline, say);
  judgeValues(pipeline, say);
  judgeTopics(pipeline, say);
  judgeEnds(pipeline, say);
  judgeDeadLetters(pipeline, say);
  judgeRetry(pipeline, say);
  judgeLogin(pipeline, say);
  judgeDatabases(pipeline, say);
  return problems.sort((a, b) => a.line - b.line || a.column - b.column);
}

const isPattern = (path: string): boolean => /[*?[]/.test(path);

/** A format that only its name could tell must be one there is. */
function judgeFile(file: FileSource | FileSink, end: 'source' | 'sink', say: Say): void {
  if (file.format !== undefined || (end === 'source' && isPattern(file.path))) return;
  const { format, ending } = namedFormat(file.path);
  if (format === null && ending !== '') {
    const verb = end === 'source' ? 'reads' : 'writes';
    const known = `${FILE_FORMATS.join(', ')}, with .gz or .zst`;
    say(`${end}.path`, `${end}.path: the ending ${ending} is no format Sluice ${verb}: ${known}`);
  }
}

/** The format of an end; null: it depends on the files of a pattern. A name that says nothing is CSV. */
function formatOf(end: FileSource | FileSink | StdioSource | StdioSink): FileFormat | null {
  if (end.type === 'stdio') return end.format;
  return end.format ?? (isPattern(end.path) ? null : (namedFormat(end.path).format ?? 'csv'));
}

function judgeDeclared({ source, score }: Pipeline, say: Say): void {
  if (source.type === 'postgres') return;
  const format = source.type === 'kafka' ? null : source.type === 'upload' ? source.format : formatOf(source);
  for (const { key, message } of declaredContradictions(source, format, score.passthrough ?? [])) {
    say(`source.${key}`, `source.${message}`);
  }
}

const TOTALS = ['expect', 'control', 'done_file', 'trailer'] as const;

/** Totals are known at the end of an input: what was seen of its predictions before cannot be taken back. */
function judgeTotals({ source, sink }: Pipeline, say: Say): void {
  for (const key of TOTALS) {
    if (!(key in source) || key === 'done_file') continue;
    if (sink.type === 'kafka') say(`source.${key}`, `source.${key}: predictions in a topic cannot be taken back`);
  }
  if (!('trailer' in source) || source.trailer === undefined) return;
  const format = source.type === 'upload' ? source.format : formatOf(source);
  if (format !== null && format !== 'csv' && format !== 'tsv')
    say('source.trailer', 'source.trailer: is a record of csv or tsv');
}

function judgeScore({ score }: Pipeline, say: Say): void {
  if (score.interactions === undefined || score.interpretation === 'effects') return;
  say('score.interactions', 'score.interactions: needs interpretation: effects');
}

function judgeValues({ source, sink }: Pipeline, say: Say): void {
  if (source.type === 'kafka') {
    if (source.reader_schema && source.format !== 'avro') say('source', 'reader_schema: is for format: avro');
    if (source.tombstones === 'forward' && sink.type !== 'kafka') {
      say('source', 'tombstones: files and tables have no place for records without a value');
    }
  }
  if (sink.type !== 'kafka' || !sink.routes) return;
  if (source.type !== 'kafka') say('sink', 'routes: need a topic as the source');
  const decisions = sink.routes.map((r) => r.decision);
  const twice = decisions.find((d, i) => decisions.indexOf(d) !== i);
  if (twice !== undefined) say('sink', `routes: the decision ${twice} has two topics`);
}

function judgeFormats({ source, sink, score, schema_registry }: Pipeline, say: Say): void {
  for (const [name, end] of [
    ['source', source],
    ['sink', sink],
  ] as const) {
    if (end.type === 'kafka' && end.format !== 'json' && !schema_registry) {
      say('schema_registry', `format: ${end.format} needs a schema_registry`);
    }
    if ((end.type !== 'file' && end.type !== 'stdio') || formatOf(end) !== 'parquet') continue;
    const named = end.type === 'file' ? namedFormat(end.path).compression : 'none';
    if ((end.compression ?? named) !== 'none') {
      const outer = COMPRESSIONS.filter((c) => c !== 'none').join(' or ');
      say(name, `${name}: a Parquet file is compressed inside, not by ${outer} around it`);
    }
  }
  const passed = score.passthrough === '*' ? [] : (score.passthrough ?? []);
  const twice = passed.find((column, i) => passed.indexOf(column) < i);
  if (twice !== undefined) say('score', `passthrough: ${twice} is named twice`);
  if (sink.type !== 'file' && sink.type !== 'stdio') return;
  if (source.type === 'kafka') {
    if (sink.type === 'stdio') return;
    const format = sink.format ?? namedFormat(sink.path).format ?? 'ndjson';
    if (format !== 'ndjson') say('sink', 'a topic goes to files of lines: ndjson');
  } else if (score.passthrough === '*') {
    const format = formatOf(sink);
    if (format === 'parquet') say('score', 'passthrough: a Parquet file needs the names of its columns');
    if (format === 'arrow') say('score', 'passthrough: Arrow needs the names of its columns');
  }
}

/** What a topic is read from, and that nothing the pipeline writes is among it. */
function judgeTopics({ source, sink, dead_letter: letters }: Pipeline, say: Say): void {
  if (source.type !== 'kafka') return;
  const { topic, topics, topic_pattern: pattern } = source;
  if ([topic, topics, pattern].filter((said) => said !== undefined).length !== 1) {
    say('source', 'source: needs one of topic, topics and topic_pattern');
  }
  if (pattern !== undefined && !isRegExp(pattern))
    say('source.topic_pattern', 'topic_pattern: is no regular expression');
  if (topics && new Set(topics).size < topics.length) say('source.topics', 'topics: one is there twice');
  if (topic === undefined && sink.type !== 'kafka') say('source', 'topics: a single topic goes to files or a table');
  if (topic === undefined && letters?.type === 'kafka' && letters.retry) {
    say('dead_letter', 'retry: needs a single topic as the source');
  }
  const read = topic === undefined ? (topics ?? []) : [topic];
  if (sink.type === 'kafka') {
    if (read.includes(sink.topic)) say('sink', 'source and sink are the same topic');
    if (sink.routes?.some((r) => read.includes(r.topic))) say('sink', 'routes: a topic is the source itself');
  }
  if (letters?.type === 'kafka' && read.includes(letters.topic)) {
    say('dead_letter', 'dead letters would be read again: another topic is needed');
  }
}

function isRegExp(pattern: string): boolean {
  try {
    topicPattern(pattern);
    return true;
  } catch {
    return false;
  }
}

function judgeEnds({ source, sink, delivery, allow_empty, deadline, gate, report }: Pipeline, say: Say): void {
  const files = source.type === 'file' || source.type === 'stdio' || source.type === 'postgres';
  if (gate !== undefined && !files)
    say('gate', 'gate: is for files, queries and standard input; a topic has alerts on drift');
  else if (gate !== undefined && sink.type !== 'file' && sink.type !== 'postgres') {
    say('gate', 'gate: needs a file or a table as the sink: what went elsewhere cannot be held back');
  }
  if (allow_empty !== undefined && !files) say('allow_empty', 'allow_empty: is for files, queries and standard input');
  if (report !== undefined && !files) say('report', 'report: is for files, queries and standard input');
  if (deadline !== undefined && !files) say('deadline', 'deadline: is for files, queries and standard input');
  if (deadline !== undefined && momentOf(deadline, epochMs()) === null) {
    say('deadline', 'deadline: is a time of the day (06:00) or a date with one (2026-11-23T06:00)');
  }
  const topics = source.type === 'kafka' && (sink.type === 'kafka' || sink.type === 'postgres');
  if (delivery === 'exactly_once' && !topics && source.type !== 'upload') {
    say(
      'delivery',
      'delivery: exactly_once needs a topic on both sides, a topic and a table, or an upload as the source',
    );
  }
  if (source.type === 'upload' && sink.type === 'stdio') say('sink', 'an upload goes to a file or a topic');
  if (source.type === 'kafka') {
    if (sink.type === 'stdio') say('sink', 'a topic goes to a topic, to a table or to files');
    if (sink.type === 'file' && !sink.path.includes('{partition}')) {
      say('sink', 'path of a sink behind a topic needs {partition} and {offset}');
    }
    if (sink.type === 'kafka' && sink.key !== undefined) {
      say('sink', 'key: predictions keep the key of their application');
    }
  }
  if (source.type !== 'kafka' && sink.type === 'kafka' && sink.partition === 'source') {
    say('sink', 'partition: source needs a topic as the source');
  }
  if (source.type === 'upload' && sink.type === 'file' && !sink.path.includes('{name}')) {
    say('sink', 'path of a sink behind uploads needs {name}');
  }
  if (source.type === 'file' && source.path.includes('*') && sink.type === 'file' && !sink.path.includes('{name}')) {
    say('sink', 'path of a sink behind several files needs {name}');
  }
}

function judgeDeadLetters({ source, sink, dead_letter, on_invalid }: Pipeline, say: Say): void {
  if (on_invalid === 'dead_letter' && !dead_letter) say('on_invalid', 'on_invalid: dead_letter needs a dead_letter');
  if (!dead_letter) return;
  if (source.type === 'upload') {
    if (dead_letter.type === 'kafka') say('dead_letter', 'dead letters of uploads are listed in files');
    else if (dead_letter.type === 'file' && !dead_letter.path.includes('{name}'))
      say('dead_letter', 'path of dead letters of uploads needs {name}');
  } else if (source.type === 'kafka') {
    if (dead_letter.type === 'file') say('dead_letter', 'dead letters of a topic go to a topic');
    if (dead_letter.type === 'kafka' && sink.type === 'postgres') {
      say('dead_letter', 'dead letters on the way to a table go to a table: one transaction holds them all');
    }
  } else if (dead_letter.type === 'kafka') say('dead_letter', 'dead letters of files are listed in a file');
}

function judgeRetry({ source, sink, dead_letter, on_invalid }: Pipeline, say: Say): void {
  const letters = dead_letter?.type === 'kafka' ? dead_letter : null;
  const retry = letters?.retry;
  if (!letters || !retry) return;
  if (source.type !== 'kafka' || sink.type !== 'kafka') {
    say('dead_letter.retry', 'retry: needs a topic as the source and as the sink');
    return;
  }
  if (on_invalid !== 'dead_letter') say('dead_letter.retry', 'retry: needs on_invalid: dead_letter');
  const others = [source.topic, sink.topic, ...(sink.routes ?? []).map((r) => r.topic), letters.topic];
  if (others.includes(retry.topic)) say('dead_letter.retry.topic', 'retry: needs a topic of its own');
  if (retry.group === source.group) say('dead_letter.retry.group', 'retry: needs a group of its own');
}

const PASSWORD_KEYS = ['username', 'password'] as const;
const TOKEN_KEYS = ['token', 'token_endpoint', 'extensions'] as const;

function judgeLogin({ kafka: { sasl } }: Pipeline, say: Say): void {
  if (!sasl) return;
  const bearer = sasl.mechanism === 'oauthbearer';
  for (const key of bearer ? PASSWORD_KEYS : TOKEN_KEYS) {
    if (sasl[key] !== undefined) say(`kafka.sasl.${key}`, `kafka.sasl.${key}: is not for mechanism: ${sasl.mechanism}`);
  }
  if (!bearer) {
    for (const key of PASSWORD_KEYS) {
      if (sasl[key] === undefined) say('kafka.sasl', `kafka.sasl: mechanism: ${sasl.mechanism} needs ${key}`);
    }
    return;
  }
  if ((sasl.token === undefined) === (sasl.token_endpoint === undefined)) {
    say('kafka.sasl', 'kafka.sasl: mechanism: oauthbearer needs one of token_endpoint and token');
  }
  if (sasl.extensions?.auth !== undefined) {
    say('kafka.sasl.extensions', 'kafka.sasl.extensions: auth is the token itself');
  }
  if (sasl.token_endpoint) judgeEndpoint(sasl.token_endpoint.url, say);
}

/** RFC 6749, 3.2: the secret of the client goes over TLS only. */
function judgeEndpoint(url: string, say: Say): void {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  const local = parsed !== null && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(parsed.hostname);
  if (parsed?.protocol === 'https:' || (parsed?.protocol === 'http:' && local)) return;
  say('kafka.sasl.token_endpoint.url', 'kafka.sasl.token_endpoint.url: is an address of https');
}
