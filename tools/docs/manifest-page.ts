// Writes docs/model-package.md from the schema of model.yaml; a test compares the page with it.

import { ManifestSchema } from '../../src/model/package/manifest.ts';
import { schemaTable } from './schema-table.ts';

/** The page as Markdown. */
export function manifestPage(): string {
  return `# Model packages

After reading this page you can write a \`model.yaml\` by hand and look up the meaning and limits of every key.

\`npm run docs\` generates this page from the schema in \`src/model/package/manifest.ts\`.

A registry is a folder: \`DIR/<id>/<version>/\` is one package, \`DIR/<id>/aliases.yaml\` maps aliases to versions
(\`champion: 3\`). A reference is \`id\`, \`id:version\` or \`id@alias\`. A bare \`id\` resolves to the alias \`champion\`, or to the
newest version if there is no such alias.

A package contains \`model.yaml\`, \`model.onnx\`, the other files that \`model.yaml\` names, and \`package.lock\` with the SHA-256 of
each file. All files are checked whenever the package is loaded ([proof.md](proof.md#packagelock)).

## Limits
Sizes are checked before a file is read into memory, in every registry and by every command. A package that exceeds a limit is
rejected (\`model_invalid\`).

| limited | maximum |
| --- | --- |
| \`model.yaml\`, \`package.lock\`, each | 1 MiB |
| nesting in \`model.yaml\` | 100 levels |
| aliases in \`model.yaml\`, and the values that they expand to | 1,000 and 1,000,000 |
| background sample, each file of the self-test, each file of categories | 64 MiB |
| \`covers.json\` | 256 MiB |
| model file | 2 GiB |
| files | 1,000, each a regular file |

## How values are interpreted
The same rules apply at every entry point; native JSON types and strings give the same prediction.

- **missing**: the texts in \`missing.values\` (default: the empty text) and JSON \`null\`. The model receives NaN (\`as: nan\`) or
  \`missing.value\` (\`as: value\`, \`as: category\`), or the row is rejected (\`as: error\`).
- **number**: plain decimal notation. Spaces, thousands separators, hexadecimal, \`NaN\` and \`Infinity\` are rejected rather
  than guessed. Numbers outside \`range\`, and numbers that the number type of the input rounds to infinity, are also rejected.
- **boolean**: the texts of \`true_values\` (default true, True, TRUE, 1) and \`false_values\` (false, False, FALSE, 0).
- **category**: exact and case-sensitive; leading zeros are significant. \`codes\` maps each category to its number in training.
  \`values\` lists the categories if the model receives the text itself. A text in neither is *unseen*: it is rejected
  (\`error\`, the default), treated as missing (\`missing\`), or replaced by \`unseen_value\` (\`value\`). Without either list, the
  model receives the text unchanged.
- **text**: unchanged; a NUL character is rejected.

## Keys of model.yaml
${schemaTable(ManifestSchema)}
`;
}
