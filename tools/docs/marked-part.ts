// Pages written by people may hold generated parts, each between two comments that name it.
import { readFileSync } from 'node:fs';

/** The page with its part `name` replaced. */
export function withPart(file: string, name: string, content: string): string {
  const page = readFileSync(file, 'utf8');
  const [begin, end] = [`<!-- generated: ${name} -->`, `<!-- end: ${name} -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${file} has no part ${name}`);
  return `${page.slice(0, from)}${begin}\n${content}\n${page.slice(to)}`;
}
