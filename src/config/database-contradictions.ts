// What the schema of a pipeline cannot say of its tables: what a source, a sink and dead letters need, and what excludes what.
import type { Pipeline, PostgresSink, PostgresSource } from './pipeline-schema.ts';

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
