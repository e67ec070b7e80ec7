// Registers the routes for operators: caller, recorded runs, state of pipelines, report cards, console.
import type { FastifyInstance } from 'fastify';
import type { ServerConfig } from '../../../config/server-config.ts';
import type { ModelHost } from '../../../engine/model-host.ts';
import { addCallerRoutes } from './caller-routes.ts';
import { addConsoleRoutes } from './console-routes.ts';
import { addPipelineStates, type UploadEntry } from './pipeline-states.ts';
import { addReportCardRoutes } from './report-card-routes.ts';
import { addRunRoutes } from './run-routes.ts';

/** `uploads`: the pipelines for which this service receives uploads. */
export function addOperatorRoutes(
  app: FastifyInstance,
  { config, host, uploads }: { config: ServerConfig; host: ModelHost; uploads: readonly UploadEntry[] },
): void {
  addCallerRoutes(app, config);
  addRunRoutes(app, config.run_records);
  addReportCardRoutes(app, host);
  addConsoleRoutes(app, config);
  addPipelineStates(app, { members: config.pipeline_members, uploads });
}
