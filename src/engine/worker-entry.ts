// The module that a scoring worker thread starts with.
import { serveJobs } from './worker.ts';

await serveJobs();
