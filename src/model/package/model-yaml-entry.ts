// The thread that runs `readModelYaml`.
import { parentPort, workerData } from 'node:worker_threads';
import { type ModelYamlText, readModelYamlHere } from './read-model-yaml.ts';

parentPort!.postMessage(await readModelYamlHere(workerData as ModelYamlText));
