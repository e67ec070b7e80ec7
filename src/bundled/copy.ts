// Copies the bundled models to where the built program looks for them; part of `npm run build`.
import { cpSync } from 'node:fs';
import path from 'node:path';

const target = process.argv[2];
if (target === undefined) throw new Error('usage: copy.ts DIST');
for (const id of ['credit-default']) {
  cpSync(path.join(import.meta.dirname, id), path.join(target, 'bundled', id), { recursive: true });
}
