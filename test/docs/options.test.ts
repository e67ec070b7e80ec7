// Every flag, every key and every query parameter stands in its page, and no page names a flag that is not there.

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Command } from 'commander';
import { expect, test } from 'vitest';
import { SCORING } from '../../src/config/options/scoring.ts';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { endSchemas } from '../../src/connectors/connectors.ts';
import { DELIMITER_NAMES, FILE_FORMATS } from '../../src/core/file-format.ts';
import { COMMAND_TABLES } from '../../src/doors/commands/flags/all-commands.ts';
import { PREDICT_QUERY } from '../../src/doors/http/wire/scoring-request.ts';
import { DELIMITERS } from '../../src/formats/delimited/header.ts';
import { namedFormat } from '../../src/formats/formats.ts';
import { ScoreSchema } from '../../src/pipeline/pipeline-schema.ts';
import { outermost, PARTS } from '../../tools/docs/pipeline-page.ts';
import { keysOf } from '../../tools/docs/schema-table.ts';
import { openApiDocument } from '../support/openapi-document.ts';

const { sources: SOURCES, sinks: SINKS, deadLetters: DEAD_LETTERS } = await endSchemas();

/** The command line, made by the very functions that make it for people. */
async function program(): Promise<Command> {
  const made = new Command('sluice');
  for (const file of readdirSync('src/doors/commands').filter((name) => name.endsWith('.ts'))) {
    const text = readFileSync(path.join('src/doors/commands', file), 'utf8');
    for (const [, name] of text.matchAll(/^export function (add\w+Commands?)\(program: Command\)/gm)) {
      const module = (await import(pathToFileURL(path.resolve('src/doors/commands', file)).href)) as Record<
        string,
        (program: Command) => void
      >;
      module[name!]!(made);
    }
  }
  return made;
}

/** Commands that can be called, by their words. */
const commandsOf = (command: Command, words: readonly string[] = []): [string, Command][] =>
  command.commands.flatMap((c): [string, Command][] =>
    c.commands.length > 0 ? commandsOf(c, [...words, c.name()]) : [[[...words, c.name()].join(' '), c]],
  );

/** The part of a page under a heading. */
const sectionOf = (page: string, heading: string): string =>
  page.split(/^(?=#{2,3} )/m).find((s) => s.startsWith(`## ${heading}\n`) || s.startsWith(`### ${heading}\n`)) ?? '';

const read = (file: string): string => readFileSync(file, 'utf8');

test('every command with every flag and argument is in docs/commands.md, and those of score in its own page', async () => {
  const commands = commandsOf(await program());
  expect(commands.map(([words]) => words).sort()).toEqual(Object.keys(COMMAND_TABLES).sort());
  const page = read('docs/commands.md');
  const missing: string[] = [];
  for (const [words, command] of commands) {
    const section = sectionOf(page, words);
    for (const option of command.options) {
      if (!section.includes(`\`${option.long}\``)) missing.push(`${words} ${option.long}`);
      if (words === 'score' && !read('docs/score.md').includes(`\`${option.long}\``))
        missing.push(`score.md ${option.long}`);
    }
    for (const argument of command.registeredArguments) {
      if (!section.includes(argument.name())) missing.push(`${words} ${argument.name()}`);
    }
  }
  expect(missing).toEqual([]);
  expect(commands.flatMap(([, c]) => c.options).length).toBeGreaterThan(70);
});

/** Flags of other programs in the examples of the pages. */
const FOREIGN = new Set([
  ...['--cacert', '--serve-artifacts', '--help', '--version'],
  // Of kubectl and of the node exporter.
  ...['--from', '--collector'],
  // npm
  ...['--global', '--ignore-scripts', '--offline', '--omit'],
  // docker, buildah
  ...['--rm', '--read-only', '--cap-drop', '--tmpfs', '--format', '--timestamp', '--build-arg'],
  // npm run pack:offline
  ...['--platform', '--into'],
  // npm run bench
  ...['--compare', '--quick', '--only', '--rounds', '--out', '--note'],
]);

test('no page names a flag that is not there', async () => {
  const known = new Set(commandsOf(await program()).flatMap(([, c]) => c.options.map((o) => o.long!)));
  const pages = ['README.md', 'ARCHITECTURE.md', ...readdirSync('docs').map((f) => `docs/${f}`)].filter((f) =>
    f.endsWith('.md'),
  );
  const wrong: string[] = [];
  let seen = 0;
  for (const page of pages) {
    for (const [flag] of read(page).matchAll(/(?<![\w-])--[a-z][a-z0-9-]*/g)) {
      seen++;
      if (!known.has(flag) && !FOREIGN.has(flag)) wrong.push(`${page}: ${flag}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(seen).toBeGreaterThan(80);
});

test('every key of a pipeline is in the part of its page, with the completion of editors', () => {
  const page = read('docs/pipelines.md');
  const missing = [['Reference', outermost()] as const, ...PARTS].flatMap(([title, schema]) =>
    keysOf(schema)
      .filter((key) => !sectionOf(page, title).includes(`| \`${key}\` |`))
      .map((key) => `${title}: ${key}`),
  );
  expect(missing).toEqual([]);
  const schema = JSON.parse(read('docs/pipeline.schema.json'));
  for (const [end, types] of Object.entries({ source: SOURCES, sink: SINKS, dead_letter: DEAD_LETTERS })) {
    const offered = schema.properties[end].anyOf.map(
      (s: { properties: { type: { enum: string[] } } }) => s.properties.type.enum[0],
    );
    expect(offered).toEqual(Object.keys(types));
  }
  // A file needs no key that has a default.
  expect(schema.required).toEqual(['model', 'source', 'sink']);
});

test('every key of the configuration and every query parameter is in its page', () => {
  const missing = (page: string, schema: object) =>
    keysOf(schema).filter((key) => !read(page).includes(`| \`${key}\` |`));
  expect(missing('docs/serve-config.md', ServerConfigSchema)).toEqual([]);
  expect(missing('docs/serve.md', PREDICT_QUERY)).toEqual([]);
});

test('every key, flag and parameter says what it is for', () => {
  const silent = [
    ...PARTS.flatMap(([title, schema]) => describe(schema, title)),
    ...describe(outermost(), 'pipeline'),
    ...describe(ServerConfigSchema, 'serve'),
    ...describe(PREDICT_QUERY, 'query'),
  ];
  // `type` is explained by the heading above it.
  expect(silent.filter((key) => !key.endsWith(' type'))).toEqual([]);
});

function describe(schema: object, title: string): string[] {
  const { properties = {} } = schema as { properties?: Record<string, { description?: string }> };
  return Object.entries(properties).flatMap(([key, child]) => [
    ...(child.description ? [] : [`${title} ${key}`]),
    ...describe(child, `${title} ${key}.`).map((k) => k.replace('. ', '.')),
  ]);
}

test('an option has the same bounds, choices and words at every door', async () => {
  const { parameters } = (await openApiDocument()).paths['/api/v1/scoring/predict.csv']!.post!;
  const query = Object.fromEntries(parameters!.map((p) => [p.name, { ...p.schema, description: p.description! }]));
  const flags = Object.fromEntries(COMMAND_TABLES.score!.flags.map((f) => [f.name, f as Described]));
  const yaml = ScoreSchema.properties as unknown as Record<string, Described>;
  const limits = ServerConfigSchema.properties.limits.properties as unknown as Record<string, Described>;
  const same: [string, (Described | undefined)[]][] = [
    ['top_effects', [query.top_effects, flags.top, yaml.top_effects]],
    ['interpret_below', [query.interpret_below, flags['interpret-below'], yaml.interpret_below]],
    ['on_invalid', [query.on_invalid, flags['on-invalid']]],
    ['delimiter', [query.delimiter, flags.delimiter]],
    ['batch_rows', [flags['batch-rows'], yaml.batch_rows]],
    ['workers', [flags.workers, yaml.workers]],
    ['evaluator', [flags.evaluator, yaml.evaluator]],
    ['record_bytes', [flags['max-row-bytes'], yaml.record_bytes, limits.row_bytes]],
    ['max_columns', [flags['max-columns'], yaml.max_columns, limits.columns]],
    ['model', [query.modelId, flags.model]],
  ];
  for (const [name, [first, ...others]] of same) {
    const option = (SCORING as unknown as Record<string, () => Described>)[name]!();
    for (const other of [first, ...others]) expect([name, factsOf(other!)]).toEqual([name, factsOf(option)]);
  }
});

interface Described {
  description: string;
  minimum?: number;
  maximum?: number;
  enum?: readonly string[];
  choices?: readonly string[];
  number?: { min?: number; max?: number };
}

const factsOf = (d: Described) => ({
  description: d.description.replace(/; default: .*/, ''),
  minimum: d.minimum ?? d.number?.min,
  maximum: d.maximum ?? d.number?.max,
  choices: d.enum ?? d.choices,
});

test('one list of formats: endings, delimiters', () => {
  expect(FILE_FORMATS.map((f) => namedFormat(`x.${f}`).format)).toEqual(FILE_FORMATS);
  expect(Object.keys(DELIMITERS)).toEqual(DELIMITER_NAMES);
  expect(namedFormat('a.CSV.GZ')).toEqual({ format: 'csv', compression: 'gzip', ending: '.CSV', stem: 'a' });
  expect(namedFormat('.gz')).toEqual({ format: null, compression: 'none', ending: '', stem: '.gz' });
});
