#!/usr/bin/env node
// What `sluice` starts: the program of this checkout or of this package, by a Node that can run it.
//
// Plain JavaScript that old versions of Node can parse, because telling them so is half of its work. In a checkout src/
// wins, even where a dist/ is there: that one is as old as the last build, and who changes a file wants to see it change.
// A packed package has no src/, and Node strips types from no file below node_modules anyway.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { isatty } from 'node:tty';
import { fileURLToPath, pathToFileURL } from 'node:url';

const OLDEST_NODE = 24;
const FAILED = 1;

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const main = ['src/main.ts', 'dist/main.js'].map((file) => path.join(root, file)).find((file) => existsSync(file));

/** The Node that npm installed beside the other dependencies; null: it did not. */
function installedNode() {
  try {
    const manifest = createRequire(import.meta.url).resolve('node/package.json');
    const file = path.join(path.dirname(manifest), 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
    return existsSync(file) ? file : null;
  } catch (_) {
    return null;
  }
}

/** Runs the program in another Node as if it were this process: its streams, its signals, its exit code. */
async function runWith(node) {
  const { spawn } = await import('node:child_process');
  const child = spawn(node, [main, ...process.argv.slice(2)], { stdio: 'inherit' });
  // Ctrl-C reaches the child from the terminal; passed on as well it would be the second one, which does not wait.
  const terminal = [0, 1, 2].some((fd) => isatty(fd));
  const forwarded = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of forwarded) {
    process.on(signal, () => {
      if (signal !== 'SIGINT' || !terminal) child.kill(signal);
    });
  }
  child.on('error', (error) => fail(`${node} cannot be started: ${error.message}`));
  child.on('exit', (code, signal) => {
    for (const name of forwarded) process.removeAllListeners(name);
    if (signal === null) process.exitCode = code;
    else process.kill(process.pid, signal);
  });
}

function fail(message) {
  process.stderr.write(`sluice: ${message}\n`);
  process.exitCode = FAILED;
}

if (main === undefined) fail(`there is neither src/main.ts nor dist/main.js in ${root}`);
else if (Number(process.versions.node.split('.')[0]) >= OLDEST_NODE) import(pathToFileURL(main).href);
else {
  const node = installedNode();
  if (node !== null) runWith(node);
  else {
    fail(`Node ${OLDEST_NODE} or newer is needed, and this is ${process.version}`);
    process.stderr.write(`  in a checkout, \`npm ci\` brings one along; elsewhere, install a newer one\n`);
  }
}
