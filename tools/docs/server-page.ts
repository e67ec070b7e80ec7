// Writes docs/serve-config.md and its JSON Schema from the schema of the configuration; a test compares them with it.

import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { editorSchema } from './editor-schema.ts';
import { schemaTable } from './schema-table.ts';

/** The page as Markdown. */
export function serverConfigPage(): string {
  return `# Configuration of \`sluice serve\`

After reading this page you can write the configuration file of the service and look up every setting.

\`\`\`yaml
# sluice.yaml
# yaml-language-server: $schema=docs/serve.schema.json
listen: { port: 8443 }
tls: { certificate: /etc/sluice/tls.crt, key: /etc/sluice/tls.key }
registry: /models
keys_file: /etc/sluice/keys.yaml
preload: [credit-default@champion]
jobs: { folder: /var/lib/sluice/jobs }
\`\`\`

Settings have four sources, each taking precedence over the previous one:

1. the defaults
2. the YAML file (\`--config\`)
3. the environment: \`SLUICE_LIMITS__ROWS=5\` sets \`limits.rows\`; two underscores separate levels
4. flags: \`--set limits.rows=5\`

All errors are reported at once, those of the file as \`file:line:column\`. \`npm run docs\` generates this page from
\`src/config/server-config.ts\`. For completion in editors use the JSON Schema [serve.schema.json](serve.schema.json):
\`$schema\` is its address, relative to the configuration file.

${schemaTable(ServerConfigSchema)}
`;
}

/** The JSON Schema of the configuration, as text. */
export const serverConfigJsonSchema = (): string => editorSchema('sluice serve', ServerConfigSchema);
