// `node tools/readme/record.ts` records the session in the picture of the README.
import { writeFileSync } from 'node:fs';
import { RECORDED, Session, withoutProgress } from './session.ts';
import { terminalSvg } from './terminal-svg.ts';

/** Longer lines of output are cut in the picture. */
const MOST_COLUMNS = 108;

const session = new Session();
try {
  const lines = RECORDED.flatMap((command) => {
    const output = withoutProgress(session.run(command)).trimEnd().split('\n');
    const shown = output.map((line) => (line.length > MOST_COLUMNS ? `${line.slice(0, MOST_COLUMNS - 1)}…` : line));
    return [`$ ${command}`, ...shown, ''];
  });
  const title = 'Sluice scores a million applications, lists three invalid rows and verifies the output';
  writeFileSync('docs/terminal.svg', terminalSvg(title, lines.slice(0, -1)));
} finally {
  session.close();
}
