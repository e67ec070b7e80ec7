#!/usr/bin/env node
// What `sluice` starts: the program of this checkout or of this package, by a Node that can run it.
//
// CommonJS of 2015, and the module that no old Node can parse in a file of its own, because telling an old Node so is half of its
// work. In a checkout src/ wins, even where a dist/ is there: that one is as old as the last build, and who changes a file wants
// to see it change. A packed package has no src/, and Node strips types from no file below node_modules anyway.
'use strict';

const childProcess = require('child_process');
const fs = require('fs');
const path = require('path');
const isatty = require('tty').isatty;

/** Major and minor: types are stripped from Node 24 on as we need it; what is built wants what `engines` says. */
const OLDEST = { checkout: [24], built: [22, 12] };
const FAILED = 1;

const root = path.dirname(__dirname);
const source = path.join(root, 'src', 'main.ts');
const built = path.join(root, 'dist', 'main.js');

/** The Node that npm installed beside the other dependencies; null: it did not, or that one is too old as well. */
function installedNode(oldest) {
  try {
    const manifest = require.resolve('node/package.json');
    const file = path.join(path.dirname(manifest), 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
    return !isOld(require(manifest).version, oldest) && fs.existsSync(file) ? file : null;
  } catch (_) {
    return null;
  }
}

/** Runs the program in another process as if it were this one: its streams, its signals, its exit code. */
function runWith(node, flags, main) {
  const child = childProcess.spawn(node, flags.concat(main, process.argv.slice(2)), { stdio: 'inherit' });
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

function isOld(version, oldest) {
  const running = version.split('.').map(Number);
  return running[0] < oldest[0] || (running[0] === oldest[0] && running[1] < oldest[1]);
}

/** SQLite, which holds jobs and leases, is behind a flag in Node 22.12. */
function wantsFlagForSqlite() {
  return (
    !require('module').isBuiltin('node:sqlite') && process.allowedNodeEnvironmentFlags.has('--experimental-sqlite')
  );
}

function launch() {
  const checkout = fs.existsSync(source);
  const main = checkout ? source : built;
  if (!checkout && !fs.existsSync(built)) {
    fail(`there is neither src/main.ts nor dist/main.js in ${root}`);
    return;
  }
  const oldest = checkout ? OLDEST.checkout : OLDEST.built;
  if (!isOld(process.versions.node, oldest)) {
    if (wantsFlagForSqlite()) {
      runWith(process.execPath, ['--experimental-sqlite', '--disable-warning=ExperimentalWarning'], main);
    } else require('./start.js')(main);
    return;
  }
  const node = installedNode(oldest);
  if (node !== null) runWith(node, [], main);
  else {
    const how = checkout
      ? '`npm ci` in this checkout brings one along'
      : 'install one from your distribution or nodejs.org';
    fail(`Node ${oldest.join('.')} or newer is needed, and this is ${process.version}: ${how}`);
  }
}

launch();
