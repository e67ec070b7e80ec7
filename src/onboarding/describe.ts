// What a caller needs to know about a model: columns, the values they take, versions, aliases and an example application.

import { sampleApplication } from '../inference/encode/sample-row.ts';
import type { ModelPackage } from '../model/package/model-package.ts';

export function describeModel(model: ModelPackage, versions: string[], aliases: Record<string, string>) {
  const { manifest } = model;
  return {
    id: manifest.id,
    version: String(manifest.version),
    task: manifest.task,
    ...(manifest.description ? { description: manifest.description } : {}),
    sha256: manifest.onnx.sha256,
    package_sha256: model.sha256,
    ...(manifest.classes ? { classes: manifest.classes } : {}),
    ...(manifest.positive_class === undefined ? {} : { positive_class: manifest.positive_class }),
    columns: manifest.columns.map((c) => {
      const values = c.values ?? (c.codes ? Object.keys(c.codes) : undefined);
      return {
        name: c.name,
        kind: c.kind,
        ...(values ? { values } : {}),
        ...(c.range ? { range: c.range } : {}),
        required: c.missing?.as === 'error',
      };
    }),
    versions,
    aliases,
    sample: sampleApplication(manifest),
  };
}
