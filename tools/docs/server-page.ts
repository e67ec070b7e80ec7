// Writes docs/serve-config.md and its JSON Schema from the schema of the configuration; a test compares them with it.

import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { editorSchema } from './editor-schema.ts';
import { schemaTable } from './schema-table.ts';

/** The page as Markdown. */
export function serverConfigPage(): string {
  return `# Configuration of \`sluice serve\`
Generated from the schema in \`src/config/server-config.ts\` by \`npm run docs\`; the same as a JSON Schema, for the
completion of editors, is [serve.schema.json](serve.schema.json).

Values come from, later ones over earlier ones: the defaults, the YAML file (\`--config\`), the environment
(\`SLUICE_LIMITS__ROWS=5\` sets \`limits.rows\`; two underscores go one level down), flags (\`--set limits.rows=5\`). Faults are told all at
once, those of the file as \`file:line:column\`.

\`\`\`yaml
# sluice.yaml
# yaml-language-server: $schema=serve.schema.json
listen: { port: 8443 }
tls: { certificate: /etc/sluice/tls.crt, key: /etc/sluice/tls.key }
registry: /models
keys_file: /etc/sluice/keys.yaml
preload: [credit-default@champion]
jobs: { folder: /var/lib/sluice/jobs }
\`\`\`

${schemaTable(ServerConfigSchema)}
`;
}

/** The JSON Schema of the configuration, as text. */
export const serverConfigJsonSchema = (): string => editorSchema('sluice serve', ServerConfigSchema);
