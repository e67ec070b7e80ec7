// The TypeScript example: its types are generated from the OpenAPI document, checked, and it runs against a service.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { scratch } from '../support/cli.ts';
import { startProcess } from '../support/service.ts';
import { campaignTest } from '../support/tiers.ts';

const run = promisify(execFile);

campaignTest(
  'examples/typescript: the generated types fit, and the program prints an explained prediction',
  async (context) => {
    const root = scratch();
    const example = path.join(root, 'examples', 'typescript');
    mkdirSync(path.join(root, 'docs'));
    cpSync('examples/typescript', example, { recursive: true });
    cpSync('docs/openapi.json', path.join(root, 'docs', 'openapi.json'));
    const npm = (...args: string[]) => run('npm', args, { cwd: example });
    const installed = await npm('install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline').catch(
      () => null,
    );
    if (installed === null) return context.skip('needs a network, to install openapi-typescript with npm once');
    await npm('run', 'types');
    await npm('run', 'check');
    const certificate = path.join(root, 'dev.crt');
    const service = await startProcess('src/bundled', ['--cert-out', certificate]);
    const env = {
      ...process.env,
      SLUICE_URL: `https://localhost:${service.port}`,
      SLUICE_API_KEY: service.token,
      NODE_EXTRA_CA_CERTS: certificate,
    };
    const { stdout } = await run(process.execPath, ['score.ts', 'credit-default'], { cwd: example, env });
    expect(stdout).toMatch(/^row 1: 0\.\d+, approve\n( {2}\w+ -?\d\.\d{4}\n){4}$/);
    const unknown = await run(process.execPath, ['score.ts', 'missing'], { cwd: example, env }).catch((error) => error);
    expect(unknown.stderr).toContain('[model_not_found, request ');
  },
);
