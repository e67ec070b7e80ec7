// The tutorial and the walkthrough run as they are written: every command in order, every output compared.
import { readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { comparable, runSteps, type Step, stepsOf } from '../../tools/readme/page-session.ts';
import { Session } from '../../tools/readme/session.ts';
import { checkTestNeeding } from '../support/tools.ts';
import { testProgram } from './program-of-page.ts';

const REQUIREMENTS = 'test/docs/tutorial-requirements.txt';
const TUTORIAL = readFileSync('docs/tutorial.md', 'utf8');

test('tutorial: the page installs what the test installs', () => {
  const pins = readFileSync(REQUIREMENTS, 'utf8').trim().split('\n');
  expect(pins.length).toBeGreaterThan(3);
  expect(TUTORIAL).toContain(`.venv/bin/pip install ${pins.join(' ')}\n`);
});

test('lines that a page leaves out match anything, all others exactly', () => {
  const printed = 'a\nb\nc\n1.5 s\n';
  expect(comparable('a\n…\n2 s\n', printed)).toEqual([
    ['a', '…', '# s'],
    ['a', '…', '# s'],
  ]);
  for (const shown of ['a\n…\nd\n', 'a\nc\n…\n', 'a\nb\n', '…\nb\n# s\n']) {
    const [wanted, got] = comparable(shown, printed);
    expect(got, shown).not.toEqual(wanted);
  }
});

const page = { page: TUTORIAL, requirements: REQUIREMENTS, tools: ['curl'] as const };
await testProgram('tutorial: commands print what the page shows', page, async (session) => {
  const steps = stepsOf(TUTORIAL);
  expect(steps).toHaveLength(10);
  const port = await freePort();
  const commands = steps.map(({ command }) => withPort(command, port));
  // A failing command would leave the service running and its output open.
  commands.unshift("trap 'kill $(jobs -p) 2> /dev/null' EXIT");
  const outputs = (await runSteps(session, commands)).slice(1);
  expectShown(steps, outputs);
});

checkTestNeeding(['bash'], 'walkthrough: commands print what the page shows', async () => {
  const session = new Session();
  onTestFinished(() => session.close());
  const steps = stepsOf(readFileSync('examples/walkthrough.md', 'utf8'));
  expect(steps).toHaveLength(11);
  const outputs = await runSteps(
    session,
    steps.map(({ command }) => command.replaceAll('../src/', `${path.resolve('src')}/`)),
  );
  expectShown(steps, outputs);
});

function expectShown(steps: readonly Step[], outputs: readonly string[]): void {
  expect(outputs).toHaveLength(steps.length);
  for (const [i, { command, shown }] of steps.entries()) {
    const [wanted, printed] = comparable(shown ?? '', outputs[i]!);
    expect(printed, command).toEqual(wanted);
  }
}

/** The commands of a page with another port for the service. */
function withPort(command: string, port: number): string {
  return command.replaceAll('localhost:8443', `localhost:${port}`).replace('serve --dev', `serve --dev --port ${port}`);
}

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
