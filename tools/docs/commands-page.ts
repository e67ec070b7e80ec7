// Writes docs/commands.md and the table of flags in docs/score.md from the descriptions of the commands.
import { COMMANDS } from '../../src/doors/commands/flags/all-commands.ts';
import {
  COMMAND_GROUPS,
  type CommandSpec,
  type CommandTable,
  commandTable,
  type Flag,
} from '../../src/doors/commands/flags/command-spec.ts';
import { EXAMPLES } from '../../src/doors/commands/flags/help-groups.ts';

/** The page as Markdown. */
export function commandsPage(): string {
  const sections = Object.entries(COMMANDS).map(([words, spec]) => commandSection(words, spec));
  const groups = Object.entries(COMMAND_GROUPS).map(([word, description]) => `\`${word} …\` (${description})`);
  return `# Commands
Generated from \`src/doors/commands/flags\` by \`npm run docs\`; \`sluice help COMMAND\` shows the same. Groups of commands:
${groups.join(', ')}.

Options of the same name mean the same in pipeline files ([pipelines.md](pipelines.md)) and in the service
([serve-config.md](serve-config.md), [serve.md](serve.md)), with dashes written as underscores.

Exit codes: 0 done, 1 failed and nothing new is visible, 2 the command line or a file it names is wrong, 3 done but rows were rejected (0 where the variable \`SLUICE_EXIT_REJECTED\` is \`0\`, as Kubernetes Jobs require), 4 stopped by the gate: nothing was published.

${sections.join('\n\n')}

## Completion in the shell

\`sluice completion SHELL\` prints a script that completes commands, flags, the words a flag takes, file names and model references.

\`\`\`sh
source <(sluice completion bash)                                        # in ~/.bashrc
sluice completion zsh > "\${fpath[1]}/_sluice"                           # before compinit
sluice completion fish > ~/.config/fish/completions/sluice.fish
\`\`\`

Model references are those of \`sluice model list\`: $SLUICE_REGISTRY, else \`./models\`, and the bundled models. A shell asks for them once
for each registry.
`;
}

function commandSection(words: string, spec: CommandSpec): string {
  const table = commandTable(spec);
  const parts = [`## ${words}`, `${sentence(table.description)}`, `\`\`\`sh\n${usage(words, table)}\n\`\`\``];
  const examples = EXAMPLES[words];
  if (examples) parts.push(`Examples:\n\n\`\`\`sh\n${examples.map((line) => `sluice ${line}`).join('\n')}\n\`\`\``);
  if (table.arguments.length > 0) {
    const rows = table.arguments.map((a) => `| \`${a.name.replace(/^[<[](.*)[>\]]$/, '$1')}\` | ${a.description} |`);
    parts.push(['| argument | |', '| --- | --- |', ...rows].join('\n'));
  }
  if (table.flags.length > 0) parts.push(flagsTable(table));
  return parts.join('\n\n');
}

const sentence = (text: string): string => `${text[0]!.toUpperCase()}${text.slice(1)}.`;

function usage(words: string, table: CommandTable): string {
  const args = table.arguments.map((a) => ` ${a.name}`).join('');
  const required = table.flags.filter((f) => f.required).map((f) => ` --${f.name} <${f.value}>`);
  return `sluice ${words}${args}${required.join('')}${table.flags.length > required.length ? ' [options]' : ''}`;
}

/** The flags of a command as a Markdown table. */
export function flagsTable({ flags }: CommandTable): string {
  return [
    '| flag | value | required | default | |',
    '| --- | --- | --- | --- | --- |',
    ...flags.map((f) => {
      const name = `${f.short === undefined ? '' : `\`-${f.short}\`, `}\`--${f.name}\``;
      const value = f.default === undefined || f.many ? '' : `\`${f.default}\``;
      return `| ${name} | ${valueWords(f)} | ${f.required ? 'yes' : ''} | ${value} | ${f.description} |`;
    }),
  ].join('\n');
}

/** The table of one command, for a page of its own. */
export const flagsOf = (words: string): string => flagsTable(commandTable(COMMANDS[words]!));

function valueWords({ value, choices, number, many }: Flag): string {
  if (choices) return choices.map((c) => `\`${c}\``).join(', ');
  if (!number) return value === undefined ? '' : `${value}${many ? ', repeatable' : ''}`;
  const kind = number.whole ? 'whole number' : 'number';
  if (number.above !== undefined) return `${kind} above ${number.above}`;
  if (number.min === undefined) return kind;
  return number.max === undefined ? `${kind} from ${number.min}` : `${kind} from ${number.min} to ${number.max}`;
}
