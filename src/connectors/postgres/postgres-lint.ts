// Checks the tables and queries of a pipeline for contradictory settings.
import type { LintedPipeline, Say } from '../contract/connector.ts';
import type { PostgresSink, PostgresSource } from './postgres-options.ts';

export function lintTables(pipeline: LintedPipeline, say: Say): void {
  const { source, sink, dead_letter: letters, reads } = pipeline;
  if (source.type === 'postgres') {
    const { table, query } = source as PostgresSource;
    lintAddress(source as PostgresSource, 'source', say);
    if ((table === undefined) === (query === undefined)) say('source', 'source: needs one of table and query');
  }
  if (sink.type === 'postgres') lintSink(sink as PostgresSink, pipeline, say);
  if (letters?.type === 'postgres' && (reads !== 'records' || sink.type !== 'postgres')) {
    say('dead_letter', 'a table of dead letters needs a topic as the source and a table as the sink');
  }
}

/** Rejects a URL with a password, because pipeline files are stored with the code. */
export function lintAddress({ url, url_env }: Pick<PostgresSource, 'url' | 'url_env'>, end: string, say: Say): void {
  if (url !== undefined && url_env !== undefined) say(`${end}.url`, `${end}: needs one of url and url_env`);
  if (url === undefined) return;
  if (!URL.canParse(url) || !/^postgres(ql)?:$/.test(new URL(url).protocol)) {
    say(`${end}.url`, 'url: must have the form postgresql://user@host:port/database');
  } else if (new URL(url).password !== '') {
    say(`${end}.url`, 'url: put the password in the environment (url_env, PGPASSWORD) or in .pgpass');
  }
}

/** Columns that every row of a topic run has in addition to passthrough columns. */
const OF_A_RECORD = ['topic', 'partition', 'offset'];

function lintSink(sink: PostgresSink, { score, reads, several }: LintedPipeline, say: Say): void {
  lintAddress(sink, 'sink', say);
  const { mode, key } = sink;
  if (score.passthrough === '*') say('score', 'passthrough: a table needs a list of columns');
  if (mode === 'replace') {
    if (reads === 'records') say('sink.mode', 'mode: replace is not supported for topics, because a topic never ends');
    if (several) {
      say(
        'sink.mode',
        'mode: replace is not supported for several inputs, because each would replace the previous one',
      );
    }
  }
  if (mode !== 'merge') {
    if (key !== undefined) say('sink.key', 'key: requires mode: merge');
    return;
  }
  if (key === undefined) {
    say('sink', 'sink: mode: merge needs key');
    return;
  }
  const there = [...(score.passthrough ?? []), ...(reads === 'records' ? OF_A_RECORD : [])];
  const absent = key.filter((name) => !there.includes(name));
  if (absent.length > 0 && score.passthrough !== '*')
    say('sink.key', `key: ${absent.join(', ')} is not in score.passthrough`);
}
