// Copies the files that the built program needs: the bundled models, the templates of `sluice init`, the console and
// the page /docs. Part of `npm run build`.
import { cpSync } from 'node:fs';
import path from 'node:path';

const target = process.argv[2];
if (target === undefined) throw new Error('usage: copy.ts DIST');
for (const id of ['credit-default']) {
  // Locks and in-use markers belong to local processes, not to the model.
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
for (const file of ['reference.html', 'reference.js', 'reference.css']) {
  const folder = 'doors/http/reference';
  cpSync(path.join(import.meta.dirname, '..', folder, file), path.join(target, folder, file));
}
// Only these files are copied. The npm package has nine megabytes more, and depends on a package that reports
// installations.
for (const file of [
  ...['swagger-ui-bundle.js', 'swagger-ui.css', 'package.json'],
  ...['LICENSE', 'NOTICE', 'swagger-ui-bundle.js.LICENSE.txt'],
]) {
  const folder = path.join(import.meta.dirname, '../../node_modules/swagger-ui-dist');
  cpSync(path.join(folder, file), path.join(target, 'doors/http/reference/swagger-ui', file));
}
cpSync(
  path.join(import.meta.dirname, '../../k8s/monitoring/rules.yaml'),
  path.join(target, 'project', 'templates', 'monitoring', 'rules.yaml'),
);
