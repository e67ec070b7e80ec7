// Describes a model for callers: columns with their values, versions, aliases and an example application.
import { type ColumnReader, columnReaders } from '../inference/encode/column-reader.ts';
import { sampleApplication } from '../inference/encode/encode-rows.ts';
import { versionOf } from '../model/package/load-package.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { ModelEntry } from '../model/registry/registry.ts';

export function describeModel(model: ModelPackage, entry: ModelEntry | undefined) {
  const { manifest } = model;
  const version = versionOf(manifest);
  const { versions = [version], aliases = {}, states = {} } = entry ?? {};
  const readers = columnReaders(manifest);
  return {
    id: manifest.id,
    version,
    state: states[version] ?? 'proposed',
    task: manifest.task,
    ...(manifest.description ? { description: manifest.description } : {}),
    sha256: manifest.onnx.sha256,
    package_sha256: model.sha256,
    ...(manifest.classes ? { classes: manifest.classes } : {}),
    ...(manifest.positive_class === undefined ? {} : { positive_class: manifest.positive_class }),
    columns: manifest.columns.map((c, i) => {
      const values = c.values ?? (c.codes ? Object.keys(c.codes) : undefined);
      return {
        name: c.name,
        kind: c.kind,
        ...(values ? { values } : {}),
        ...(c.range ? { range: c.range } : {}),
        required: c.missing?.as === 'error',
        accepts: acceptedTypes(readers[i]!),
      };
    }),
    versions,
    aliases,
    states,
    sample: sampleApplication(manifest),
  };
}

/** The JSON types that represent every value of a column without loss. A number would lose the leading zero of 0230. */
const acceptedTypes = ({ takesNumbers, takesBooleans }: ColumnReader): string[] => [
  'string',
  ...(takesNumbers ? ['number'] : []),
  ...(takesBooleans ? ['boolean'] : []),
];

export type ModelDescription = ReturnType<typeof describeModel>;

/** Adds the registry's entry of the model to the description of a package. */
export function withEntry(description: ModelDescription, entry: ModelEntry | undefined): ModelDescription {
  if (!entry) return description;
  const { versions, aliases, states } = entry;
  return { ...description, state: states[description.version] ?? description.state, versions, aliases, states };
}
