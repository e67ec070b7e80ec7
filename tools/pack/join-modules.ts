// Joins the modules of the built program that are loaded together into few files: finding, reading and linking two hundred of them takes
// Node as long as scoring a hundred thousand rows.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ExistingRawSourceMap, type Plugin, type RolldownLog, rolldown } from 'rolldown';

/** Files that something starts or reads by their names: each keeps its place, and its own code. */
const ENTRIES = [
  'main.js',
  'index.js',
  'engine/worker-entry.js',
  'inference/sandbox/probe-entry.js',
  'inference/evaluate/reference-entry.js',
  'model/package/model-yaml-entry.js',
  'onboarding/trial-entry.js',
  'wasm/print-wat.js',
];

/**
 * Parts, and the modules (or folders of them) that each begins with: it has all that they import statically, but what is in a part above it. So no part waits
 * for one below. The rest is joined by who imports it. `cli.js` waits for imports when it is loaded: in a part it would wait for itself.
 */
const PARTS: readonly (readonly [name: string, roots: readonly string[]])[] = [
  // Before Node keeps what it compiles.
  ['boot', ['main.js']],
  // Before the first worker is started; and what of the workers' modules every command has.
  ['early', ['inference/sandbox/kept-verdicts.js', 'engine/early-thread.js', 'formats/decode/decoder-override.js']],
  ['worker', ['engine/worker-entry.js', 'engine/inline-scorer.js']],
  // Of every command.
  ['cli', ['cli.js', 'doors/commands/flags/command-spec.js']],
  // A run of files: its command, and what that imports on its way.
  ['score', ['doors/commands/score.js']],
  ['file-run', ['model/registry/trusted.js', 'model/registry/folder.js', 'runs/file-run.js', 'runs/plugins/']],
];
const APART = new Set([...ENTRIES, 'cli.js']);

/**
 * Packages that go into a part of their own: Node would load 600 files of typebox and 70 of yaml in every service. They stay dependencies,
 * because declarations name the types of typebox, and because the text of their licences is there.
 */
const JOINED_PACKAGES = ['typebox', 'yaml'];

/** Where all that is no entry goes. */
const FOLDER = 'parts';

/** How a module says where it is. */
const OWN_URL = 'import.meta.url';

/** Joins what `tsc` has written to `dist`. Declarations stay where they are. @throws Error of what cannot be joined */
export async function joinModules(dist: string): Promise<void> {
  const bundle = await rolldown({
    cwd: dist,
    input: Object.fromEntries(ENTRIES.map((file) => [file.slice(0, -'.js'.length), path.join(dist, file)])),
    external: (id) => !id.startsWith('.') && !path.isAbsolute(id) && joinedPackage(id) === undefined,
    platform: 'node',
    // What a module does when it is loaded may be what it is for.
    treeshake: false,
    preserveEntrySignatures: 'allow-extension',
    plugins: [packages, asWritten(dist)],
    onLog: refuse,
  });
  try {
    let partOf: Map<string, string> | null = null;
    const { output } = await bundle.generate({
      dir: dist,
      format: 'esm',
      sourcemap: true,
      entryFileNames: '[name].js',
      chunkFileNames: `${FOLDER}/[name].js`,
      codeSplitting: {
        includeDependenciesRecursively: false,
        groups: [
          {
            debugName: 'parts',
            name: (id, graph) => {
              partOf ??= partsOf(dist, (of) => graph.getModuleInfo(of)?.importedIds ?? null);
              return packageOf(id) ?? partOf.get(id) ?? null;
            },
          },
        ],
      },
    });
    for (const file of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
      if (/\.js(?:\.map)?$/.test(file)) rmSync(path.join(dist, file));
    }
    for (const made of output) {
      const file = path.join(dist, made.fileName);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, made.type === 'chunk' ? made.code : made.source);
    }
  } finally {
    await bundle.close();
  }
}

/** The joined package that an import names, or a path of it such as `typebox/value`. */
const joinedPackage = (specifier: string): string | undefined =>
  JOINED_PACKAGES.find((name) => specifier === name || specifier.startsWith(`${name}/`));

/** The joined package to which a file belongs. */
const packageOf = (file: string): string | undefined =>
  JOINED_PACKAGES.find((name) => file.includes(`${path.sep}node_modules${path.sep}${name}${path.sep}`));

/** Finds the packages of this checkout: `dist` may be anywhere. */
const packages: Plugin = {
  name: 'joined packages',
  resolveId: (source) => (joinedPackage(source) === undefined ? null : fileURLToPath(import.meta.resolve(source))),
};

/** A module, or all modules of a folder, by full paths. */
function modulesOf(dist: string, root: string): string[] {
  const file = path.join(dist, root);
  if (!root.endsWith('/')) return [file];
  return readdirSync(file).flatMap((name) => (name.endsWith('.js') ? [path.join(file, name)] : []));
}

/** Module → part. `importedBy`: what a module imports statically, by full paths; null: there is none of that path. */
function partsOf(dist: string, importedBy: (module: string) => readonly string[] | null): Map<string, string> {
  const partOf = new Map<string, string>();
  const apart = new Set([...APART].map((file) => path.join(dist, file)));
  for (const [name, roots] of PARTS) {
    const seen = new Set<string>();
    const left = roots.flatMap((root) => modulesOf(dist, root));
    for (let module = left.pop(); module !== undefined; module = left.pop()) {
      if (seen.has(module) || !path.isAbsolute(module) || packageOf(module) !== undefined) continue;
      seen.add(module);
      const imported = importedBy(module);
      if (imported === null) throw new Error(`${module}, of the part ${name}, is not there`);
      left.push(...imported);
      if (!partOf.has(module) && !apart.has(module)) partOf.set(module, name);
    }
  }
  return partOf;
}

/** Reads a module with its map; one that moves goes on saying where it was, so that it finds what lies beside it. */
const asWritten = (dist: string): Plugin => ({
  name: 'as written',
  load(id) {
    if (packageOf(id) !== undefined) return null;
    const file = path.relative(dist, id).split(path.sep).join('/');
    const code = readFileSync(id, 'utf8').replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n');
    if (/import\.meta\.(?!url\b)/.test(code))
      throw new Error(`${file} says by something else than ${OWN_URL} where it is`);
    const own = `new URL(${JSON.stringify(`../${file}`)}, ${OWN_URL}).href`;
    const map = JSON.parse(readFileSync(`${id}.map`, 'utf8')) as ExistingRawSourceMap;
    const sources = map.sources!.map((source) => path.resolve(path.dirname(id), source!));
    return { code: ENTRIES.includes(file) ? code : code.replaceAll(OWN_URL, own), map: { ...map, sources } };
  },
});

/** Modules that one part imports at once and another on demand: that is how parts are meant. */
const EXPECTED = new Set(['INEFFECTIVE_DYNAMIC_IMPORT']);

function refuse(_level: unknown, log: RolldownLog): void {
  if (!EXPECTED.has(log.code ?? '')) throw new Error(log.message);
}
