// Writes docs/model-package.md from the schema of model.yaml; a test compares the page with it.

import { ManifestSchema } from '../../src/model/package/manifest.ts';
import { schemaTable } from './schema-table.ts';

/** The page as Markdown. */
export function manifestPage(): string {
  return `# Model packages
Generated from the schema in \`src/model/package/manifest.ts\` by \`npm run docs\`.

A registry is a folder: \`DIR/<id>/<version>/\` is one package, \`DIR/<id>/aliases.yaml\` maps aliases to versions
(\`champion: 3\`). A reference is \`id\`, \`id:version\` or \`id@alias\`; bare \`id\` means alias \`champion\`, else the newest version.
A package is \`model.yaml\` beside \`model.onnx\`, what else it names, and \`package.lock\`, the SHA-256 of each of its files: all are checked whenever it
is loaded ([proof.md](proof.md#packagelock)).

## Limits
Sizes are checked before a file is read into memory, in every registry and at every command. A package that exceeds one is refused (\`model_invalid\`).

| what | at most |
| --- | --- |
| \`model.yaml\`, \`package.lock\`, each | 1 MiB |
| nesting in \`model.yaml\` | 100 levels |
| aliases in \`model.yaml\`, and values that they make | 1,000 and 1,000,000 |
| background sample, each file of the self-test, each file of categories | 64 MiB |
| \`covers.json\` | 256 MiB |
| model file | 2 GiB |
| files | 1,000, each a regular file |

## What a value means
The same rules hold at every door; native JSON types and strings give the same prediction.

- **missing**: the texts in \`missing.values\` (default: the empty text) and JSON \`null\`. The model gets NaN (\`as: nan\`),
  \`missing.value\` (\`as: value\`, \`as: category\`), or the row is refused (\`as: error\`).
- **number**: plain decimal notation. Spaces, thousands separators, hexadecimal, \`NaN\` and \`Infinity\` are refused rather
  than guessed, and so is what rounds to infinity in the number type of its input, or lies outside \`range\`.
- **boolean**: the texts of \`true_values\` (default true, True, TRUE, 1) and \`false_values\` (false, False, FALSE, 0).
- **category**: exact and case-sensitive, leading zeros kept. \`codes\` gives the number each is trained with, \`values\` lists
  them where the model takes the text itself. What is in neither is \`unseen\`: refused (\`error\`, the default), as missing
  (\`missing\`), or \`unseen_value\` (\`value\`). With neither list the text goes to the model as it is.
- **text**: as it is; a NUL character is refused.

## Keys of model.yaml
${schemaTable(ManifestSchema)}
`;
}
