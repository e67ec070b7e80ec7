// An SVG of a terminal session, from its real text.
const FONT = 13;
const LINE = 18;
const CHAR = 7.83;
const PAD = 16;

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** Lines that start with `$ ` are commands. `title`: the alternative text. */
export function terminalSvg(title: string, lines: readonly string[]): string {
  const columns = Math.max(...lines.map((line) => [...line].length));
  const width = Math.ceil(columns * CHAR + 2 * PAD);
  const height = lines.length * LINE + 2 * PAD;
  const rows = lines.map((line, i) => {
    const y = PAD + (i + 0.75) * LINE;
    const isCommand = line.startsWith('$ ');
    return line === '' ? '' : `<text x="${PAD}" y="${y}" class="${isCommand ? 'c' : 'o'}">${escaped(line)}</text>\n`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(title)}">
<title>${escaped(title)}</title>
<style>text{font:${FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}.c{fill:#7ee2b8;font-weight:600}.o{fill:#d5dde6}</style>
<rect width="${width}" height="${height}" rx="8" fill="#141b23"/>
${rows.join('')}</svg>
`;
}

/** The text of the session in an SVG of `terminalSvg`, without empty lines. */
export const linesOfSvg = (svg: string): string[] =>
  [...svg.matchAll(/<text [^>]*>([^<]*)<\/text>/g)].map(([, text]) =>
    text!.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'),
  );
