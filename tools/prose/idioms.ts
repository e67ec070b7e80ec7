// Idioms that are not plain English, and where prose is counted: comments of src/, pages, README, CHANGELOG.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Name → pattern; docs/decisions/ and generated JSON are not counted. */
export const IDIOMS: Readonly<Record<string, RegExp>> = {
  'what it is': /\bwhat (?:it |they |he |she |that |this |there )?(?:is|are|was|were|has|have|had)\b/gi,
  stands: /\b(?:stands?|stood)\b/gi,
  nobody: /\bnobody\b/gi,
  beside: /\bbesides?\b/gi,
  told: /\btold\b/gi,
  tells: /\btells?\b/gi,
  whoever: /\bwhoever\b/gi,
  somebody: /\bsomebody\b/gi,
  'is no': /\b(?:is|are|was|were) no (?!longer\b|more\b|less\b)[a-z]+/gi,
  'goes on': /\b(?:goes|go|went|going|gone) on\b/gi,
  'so many': /\bso many\b/gi,
  'is not there': /\b(?:is|are|was|were) not there\b/gi,
  'is over': /\b(?:is|are|was|were) over\b/gi,
  anew: /\banew\b/gi,
};

export interface Found {
  file: string;
  line: number;
  idiom: string;
  text: string;
}

/** The comments of a TypeScript file, other lines empty. */
function commentsOf(source: string): string {
  let inBlock = false;
  const lines = source.split('\n').map((line) => {
    const trimmed = line.trimStart();
    if (inBlock || trimmed.startsWith('/*')) {
      inBlock = !line.includes('*/');
      return line;
    }
    if (trimmed.startsWith('//')) return line;
    const at = line.search(/\s\/\/ (?!biome-ignore)/);
    return at < 0 ? '' : line.slice(at);
  });
  return lines.join('\n');
}

/** Prose of pages: without code blocks and inline code. */
const proseOf = (page: string): string =>
  page
    .replaceAll(/```[\s\S]*?```/g, (block) => block.replaceAll(/[^\n]/g, ' '))
    .replaceAll(/`[^`\n]*`/g, (code) => ' '.repeat(code.length));

export function proseFiles(): string[] {
  const all = execFileSync('git', ['ls-files'], { encoding: 'utf8' }).split('\n');
  return all.filter(
    (f) =>
      /^src\/.*\.ts$/.test(f) ||
      /^docs\/[^/]+\.md$/.test(f) ||
      /^(?:README|ARCHITECTURE|CONTRIBUTING|CHANGELOG)\.md$/.test(f) ||
      /^(?:examples|pipelines|k8s|clients)\/.*\.md$/.test(f),
  );
}

export function findIdioms(file: string, text = readFileSync(file, 'utf8')): Found[] {
  const prose = file.endsWith('.ts') ? commentsOf(text) : proseOf(text);
  return prose
    .split('\n')
    .flatMap((line, i) =>
      Object.entries(IDIOMS).flatMap(([idiom, pattern]) =>
        Array.from(line.matchAll(pattern), () => ({ file, line: i + 1, idiom, text: line.trim() })),
      ),
    );
}
