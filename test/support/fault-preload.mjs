// Loaded into a process by `--import`: counts the operations of the file system below a folder and lets one of them fail, or kills the
// process there. FAULT_FOLDER: the folder; FAULT_AT: which operation, from 1; FAULT_HOW: a code of errno, or kill; FAULT_COUNT: file
// that takes their number. With FAULT_IPC the parent says by messages which is next, `{ at, how }`, and hears which it was.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';

const {
  FAULT_FOLDER: folder = '/',
  FAULT_AT = '0',
  FAULT_HOW = 'EIO',
  FAULT_COUNT: countFile,
  FAULT_IPC,
} = process.env;
let at = Number(FAULT_AT);
let how = FAULT_HOW;
// Children of the process have operations of their own.
delete process.env.FAULT_FOLDER;
const { writeFileSync } = fs;
const kinds = [];

function step(kind) {
  kinds.push(kind);
  if (countFile) writeFileSync(countFile, JSON.stringify(kinds));
  if (kinds.length !== at) return;
  if (FAULT_IPC) process.send({ fired: kind });
  if (how === 'kill') process.kill(process.pid, 'SIGKILL');
  throw Object.assign(new Error(`${how}: planted at ${kind}`), { code: how, syscall: kind });
}

if (FAULT_IPC) {
  process.on('message', (next) => {
    kinds.length = 0;
    ({ at, how } = next);
  });
  process.channel.unref();
}

const inside = (file) => typeof file === 'string' && !path.relative(folder, path.resolve(file)).startsWith('..');

if (process.env.FAULT_IN !== 'children' && folder !== '/') {
  const { promises } = fs;
  const handles = new WeakSet();
  let patched = false;
  const more = FAULT_IPC ? ['mkdir', 'rm', 'writeFile', 'copyFile', 'access', 'lstat', 'realpath'] : [];
  for (const name of ['open', 'rename', 'unlink', 'link', 'readdir', 'readFile', 'stat', ...more]) {
    const real = promises[name];
    promises[name] = async (...args) => {
      if (!inside(args[0])) return real(...args);
      // A killed process may have done what it was doing, or not.
      step(name);
      const result = await real(...args);
      if (name === 'open') {
        handles.add(result);
        if (!patched) {
          patched = true;
          const proto = Object.getPrototypeOf(result);
          for (const method of ['read', 'write', 'writeFile', 'sync', 'datasync', 'truncate', 'stat', 'close'].slice(
            FAULT_IPC ? 0 : 1,
          )) {
            const own = proto[method];
            proto[method] = async function (...more) {
              if (handles.has(this)) {
                try {
                  step(`handle.${method}`);
                } catch (error) {
                  // A handle whose close fails is closed all the same.
                  if (method === 'close') await own.apply(this, more);
                  throw error;
                }
              }
              return own.apply(this, more);
            };
          }
        }
      }
      return result;
    };
  }
  syncBuiltinESMExports();
}
