// Completion in real shells: what they offer for a line, as somebody who presses Tab sees it.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { COMMAND_TABLES } from '../../../src/doors/commands/flags/all-commands.ts';
import { MAIN, scratch, sluiceHere } from '../../support/cli.ts';
import { testNeeding } from '../../support/tools.ts';

const scripts: Record<string, string> = {};
beforeAll(async () => {
  for (const shell of ['bash', 'zsh', 'fish']) scripts[shell] = (await sluiceHere(['completion', shell])).stdout;
});

/** A folder with a `sluice` on the path, some files, and a registry of two models. */
function place(): { cwd: string; env: Record<string, string> } {
  const cwd = scratch();
  mkdirSync(path.join(cwd, 'bin'));
  const command = path.join(cwd, 'bin', 'sluice');
  writeFileSync(command, `#!/bin/sh\necho called >> ${cwd}/calls.txt\nexec ${process.execPath} ${MAIN} "$@"\n`);
  chmodSync(command, 0o755);
  for (const name of ['a file.csv', 'applications.csv', 'apples.yaml']) writeFileSync(path.join(cwd, name), '');
  mkdirSync(path.join(cwd, 'folder'));
  mkdirSync(path.join(cwd, 'other'));
  cpSync('test/fixtures/packages', path.join(cwd, 'registry'), { recursive: true });
  return { cwd, env: { ...process.env, PATH: `${cwd}/bin:${process.env.PATH}` } as Record<string, string> };
}

/** bash breaks words as readline does. */
const broken = (line: string): string[] => {
  const words = line.match(/[:@=]+|[^\s:@=]+/g) ?? [];
  return /\s$/.test(line) ? [...words, ''] : words;
};

/** What bash offers for each line, in one shell. */
function bash(lines: string[], { cwd, env } = place()): string[][] {
  const script = path.join(cwd, 'completion.bash');
  writeFileSync(script, scripts.bash!);
  const quote = (w: string) => `'${w.replaceAll("'", "'\\''")}'`;
  const asks = lines.map((line) => {
    const words = broken(line);
    return `COMP_WORDS=(${words.map(quote).join(' ')}); COMP_CWORD=${words.length - 1}; COMPREPLY=()
_sluice; printf '%s\\n' "\${COMPREPLY[@]}"; echo ====`;
  });
  const out = execFileSync('bash', ['--norc', '-c', `set -u; source ${script}\n${asks.join('\n')}`], {
    cwd,
    env,
    encoding: 'utf8',
  });
  return out
    .split('====\n')
    .slice(0, -1)
    .map((part) =>
      part
        .split('\n')
        .filter((l) => l !== '')
        .sort(),
    );
}

describe('bash', () => {
  test('knows every command and every flag', () => {
    const words = Object.keys(COMMAND_TABLES);
    const offered = bash(words.map((w) => `sluice ${w} --`));
    words.forEach((w, i) => {
      const flags = COMMAND_TABLES[w]!.flags.map((f) => `--${f.name}`);
      expect([w, offered[i]]).toEqual([w, [...flags, '--help'].sort()]);
    });
    const [first, group, second] = bash(['sluice ', 'sluice mo', 'sluice model ']);
    expect(first).toEqual(expect.arrayContaining(['score', 'run', 'model', 'keys', 'dlq', 'completion']));
    expect([group, second]).toEqual([
      ['model'],
      ['add', 'alias', 'approve', 'diff', 'history', 'list', 'new-version', 'remove', 'retire', 'seal', 'show', 'sign', 'verify', 'verify-signature'], // biome-ignore format: one line
    ]);
  });

  test('offers the words a flag takes, in both spellings', () => {
    expect(
      bash([
        'sluice score a.csv --evaluator ',
        'sluice score a.csv --evaluator=on',
        'sluice score a.csv --format p',
        'sluice model add m.onnx --task reg',
        'sluice completion ',
        'sluice score a.csv --workers ',
        'sluice score a.csv --json --on-invalid ',
      ]),
    ).toEqual([
      ['auto', 'native', 'onnxruntime'],
      ['onnxruntime'],
      ['parquet'],
      ['regression'],
      ['bash', 'fish', 'zsh'],
      [],
      ['fail', 'report'],
    ]);
  });

  test('offers files and folders where they are meant', () => {
    expect(
      bash([
        'sluice score a',
        'sluice lint apples.yaml app',
        'sluice run ap',
        'sluice score a.csv -o app',
        'sluice demo --folder f',
      ]),
    ).toEqual([
      ['a file.csv', 'apples.yaml', 'applications.csv'],
      ['apples.yaml', 'applications.csv'],
      ['apples.yaml', 'applications.csv'],
      ['apples.yaml', 'applications.csv'],
      ['folder'],
    ]);
  });

  test('offers the models of the registry, asked for once; behind a colon only what stands there', () => {
    const at = place();
    const [all, version, alias, shown, remote] = bash(
      [
        'sluice score a.csv --registry registry -m ',
        'sluice score a.csv --registry registry --model credit-default:',
        'sluice score a.csv --registry registry --model=credit-default@ch',
        'sluice model show --registry=registry credit-d',
        'sluice score a.csv --registry s3://bucket/models -m ',
      ],
      at,
    );
    expect(all).toEqual(
      expect.arrayContaining(['credit-default', 'credit-default:1', 'credit-default@champion', 'credit-columns']),
    );
    expect([version, alias, remote]).toEqual([['1'], ['champion'], []]);
    expect(shown).toEqual(['credit-default', 'credit-default:1', 'credit-default@champion']);
    expect(execFileSync('cat', [path.join(at.cwd, 'calls.txt')], { encoding: 'utf8' })).toBe('called\n');
  });
});

testNeeding(['fish'], 'fish', () => {
  const { cwd, env } = place();
  writeFileSync(path.join(cwd, 's.fish'), scripts.fish!);
  const offers = (line: string): string[] =>
    execFileSync('fish', ['--no-config', '-c', `source s.fish; complete -C ${JSON.stringify(line)}`], {
      cwd,
      env: { ...env, HOME: cwd },
      encoding: 'utf8',
    })
      .trimEnd()
      .split('\n')
      .map((l) => l.split('\t')[0]!);
  expect(offers('sluice sc')).toEqual(['score']);
  expect(offers('sluice model a')).toEqual(['add', 'alias', 'approve']);
  expect(offers('sluice score a.csv --ev')).toEqual(['--evaluator']);
  expect(offers('sluice score a.csv --evaluator ')).toEqual(['auto', 'native', 'onnxruntime']);
  expect(offers('sluice score a.csv --registry registry -m credit-default')).toEqual([
    'credit-default',
    'credit-default:1',
    'credit-default@champion',
  ]);
  expect(offers('sluice score appli')).toEqual(['applications.csv']);
});

testNeeding(['zsh'], 'zsh', () => {
  const { cwd, env } = place();
  writeFileSync(path.join(cwd, '_sluice'), scripts.zsh!);
  // A terminal of its own, in which Tab is pressed; each line ends with what the shell made of it.
  const lines = [
    'sluice sco',
    'sluice model ver',
    'sluice score a --evaluator=on',
    'sluice score appli',
    'sluice score a -m credit-default@',
  ];
  const driver = `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'bindkey -e; cd ${cwd}; fpath=(${cwd} $fpath); autoload -Uz compinit; compinit -u -D; PS1=; stty -echo; print REA""DY'
zpty -r -m z out '*READY*'
${lines
  .map(
    (line) => `zpty -w -n z $'${line}\\t\\x01print -r -- "[\\x05]"; print DO""NE\\n'
zpty -r -m z out '*DONE*'; print -r -- "$out"`,
  )
  .join('\n')}
zpty -d z`;
  const out = execFileSync('zsh', ['-f', '-c', driver], { cwd, env, encoding: 'utf8' });

  const made = [...out.matchAll(/^\[(sluice .*?) ?\]/gm)].map((m) => m[1]);
  expect(made).toEqual([
    'sluice score',
    'sluice model verify',
    'sluice score a --evaluator=onnxruntime',
    'sluice score applications.csv',
    'sluice score a -m credit-default@champion',
  ]);
});
