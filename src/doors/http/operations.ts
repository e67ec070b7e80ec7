// Registers the operations of the API: predictions, models, jobs, uploads, health.
import type { FastifyInstance } from 'fastify';
import { SluiceError } from '../../core/errors.ts';
import type { KeptModels } from '../../engine/model-host.ts';
import { RunAccount } from '../../runs/account.ts';
import { measureCertificatesOf } from '../../runs/measure-ends.ts';
import type { AuditTrail } from './access/audit-trail.ts';
import { addJobRoutes } from './jobs/job-routes.ts';
import { openJobs } from './jobs/open-jobs.ts';
import { addUploadPipelines, readUploadPipelines } from './jobs/pipeline-routes.ts';
import { addUploadOptions, addUploadRoutes, jobIntake } from './jobs/upload-routes.ts';
import { collectRoutes } from './openapi/openapi.ts';
import { addModelRoutes } from './routes/model-routes.ts';
import { addOpenInference } from './routes/open-inference.ts';
import { addOperatorRoutes } from './routes/operator-routes.ts';
import { addPredictRoutes } from './routes/predict-routes.ts';
import { addServiceRoutes } from './routes/service-routes.ts';
import type { ServiceContext } from './wire/scoring-request.ts';

export interface ServerState {
  /** If false, /readyz returns 503 and new predict requests are rejected. */
  ready: boolean;
  /** Models to keep loaded. /readyz returns 503 until all of them are loaded; a request waits for its model. */
  kept: Pick<KeptModels, 'ready'>;
}

interface Operations extends Pick<ServiceContext, 'config' | 'host' | 'admission' | 'metrics' | 'log' | 'tracer'> {
  audit: AuditTrail | null;
  state: ServerState;
}

export async function addOperations(app: FastifyInstance, { audit, state, ...of }: Operations): Promise<void> {
  const { config, host, admission, metrics, log, tracer } = of;
  const ready = (): boolean => state.ready;
  const document = collectRoutes(app);
  const methods = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    const known = methods.get(url) ?? new Set();
    for (const m of [method].flat()) known.add(m);
    methods.set(url, known);
  });
  const account = new RunAccount(metrics, 'http');
  const jobLog = audit?.ofJobs(log) ?? log;
  const services: ServiceContext = { config, host, admission, metrics, log: jobLog, tracer, account };
  const pipelines = await readUploadPipelines(config.pipelines);
  measureCertificatesOf(
    pipelines.map(({ spec }) => spec),
    metrics,
  );
  const jobs = await openJobs(services, pipelines);
  app.addHook('onClose', () => jobs.close());
  const mostBytes = config.limits.body_bytes;
  const uploadUrls = addPredictRoutes(app, { services, jobs: jobIntake(jobs, ready), ready });
  for (const url of uploadUrls) addUploadOptions(app, { url, mostBytes });
  addModelRoutes(app, services);
  addJobRoutes(app, jobs, config.compression.level);
  addUploadRoutes(app, { jobs, mostBytes, ready });
  addUploadPipelines(app, { services, jobs, pipelines, ready });
  addOperatorRoutes(app, { config, host, uploads: pipelines });
  const canAnswer = () => state.ready && state.kept.ready && (audit?.ready ?? true);
  addServiceRoutes(app, { services, ready: canAnswer, jobsReachable: () => jobs.reachable, document });
  addOpenInference(app, { services, ready: canAnswer });
  refuseOtherMethods(app, methods);
}

/** For a known path with another method, returns 405 with the allowed methods instead of 404. */
function refuseOtherMethods(app: FastifyInstance, methods: ReadonlyMap<string, ReadonlySet<string>>): void {
  for (const method of ['TRACE', 'QUERY']) app.addHttpMethod(method, { overrideExisting: true });
  const all = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'QUERY'];
  for (const [url, allowed] of [...methods]) {
    const allow = [...allowed].join(', ');
    app.route({
      url,
      method: all.filter((m) => !allowed.has(m)),
      schema: { hide: true },
      handler: async (_request, reply) => {
        reply.header('allow', allow);
        throw new SluiceError('method_not_allowed', `the path supports ${allow}`);
      },
    });
  }
}
