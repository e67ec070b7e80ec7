// Wrong command lines by the hundred, made of the tables of all commands: each ends with 2 and a sentence, never with a stack.
import path from 'node:path';
import { expect, test } from 'vitest';
import { COMMAND_TABLES } from '../../../src/doors/commands/flags/all-commands.ts';
import { COMMAND_GROUPS, type CommandTable, type Flag } from '../../../src/doors/commands/flags/command-spec.ts';
import { scratch, sluice, sluiceHere } from '../../support/cli.ts';
import { testOfMany, times } from '../../support/tiers.ts';

interface Wrong {
  args: string[];
  /** What the sentence has to name. */
  names: string;
}

const TABLES: [string, CommandTable][] = Object.entries(COMMAND_TABLES);
const NONSENSE = 'nonsense';

/** A value that a flag takes. */
const right = ({ number, choices }: Flag): string =>
  choices?.[0] ?? (number ? String(number.min ?? (number.above === undefined ? 1 : number.above + 1)) : NONSENSE);

/** Words with which a command has all that it must have. */
function complete({ arguments: args, flags }: CommandTable): string[] {
  const must = args.filter(({ name }) => name.startsWith('<')).map(({ choices }) => choices?.[0] ?? 'nowhere/x.yaml');
  return [...must, ...flags.filter((f) => f.required).flatMap((f) => [`--${f.name}`, right(f)])];
}

function* wrongOf(words: string, table: CommandTable): Generator<Wrong> {
  const command = words.split(' ');
  const whole = [...command, ...complete(table)];
  yield { args: [...whole, '--nonsense'], names: "unknown option '--nonsense'" };
  if (complete(table).length > 0) yield { args: command, names: 'missing required|required option' };
  if (!table.arguments.some(({ name }) => name.includes('...'))) {
    const more = table.arguments.map(() => 'x.csv');
    const flags = table.flags.filter((f) => f.required).flatMap((f) => [`--${f.name}`, right(f)]);
    const choice = table.arguments[0]?.choices;
    yield { args: [...command, ...(choice ? [choice[0]!] : more), 'one-more', ...flags], names: 'too many arguments' };
  }
  for (const { name, choices } of table.arguments) {
    if (choices) yield { args: [...command, NONSENSE], names: name.replace(/[<>[\]]/g, '') };
  }
  for (const flag of table.flags) yield* wrongFlag(flag, whole);
}

function* wrongFlag({ name, value, number, choices }: Flag, whole: readonly string[]): Generator<Wrong> {
  const names = `--${name}`;
  if (value === undefined) {
    yield { args: [...whole, `--${name}=yes`], names };
    return;
  }
  yield { args: [...whole, `--${name}`], names };
  if (choices) yield { args: [...whole, `--${name}`, NONSENSE], names };
  if (!number) return;
  yield { args: [...whole, `--${name}`, NONSENSE], names };
  yield { args: [...whole, `--${name}`, ''], names };
  if (number.min !== undefined) yield { args: [...whole, `--${name}=${number.min - 1}`], names };
  if (number.max !== undefined) yield { args: [...whole, `--${name}=${number.max + 1}`], names };
  if (number.above !== undefined) yield { args: [...whole, `--${name}=${number.above}`], names };
  if (number.whole) yield { args: [...whole, `--${name}=${number.min ?? 0}.5`], names };
}

const ALL: Wrong[] = [
  { args: [NONSENSE], names: "unknown command 'nonsense'" },
  { args: ['--nonsense'], names: "unknown option '--nonsense'" },
  { args: ['socre', 'x.csv'], names: 'did you mean score' },
  ...Object.keys(COMMAND_GROUPS).map((group) => ({
    args: [group, NONSENSE],
    names: "unknown command 'nonsense'",
  })),
  ...TABLES.flatMap(([words, table]) => [...wrongOf(words, table)]),
];

/** Looked for in what a run says: frames of a stack, whatever the language of the one who forgot to catch it. */
const STACK = /^\s+at .+(?::\d+|\))$|\bTypeError\b|\bReferenceError\b|internal_error|node:internal/m;

async function faultsOf({ args, names }: Wrong, cwd: string): Promise<string[]> {
  const { code, stdout, stderr } = await sluiceHere(args, { cwd });
  const said = JSON.stringify(args);
  const faults: string[] = [];
  if (code !== 2) faults.push(`${said} ends with ${code}: ${stderr}`);
  if (stdout !== '') faults.push(`${said} writes to standard output`);
  if (STACK.test(stderr)) faults.push(`${said} shows a stack: ${stderr}`);
  if (
    !/^sluice: .+ \[usage\]\n {2}run `sluice[a-z -]* --help`\n$/.test(stderr) ||
    !names.split('|').some((n) => stderr.includes(n))
  ) {
    faults.push(`${said} says: ${stderr}`);
  }
  return faults;
}

test('wrong command lines end with 2 and say in a sentence what is wrong', async () => {
  expect(ALL.length).toBeGreaterThan(500);
  // Of all, evenly: every command has its turn, because each has more than so many.
  const most = times('wrong words', { quick: 30, check: 60, campaigns: ALL.length });
  const chosen = ALL.filter(
    (_, i) => Math.floor((i * most) / ALL.length) !== Math.floor(((i - 1) * most) / ALL.length),
  );
  const cwd = scratch();
  const faults: string[] = [];
  for (const wrong of chosen) faults.push(...(await faultsOf(wrong, cwd)));
  expect(faults).toEqual([]);
  expect(chosen.length).toBeGreaterThanOrEqual(Math.min(most, 30));
});

test('a process ends as its command does', async () => {
  const { args } = ALL.at(-1)!;
  expect(await sluice(args)).toEqual(await sluiceHere(args));
});

/** Files and folders that are not there: what else would be wrong is in order. */
const NOWHERE = path.join('nowhere', 'x');
const MISSING: string[][] = [
  ['score', `${NOWHERE}.csv`, '-m', 'credit-default'],
  ['score', `${NOWHERE}.parquet`, '-m', 'credit-default'],
  ['score', `${NOWHERE}/*.csv`, '-m', 'credit-default', '-o', 'out/{name}.csv'],
  ['score', 'x.csv', '-m', 'nobody'],
  ['score', 'x.csv', '-m', 'credit-default', '--registry', NOWHERE],
  ['explain', `${NOWHERE}.csv`, '--row', '1', '-m', 'credit-default'],
  ['run', `${NOWHERE}.yaml`],
  ['lint', `${NOWHERE}.yaml`],
  ['test', `${NOWHERE}.yaml`],
  ['plan', `${NOWHERE}.csv`, '--shards', '2'],
  ['merge', `${NOWHERE}.json`, '--parts', 'x', '-o', 'y'],
  ['verify', `${NOWHERE}.csv`],
  ['serve', '--config', `${NOWHERE}.yaml`],
  ['doctor', '--config', `${NOWHERE}.yaml`],
  ['model', 'add', `${NOWHERE}.onnx`, '--id', 'x', '--training-data', 'x.csv'],
  ['model', 'show', 'nobody'],
  ['model', 'list', '--registry', NOWHERE],
  ['keys', 'revoke', 'nobody'],
];

for (const [i, args] of MISSING.entries()) {
  testOfMany(i, 6)(`what is not there is named: ${JSON.stringify(args)}`, async () => {
    const { code, stdout, stderr } = await sluiceHere(args, { cwd: scratch() });
    expect([1, 2], stderr).toContain(code);
    expect(stderr).not.toMatch(STACK);
    expect(`${stdout}${stderr}`).toMatch(/nowhere|nobody|no key has this name|x\.csv/);
  });
}
