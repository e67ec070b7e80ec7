// Flags of the commands that check outputs: `verify`, `replay`.
import { text, whole } from '../options/describe-option.ts';
import { type CommandSpecs, registryFlag, switchFlag } from './command-spec.ts';

const output = { name: 'output', description: 'an output that has a manifest beside it', complete: 'file' } as const;
const input = { schema: text('the input it was made of'), value: 'file', complete: 'file' } as const;
const modelPackage = {
  schema: text('folder of the package it was made with'),
  value: 'folder',
  complete: 'folder',
} as const;
const key = {
  schema: text('public key (PEM) of who has to have signed the manifest'),
  value: 'file',
  complete: 'file',
} as const;

export const PROOF_COMMANDS = {
  verify: {
    description:
      'check an output against its manifest: name changed blocks and, given --input and --package, the rows that changed',
    arguments: [output],
    flags: {
      input,
      list: {
        schema: text('its list of rejected rows', { otherwise: 'beside the output' }),
        value: 'file',
        complete: 'file',
      },
      package: modelPackage,
      registry: registryFlag,
      key,
      written_as: {
        schema: text('name under which the output was written, if it was renamed', {
          otherwise: 'the name that it has now',
        }),
        value: 'name',
      },
      json: switchFlag('print what was found as JSON'),
    },
  },
  replay: {
    description: 'score a row of an input again with the package its manifest names, and compare bits',
    arguments: [
      {
        name: 'output',
        description: 'an output that has a manifest beside it, or the pipeline (YAML) that wrote a table',
        complete: 'file',
      },
    ],
    flags: {
      row: { schema: whole('row, from 1', [1, 2 ** 31]), required: true },
      input: { ...input, schema: text('the input it was made of', { otherwise: 'beside the output' }) },
      package: modelPackage,
      registry: registryFlag,
      key,
      json: switchFlag('print both answers as JSON'),
    },
  },
} as const satisfies CommandSpecs;
