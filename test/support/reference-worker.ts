// A worker that decodes with csv-parse and JSON.parse: what the engine answers with it is what it must answer always.
import { serveJobs } from '../../src/engine/worker.ts';

await serveJobs((job) => {
  if (job.spec) job.spec.decoder = 'reference';
});
