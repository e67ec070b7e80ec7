// Compares the names in a pipeline with its model: declared columns, decisions of routes, and columns of the gate.

import { isEndless } from '../../connectors/connectors.ts';
import { asSluiceError } from '../../core/errors.ts';
import { checkDeclaration } from '../../formats/declared-parts.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import { gateFaults } from '../gate.ts';
import { declaredBy, echoOf } from '../spec.ts';
import { checkRoutes } from '../topics/topic-routes.ts';

/** Messages about names that the model does not have. A run rejects the same names. */
export function modelMisfits(pipeline: Pipeline, model: ModelPackage): string[] {
  const { source, sink, score, gate } = pipeline;
  const declared = declaredBy(source);
  const passthrough = score.passthrough ?? (isEndless(source) ? '*' : echoOf(sink));
  const declaration = declared && messageOf(() => checkDeclaration(declared, model.manifest, passthrough));
  const routes = messageOf(() => checkRoutes(sink, model));
  return [
    ...(declaration ? [`source: ${declaration.replaceAll('\n', '; ')}`] : []),
    ...(routes ? [routes] : []),
    ...(gate ? gateFaults(gate, model.manifest) : []),
  ];
}

/** The message of the error that `check` throws; null if it throws none. */
function messageOf(check: () => void): string | null {
  try {
    check();
    return null;
  } catch (error) {
    return asSluiceError(error, 'usage').message;
  }
}
