// The README runs: every recipe is executed, and shows what it printed; the picture shows a session as it is today.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { masked, RECORDED, Session, withoutProgress } from '../../tools/readme/session.ts';
import { linesOfSvg } from '../../tools/readme/terminal-svg.ts';
import { startService } from '../support/service.ts';
import { checkTestNeeding, testNeeding } from '../support/tools.ts';

const PAGE = readFileSync('README.md', 'utf8');
/** Commands and the output that the page shows after them. */
const RECIPES = [...PAGE.matchAll(/```sh\n([^`]*)```\n\n```text\n([^`]*)```/g)].map(([, sh, text]) => ({
  command: sh!.trimEnd(),
  shown: text!,
}));

test('there are four recipes with their output', () => {
  expect(RECIPES).toHaveLength(4);
});

testNeeding(['bash', 'curl'], 'recipes print what the page shows', async () => {
  const session = new Session();
  onTestFinished(() => session.close());
  const service = await startService();
  writeFileSync(path.join(session.folder, 'dev.crt'), service.running.certificate!);
  for (const { command, shown } of RECIPES) {
    const here = command.replace('localhost:8443', `localhost:${service.port}`);
    const output = await session.runAsync(`TOKEN=${service.token}\n${here}`);
    expect(masked(output), command).toBe(masked(shown));
  }
});

checkTestNeeding(['bash'], 'the picture shows what these commands print', async () => {
  const session = new Session();
  onTestFinished(() => session.close());
  const shown = linesOfSvg(readFileSync('docs/terminal.svg', 'utf8'));
  for (const command of RECORDED) {
    const printed = withoutProgress(await session.runAsync(command))
      .trimEnd()
      .split('\n');
    expect(shown.shift()).toBe(`$ ${command}`);
    for (const line of printed.filter((text) => text !== '')) {
      const inPicture = shown.shift()!;
      const isCut = inPicture.endsWith('…') && !line.endsWith('…');
      if (isCut) expect(line.startsWith(inPicture.slice(0, -1))).toBe(true);
      else expect(masked(inPicture)).toBe(masked(line));
    }
  }
  expect(shown).toEqual([]);
});
