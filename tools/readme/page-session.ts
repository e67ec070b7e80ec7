// Pages whose commands are run in order: ```bash blocks, each with the output that the ```text block after it shows.
import { masked, type Session } from './session.ts';

export interface Step {
  command: string;
  shown: string | null;
}

/** Text in the output of a session that no command prints by itself. */
const END_OF_STEP = '--- end of step ---';
/** A line of a page in the place of any number of lines. */
const LEFT_OUT = '…';

export function stepsOf(page: string): Step[] {
  return [...page.matchAll(/^```bash\n([\s\S]*?)^```\n(?:\n```text\n([\s\S]*?)^```\n)?/gm)].map(
    ([, command, shown]) => ({
      command: command!.trimEnd(),
      shown: shown ?? null,
    }),
  );
}

/** Runs the commands of all steps in one bash, so that variables and jobs stay; the output of each step. */
export async function runSteps(session: Session, commands: readonly string[]): Promise<string[]> {
  const output = await session.runAsync(commands.map((c) => `${c}\necho; echo '${END_OF_STEP}'`).join('\n'));
  return output.split(`\n${END_OF_STEP}\n`).slice(0, -1);
}

/** What a page shows and what was printed, masked alike: the printed lines that the page leaves out are left out. */
export function comparable(shown: string, printed: string): [string[], string[]] {
  const wanted = mask(shown);
  const lines = mask(printed);
  const kept: string[] = [];
  for (const [i, line] of wanted.entries()) {
    if (line !== LEFT_OUT) {
      if (lines.length > 0) kept.push(lines.shift()!);
      continue;
    }
    kept.push(LEFT_OUT);
    const next = wanted[i + 1];
    const at = next === undefined ? lines.length : lines.indexOf(next);
    if (at >= 0) lines.splice(0, at);
  }
  return [wanted, [...kept, ...lines]];
}

const mask = (text: string): string[] =>
  masked(text)
    .replaceAll(/\b[0-9a-f]{12,64}(…|\b)/g, 'HASH$1')
    .replaceAll(/Sluice \d+\.\d+\.\d+/g, 'Sluice VERSION')
    .replaceAll(/localhost:\d+/g, 'localhost:PORT')
    .split('\n');
