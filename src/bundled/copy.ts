// Copies the files that the built program reads: the bundled models, the templates of `sluice init` and the console. Part of `npm run build`.
import { cpSync } from 'node:fs';
import path from 'node:path';

const target = process.argv[2];
if (target === undefined) throw new Error('usage: copy.ts DIST');
for (const id of ['credit-default']) {
  // Locks and in-use markers of local processes are not part of the model.
  const filter = (file: string) => !['.in-use', '.lock.sqlite'].includes(path.basename(file));
  cpSync(path.join(import.meta.dirname, id), path.join(target, 'bundled', id), { recursive: true, filter });
}
cpSync(path.join(import.meta.dirname, '../project/templates'), path.join(target, 'project', 'templates'), {
  recursive: true,
});
for (const file of ['console.html', 'console.js', 'console.css', 'icon.svg']) {
  const folder = 'doors/http/console';
  cpSync(path.join(import.meta.dirname, '..', folder, file), path.join(target, folder, file));
}
cpSync(
  path.join(import.meta.dirname, '../../k8s/monitoring/rules.yaml'),
  path.join(target, 'project', 'templates', 'monitoring', 'rules.yaml'),
);
