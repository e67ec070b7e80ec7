// What is packed, installed as somebody does who has neither this checkout nor a network.
import { execFile, spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { call } from '../support/service.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const SOURCES = ['src', 'bin', 'tools', 'k8s', 'package.json', 'package-lock.json', '.npmrc', 'README.md', 'LICENSE'];

/** The sources of this checkout, built, in a folder of their own: nobody else's `dist` is touched. */
export async function builtCheckout(): Promise<string> {
  const root = mkdtempSync(path.join(tmpdir(), 'sluice-built-'));
  for (const name of [...SOURCES, 'tsconfig.json', 'tsconfig.build.json']) {
    cpSync(name, path.join(root, name), { recursive: true });
  }
  symlinkSync(path.resolve('node_modules'), path.join(root, 'node_modules'));
  await run('npm', ['run', 'build'], { cwd: root, env: { ...process.env, PATH: pathWith(process.execPath) } });
  return root;
}

/** $PATH with this Node before all others. */
export const pathWith = (node: string): string => `${path.dirname(node)}${path.delimiter}${process.env.PATH}`;

/** An environment of somebody who came with this Node and nothing else of ours. */
export const visitor = (node: string, home: string): Record<string, string> => ({
  PATH: pathWith(node),
  HOME: home,
  SLUICE_CACHE: path.join(home, 'cache'),
  SLUICE_LOG_FORMAT: 'text',
});

/**
 * Installs a tarball globally below `home`: without a network, with an empty cache, and with install scripts allowed, of which
 * there is none. @returns the folder of the package
 */
export async function installWithoutNetwork(tarball: string, home: string, node = process.execPath): Promise<string> {
  mkdirSync(home, { recursive: true });
  const npm = ['install', '--global', '--prefix', path.join(home, 'global'), '--cache', path.join(home, 'npm-cache')];
  const nowhere = ['--registry', 'http://127.0.0.1:9', '--fetch-retries', '0'];
  await run('npm', [...npm, ...nowhere, tarball], { cwd: home, env: visitor(node, home) });
  return path.join(home, 'global', 'lib', 'node_modules', 'sluice');
}

export interface Words {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs what is installed by a Node of choice, to its end. */
export async function runInstalled(node: string, folder: string, args: string[], cwd: string): Promise<Words> {
  const launcher = path.join(folder, 'bin', 'sluice.js');
  const ended = run(node, [launcher, ...args], { cwd, env: visitor(node, cwd) });
  return ended.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: Words) => error,
  );
}

/** Scores a file, then serves and predicts one of its rows: both have to say the same. */
export async function scoreAndServe(node: string, folder: string, cwd: string): Promise<void> {
  const csv = Buffer.concat([...generatePortfolio({ rows: 50, seed: 22, oddness: 'none' })]).toString();
  writeFileSync(path.join(cwd, 'portfolio.csv'), csv);
  const scored = await runInstalled(
    node,
    folder,
    ['score', 'portfolio.csv', '-m', 'credit-default', '-o', 'out.csv', '--workers', '1'],
    cwd,
  );
  expect(scored).toMatchObject({ code: 0, stdout: '' });
  expect(scored.stderr).toMatch(/^50 rows read = 50 scored \+ 0 rejected/);
  const lines = readFileSync(path.join(cwd, 'out.csv'), 'utf8').trimEnd().split('\n');
  expect(lines).toHaveLength(51);

  const launcher = path.join(folder, 'bin', 'sluice.js');
  const serving = spawn(node, [launcher, 'serve', '--dev', '--port', '0', '--set', 'workers=1'], {
    cwd,
    env: visitor(node, cwd),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exit = new Promise((resolve) => serving.once('exit', (code, signal) => resolve({ code, signal })));
  let words = '';
  serving.stderr.setEncoding('utf8').on('data', (text: string) => {
    words += text;
  });
  try {
    await until(() => words.includes('key of this run') || serving.exitCode !== null);
    expect(words).toContain('key of this run');
    const port = Number(/localhost:(\d+)/.exec(words)![1]);
    const token = /sluice_[\w-]+/.exec(words)![0];
    const [header, first] = csv.split('\n');
    const body = `${header}\n${first}\n`;
    const url = '/api/v1/scoring/predict.csv?modelId=credit-default&delimiter=comma';
    const reply = await call(port, token, 'POST', url, { body, headers: { 'content-type': 'text/csv' } });
    expect(reply.status).toBe(200);
    expect(reply.text.split('\n')[1]).toBe(lines[1]);
    // Jobs are kept in SQLite.
    const job = await call(port, token, 'POST', url, {
      body,
      headers: { 'content-type': 'text/csv', prefer: 'respond-async' },
    });
    expect(job.status).toBe(201);
  } finally {
    serving.kill('SIGTERM');
  }
  expect(await exit).toEqual({ code: 0, signal: null });
  expect(words).not.toMatch(/ExperimentalWarning|\n {4}at /);
}
