// Runs the commands of a page that trains a model with a Python program.
import { symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { onTestFinished, type TestContext, test } from 'vitest';
import { Session } from '../../tools/readme/session.ts';
import { pythonWith } from '../support/python-environment.ts';
import { IN_CAMPAIGNS, IN_CHECK, SKIPPED, TIER } from '../support/tiers.ts';
import { missingTools } from '../support/tools.ts';

interface PageProgram {
  /** Markdown with one `python` block, which becomes train.py. */
  page: string;
  /** File with the pinned packages of .venv. */
  requirements: string;
  onlyInCampaigns?: boolean;
  /** Programs that the commands need in addition to bash and Python. */
  tools?: readonly Parameters<typeof missingTools>[number][];
}

/** A test in check, or only in campaigns, in a session with train.py and .venv; skipped with the reason if a tool or a package is missing. */
export async function testProgram(
  name: string,
  { page, requirements, tools = [], onlyInCampaigns = false }: PageProgram,
  run: (session: Session, context: TestContext) => Promise<void>,
): Promise<void> {
  if (onlyInCampaigns ? TIER !== 'campaigns' : TIER === 'quick') {
    test.skip(`${name}${SKIPPED}${onlyInCampaigns ? IN_CAMPAIGNS : IN_CHECK}`);
    return;
  }
  const missing = missingTools('bash', ...tools, 'Python 3 with venv');
  const trained = missing === null ? await pythonWith(requirements) : { missing };
  if (!('python' in trained)) {
    test.skip(`${name}${SKIPPED}needs ${trained.missing}`);
    return;
  }
  test(name, async (context) => {
    const session = new Session();
    onTestFinished(() => session.close());
    symlinkSync(path.resolve(trained.python, '../..'), path.join(session.folder, '.venv'));
    const [, program] = /```python\n([\s\S]*?)^```$/m.exec(page)!;
    writeFileSync(path.join(session.folder, 'train.py'), program!);
    await run(session, context);
  });
}
