// Writes the files of `sluice init`: the templates next to this file with their placeholders filled in, the bundled
// model, and the alert rules.
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { SluiceError } from '../core/errors.ts';

const TEMPLATES = fileURLToPath(new URL('templates/', import.meta.url));
/**
 * Locations of the alert rules. In an installed package, the build has put them next to the templates. In a checkout,
 * `npm run docs` has written them.
 */
const RULES = ['templates/monitoring/rules.yaml', '../../k8s/monitoring/rules.yaml'];
/** Folders to create without files. */
const EMPTY = ['incoming', 'scored', 'metrics'];
/** Templates whose name differs from that of the file. npm would interpret a file `.gitignore` itself. */
const RENAMED: Readonly<Record<string, string>> = { gitignore: '.gitignore' };

interface ProjectOptions {
  /** Absolute path of the project folder. */
  folder: string;
  /** Folder registry from which the models are copied. */
  models: string;
  modelIds: readonly string[];
  certificate: { cert: string; key: string };
  /** Command line, as a list of words, that starts this program. Used in the systemd units. */
  program: readonly string[];
  /** User under which the systemd units run. */
  user: string;
}

interface ProjectFile {
  name: string;
  bytes: Buffer | string;
  secret?: true;
}

/**
 * Writes a project into a folder, which may contain other files. Existing files are never overwritten. If one file
 * cannot be written, all files written so far are removed.
 * @returns the names of the files
 * @throws SluiceError usage: one of the files exists | output_unwritable
 */
export async function writeProject(options: ProjectOptions): Promise<string[]> {
  const files = await filesOf(options);
  const there = files.filter(({ name }) => existsSync(path.join(options.folder, name)));
  if (there.length > 0) {
    const names = there.slice(0, 3).map(({ name }) => name);
    const more = there.length > names.length ? ` and ${there.length - names.length} more` : '';
    throw new SluiceError(
      'usage',
      `${names.join(', ')}${more} already exist in ${options.folder}: nothing was written`,
    );
  }
  const written: string[] = [];
  try {
    for (const folder of EMPTY) await mkdir(path.join(options.folder, folder), { recursive: true });
    for (const { name, bytes, secret } of files) {
      const file = path.join(options.folder, name);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, bytes, { flag: 'wx', mode: secret ? 0o600 : 0o666 });
      written.push(file);
    }
  } catch (cause) {
    for (const file of written) await rm(file, { force: true });
    const code = (cause as NodeJS.ErrnoException).code ?? 'unknown';
    throw new SluiceError('output_unwritable', `${options.folder} cannot be written (${code})`, { cause });
  }
  return files.map(({ name }) => name);
}

async function filesOf({ certificate, models, modelIds, ...options }: ProjectOptions): Promise<ProjectFile[]> {
  const templates = (await filesBelow(TEMPLATES)).filter((name) => !name.startsWith('monitoring/'));
  const filled = templates.map(async (name) => {
    const text = await readFile(path.join(TEMPLATES, name), 'utf8');
    return { name: RENAMED[name] ?? name, bytes: name.startsWith('systemd/') ? filledUnit(text, options) : text };
  });
  const packages = modelIds.map(async (id) => {
    // Locks and in-use markers belong to local processes, not to the model. Aliases are not copied but moved, so that
    // the history has an entry.
    const names = (await filesBelow(path.join(models, id))).filter((name) => !/(^|\/)\.|^aliases\./.test(name));
    return Promise.all(
      names.map(async (name) => ({ name: `models/${id}/${name}`, bytes: await readFile(path.join(models, id, name)) })),
    );
  });
  const rules = RULES.map((name) => fileURLToPath(new URL(name, import.meta.url))).find((file) => existsSync(file))!;
  return [
    ...(await Promise.all(filled)),
    ...(await Promise.all(packages)).flat(),
    { name: 'monitoring/rules.yaml', bytes: await readFile(rules) },
    { name: 'tls/server.crt', bytes: certificate.cert },
    { name: 'tls/server.key', bytes: certificate.key, secret: true },
  ];
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)).replaceAll(path.sep, '/'))
    .sort();
}

/**
 * Fills in the placeholders of a systemd unit. Words are quoted, and `%` and `$` are escaped, because systemd
 * interprets them (systemd.syntax(7), systemd.service(5)).
 */
function filledUnit(
  text: string,
  { folder, program, user }: Pick<ProjectOptions, 'folder' | 'program' | 'user'>,
): string {
  const plain = (word: string) => word.replaceAll('%', '%%');
  const inQuotes = (word: string) => plain(word).replace(/["\\]/g, '\\$&');
  return text
    .replaceAll(
      /^(\w+)=@FOLDER@$/gm,
      (_, key) => `${key}=${key === 'WorkingDirectory' ? plain(folder) : `"${inQuotes(folder)}"`}`,
    )
    .replaceAll('@FOLDER@', () => inQuotes(folder))
    .replaceAll('@PROGRAM@', () => program.map((word) => `"${inQuotes(word).replaceAll('$', '$$$$')}"`).join(' '))
    .replaceAll('@USER@', () => user);
}
