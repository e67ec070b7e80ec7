// docs/code-index.md: every file of src/ with the purpose that its first comment states.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const HEAD = `# Code index

Use this page to find the file for a task: search it for a word of your task. It lists every file of \`src/\` with the purpose that its first
comment states. \`npm run docs\` generates it.
`;

/** The comment at the beginning of a file as one line; empty if there is none. */
function purposeOf(text: string): string {
  const lines: string[] = [];
  for (const line of text.replace(/^#!.*\n/, '').split('\n')) {
    if (!line.startsWith('// ')) break;
    lines.push(line.slice(3).trim());
  }
  return lines.join(' ').replaceAll('|', '\\|');
}

export function codeIndex(root = 'src'): string {
  const folders = new Map<string, string[]>();
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' }).sort()) {
    if (!file.endsWith('.ts')) continue;
    const folder = path.dirname(file);
    const row = `| \`${path.basename(file)}\` | ${purposeOf(readFileSync(path.join(root, file), 'utf8'))} |`;
    folders.set(folder, [...(folders.get(folder) ?? []), row]);
  }
  const sections = [...folders].sort(([a], [b]) => (a < b ? -1 : 1)).map(
    ([folder, rows]) => `\n## ${folder === '.' ? '`src/`' : `\`${folder}/\``}\n\n| file | purpose |\n| --- | --- |\n${rows.join('\n')}\n`,
  ); // biome-ignore format: one line
  return HEAD + sections.join('');
}
