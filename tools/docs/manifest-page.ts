// Writes docs/model-package.md from the schema of model.yaml; a test compares the page with it.

import { ManifestSchema } from '../../src/model/package/manifest.ts';
import { schemaTable } from './schema-table.ts';

/** The page as Markdown. */
export function manifestPage(): string {
  return `# Model packages

After reading this page you can read and write \`model.yaml\`, and know which values a model accepts. \`sluice model add\`
([models.md](models.md)) writes packages, so you rarely write one by hand. \`npm run docs\` generates the table of keys
from \`src/model/package/manifest.ts\`.

A package is a folder with \`model.yaml\`, \`model.onnx\`, the other files that \`model.yaml\` names, and \`package.lock\` with
the SHA-256 of each file. All files are checked whenever the package is loaded ([proof.md](proof.md#packagelock)).

| in a registry | content |
| --- | --- |
| \`<id>/<version>/\` | one package |
| \`<id>/aliases.yaml\` | aliases and their versions (\`champion: 3\`; \`{}\` if there are none: an empty file is rejected, and so is a missing one after an alias was set) |

A reference is \`id\`, \`id:version\` or \`id@alias\`. A bare \`id\` resolves to the alias \`champion\`, or to the newest version
if there is no such alias.

## Values that a column accepts
The rules are the same for files, requests, topics and tables. Native JSON types and text give the same prediction.

- **Missing values** are the texts in \`missing.values\` (default: the empty text) and JSON \`null\`. \`missing.as\` decides
  what happens: the model receives NaN (\`nan\`) or \`missing.value\` (\`value\`, \`category\`), or the row is rejected
  (\`error\`).
- **Numbers** are in plain decimal notation. Spaces, thousands separators, hexadecimal, \`NaN\` and \`Infinity\` are
  rejected. Numbers outside \`range\`, and numbers that round to infinity in the type of their model input, are rejected
  as well.
- **Booleans** are the texts of \`true_values\` (default true, True, TRUE, 1) and \`false_values\` (false, False, FALSE, 0).
- **Categories** must match exactly, including case and leading zeros. \`codes\` maps categories to the numbers used in
  training; \`values\` lists them if the model takes the text itself. \`unseen\` decides what happens to an unlisted
  category: its row is rejected (\`error\`, the default), or the model receives a missing value (\`missing\`) or
  \`unseen_value\` (\`value\`). Without \`codes\` and \`values\`, every text is passed to the model.
- **Text** is passed to the model unchanged. A NUL character is rejected.

## Limits
Sizes are checked before a file is read into memory, in every registry and by every command. A package that exceeds a
limit is rejected (\`model_invalid\`).

| what | maximum |
| --- | --- |
| \`model.yaml\`, \`package.lock\`, each | 1 MiB |
| nesting in \`model.yaml\` | 100 levels |
| YAML aliases in \`model.yaml\`; values after expanding them | 1,000; 1,000,000 |
| background sample, each file of the self-test, each file of categories | 64 MiB |
| \`covers.json\` | 256 MiB |
| model file | 2 GiB |
| files | 1,000, each a regular file |

## Keys of model.yaml
${schemaTable(ManifestSchema)}
`;
}
