// A stand-in for node:24-bookworm-slim where no registry of images can be reached: the packages of this Debian, the Node and the npm
// of this machine. What the Dockerfile does with it is what it does with the original.
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

/** What a shell, `mkdir` and Node need, and setpriv, which the sandbox uses where it is there. */
const DEBIAN = [
  ...['base-files', 'dash', 'coreutils', 'util-linux', 'tzdata'],
  ...[
    'libc6',
    'libstdc++6',
    'libgcc-s1',
    'libselinux1',
    'libpcre2-8-0',
    'libacl1',
    'libattr1',
    'libgmp10',
    'libcap-ng0',
  ],
];
const MERGED = ['bin', 'sbin', 'lib', 'lib64'];
const GIVEN = [...MERGED.map((name) => `/${name}`), '/bin/sh', '/usr/bin/sh'];
const NOT_TAKEN = /^\/usr\/share\/(?:doc|man|locale|info|lintian)\//;

/** Fills an empty folder with a root file system. */
export function makeBase(root: string): void {
  for (const name of MERGED) {
    mkdirSync(path.join(root, 'usr', name), { recursive: true });
    symlinkSync(`usr/${name}`, path.join(root, name));
  }
  for (const name of [
    'etc',
    'tmp',
    'root',
    'home/node',
    'usr/local/bin',
    'usr/local/lib',
    'var/lib',
    'proc',
    'sys',
    'dev',
  ]) {
    mkdirSync(path.join(root, name), { recursive: true });
  }
  const listed = execFileSync('dpkg', ['-L', ...DEBIAN], { encoding: 'utf8' }).split('\n');
  for (const name of new Set(listed)) if (name.startsWith('/') && !NOT_TAKEN.test(name)) take(name, root);
  writeFileSync(path.join(root, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n');
  writeFileSync(path.join(root, 'etc/group'), 'root:x:0:\nnode:x:1000:\n');
  cpSync(process.execPath, path.join(root, 'usr/local/bin/node'));
  const npm = path.dirname(path.dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())));
  cpSync(npm, path.join(root, 'usr/local/lib/npm'), { recursive: true, dereference: true });
  symlinkSync('../lib/npm/bin/npm-cli.js', path.join(root, 'usr/local/bin/npm'));
  symlinkSync('dash', path.join(root, 'usr/bin/sh'));
}

/** One file of a package; folders come with what is in them. */
function take(name: string, root: string): void {
  const there = lstatSync(name, { throwIfNoEntry: false });
  if (!there || there.isDirectory() || GIVEN.includes(name) || name.startsWith('/var/')) return;
  const target = path.join(root, name);
  mkdirSync(path.dirname(target), { recursive: true });
  if (there.isSymbolicLink()) symlinkSync(readlinkSync(name), target);
  else cpSync(name, target);
}

/** Whether this machine is one whose packages can be taken. */
export function isDebian(): boolean {
  try {
    return /^ID=debian$/m.test(readFileSync('/etc/os-release', 'utf8'));
  } catch {
    return false;
  }
}
