// HEALTHCHECK of the image: whether the process behind it answers. In Kubernetes the kubelet asks itself.
import http from 'node:http';
import https from 'node:https';

const PATIENCE_MS = 4000;
const { SLUICE_HEALTH_URL } = process.env;
const urls = SLUICE_HEALTH_URL ? [SLUICE_HEALTH_URL] : ['https://127.0.0.1:8443/livez', 'http://127.0.0.1:9464/livez'];

/** Whether it says 200. What its certificate is does not matter: this is the same machine. */
const lives = (url) =>
  new Promise((resolve) => {
    const { get } = url.startsWith('https:') ? https : http;
    const request = get(url, { rejectUnauthorized: false, timeout: PATIENCE_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(false));
  });

const answers = await Promise.all(urls.map(lives));
process.exit(answers.includes(true) ? 0 : 1);
