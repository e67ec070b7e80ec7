// Registers the routes for operators: the caller, recorded runs, state of pipelines.
import type { FastifyInstance } from 'fastify';
import type { ServerConfig } from '../../../config/server-config.ts';
import { addCallerRoutes } from './caller-routes.ts';
import { addPipelineStates, type UploadEntry } from './pipeline-states.ts';
import { addRunRoutes } from './run-routes.ts';

/** `uploads`: pipelines that this service receives uploads for. */
export function addOperatorRoutes(
  app: FastifyInstance,
  { config, uploads }: { config: ServerConfig; uploads: readonly UploadEntry[] },
): void {
  addCallerRoutes(app, config);
  addRunRoutes(app, config.run_records);
  addPipelineStates(app, { members: config.pipeline_members, uploads });
}
