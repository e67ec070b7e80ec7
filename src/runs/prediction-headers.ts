// What a prediction in a topic says of where it is from: the package that made it, and the record it answers.
import type { IncomingRecord } from '../kafka/client/records.ts';
import type { ModelPackage } from '../model/package/model-package.ts';

/** Headers that are the same for all predictions of one model and partition, made once for those that follow each other. */
export function marksBy({ manifest, sha256 }: ModelPackage): (record: IncomingRecord) => Record<string, Buffer> {
  let last: { topic: string; partition: number; marks: Record<string, Buffer> } | null = null;
  return ({ topic, partition }) => {
    if (last?.partition === partition && last.topic === topic) return last.marks;
    const marks = {
      'sluice-model-id': Buffer.from(manifest.id),
      'sluice-model-version': Buffer.from(String(manifest.version)),
      'sluice-model-sha256': Buffer.from(manifest.onnx.sha256),
      'sluice-package-sha256': Buffer.from(sha256),
      'sluice-source-topic': Buffer.from(topic),
      'sluice-source-partition': Buffer.from(String(partition)),
    };
    last = { topic, partition, marks };
    return marks;
  };
}
