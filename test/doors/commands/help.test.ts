// The help: flags in groups, topics, and examples that name commands and flags which exist.
import { expect, test } from 'vitest';
import { COMMAND_TABLES } from '../../../src/doors/commands/flags/all-commands.ts';
import { EXAMPLES, HELP_TOPICS } from '../../../src/doors/commands/flags/help-groups.ts';
import { sluiceHere } from '../../support/cli.ts';

const flagsOf = (words: string) => COMMAND_TABLES[words]!.flags;

test('every flag of a group exists, and every flag of score is in a group', () => {
  const grouped = Object.values(HELP_TOPICS).flatMap(({ flags }) => flags.split(' '));
  const known = new Set(Object.values(COMMAND_TABLES).flatMap(({ flags }) => flags.map(({ name }) => name)));
  expect(grouped.filter((name) => !known.has(name))).toEqual([]);
  expect(new Set(grouped).size).toBe(grouped.length);
  expect(
    flagsOf('score')
      .map(({ name }) => name)
      .filter((name) => !grouped.includes(name)),
  ).toEqual([]);
});

test.each(Object.entries(EXAMPLES))('the examples of %s name its flags and all that are required', (words, lines) => {
  for (const line of lines) {
    expect(line === words || line.startsWith(`${words} `)).toBe(true);
    const named = [...line.matchAll(/(?<=\s)--?([a-z][a-z-]*)/g)].map(([, name]) => name!);
    const flags = flagsOf(words);
    for (const name of named)
      expect(
        flags.some((flag) => flag.name === name || flag.short === name),
        name,
      ).toBe(true);
    const missing = flags.filter((f) => f.required && !named.includes(f.name) && !named.includes(f.short ?? ''));
    expect(missing.map(({ name }) => name)).toEqual([]);
  }
});

test('the help of score has groups and examples; a topic lists its flags', async () => {
  const help = await sluiceHere(['score', '--help']);
  for (const { heading } of Object.values(HELP_TOPICS)) expect(help.stdout).toContain(`\n${heading}\n`);
  expect(help.stdout).toContain('\nExamples:\n  sluice score portfolio.csv');
  const topic = await sluiceHere(['help', 'limits']);
  expect([topic.code, topic.stdout]).toEqual([0, expect.stringMatching(/^Limits options[\s\S]*--max-psi <\w+>\n/)]);
  expect(await sluiceHere(['help', 'limts'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('sluice: unknown command "limts" (did you mean limits?) [usage]\n'),
  });
});
