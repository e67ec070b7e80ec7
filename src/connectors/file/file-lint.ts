// Checks the file settings of a pipeline for contradictions.
import { COMPRESSIONS, FILE_FORMATS } from '../../core/file-format.ts';
import { isPattern } from '../../core/file-names.ts';
import { namedFormat } from '../../formats/formats.ts';
import type { LintedPipeline, Say } from '../contract/connector.ts';
import type { FileSink, FileSource } from './file-options.ts';

export function lintFiles({ source, sink, dead_letter: letters, reads }: LintedPipeline, say: Say): void {
  if (source.type === 'file') lintFile(source as FileSource, 'source', say);
  if (letters?.type === 'file') {
    if (reads === 'records') say('dead_letter', 'dead letters of a topic must go to a topic');
    if (reads === 'requests' && !(letters as { path?: string }).path?.includes('{name}')) {
      say('dead_letter', 'dead_letter.path must contain {name} if the source is an upload');
    }
  }
  if (sink.type !== 'file') return;
  const file = sink as FileSink;
  lintFile(file, 'sink', say);
  if (reads === 'records') {
    const format = file.format ?? namedFormat(file.path).format ?? 'ndjson';
    if (format !== 'ndjson') say('sink', 'files with predictions from a topic must have the format ndjson');
    if (!file.path.includes('{partition}') || !file.path.includes('{offset}'))
      say('sink', 'sink.path must contain {partition} and {offset} if the source is a topic');
  }
  if (reads === 'requests' && !file.path.includes('{name}'))
    say('sink', 'sink.path must contain {name} if the source is an upload');
  if (source.type === 'file' && (source as FileSource).path.includes('*') && !file.path.includes('{name}')) {
    say('sink', 'sink.path must contain {name} if the source is a pattern of files');
  }
}

/** Reports an unknown extension, unless the option `format` is set. */
function lintFile(file: FileSource | FileSink, end: 'source' | 'sink', say: Say): void {
  const { format, ending, compression } = namedFormat(file.path);
  if (file.format === undefined && !(end === 'source' && isPattern(file.path)) && format === null && ending !== '') {
    const verb = end === 'source' ? 'reads' : 'writes';
    const known = `${FILE_FORMATS.join(', ')}, with .gz or .zst`;
    say(`${end}.path`, `${end}.path: Sluice ${verb} no files with the extension ${ending}: use ${known}`);
  }
  if ((file.format ?? (isPattern(file.path) ? null : format)) === 'parquet') {
    lintParquet(end, file.compression ?? compression, say);
  }
}

/** Reports outer compression for Parquet, whose pages are compressed individually. */
export function lintParquet(end: 'source' | 'sink', compression: string, say: Say): void {
  if (compression === 'none') return;
  const outer = COMPRESSIONS.filter((c) => c !== 'none').join(' or ');
  say(end, `${end}: a Parquet file compresses its pages itself: remove the compression ${outer}`);
}
