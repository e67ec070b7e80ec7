// Triton's and KServe's own clients, independent implementations of the protocol, score through the service unchanged.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch } from '../../support/cli.ts';
import { pythonWith } from '../../support/python-environment.ts';
import { asNative, asObjects, predictUrl, startService } from '../../support/service.ts';
import { campaignTest } from '../../support/tiers.ts';

const CLIENT = `
import json, sys
import gevent.ssl, numpy as np, tritonclient.http as triton
address, key, file = sys.argv[1:]
rows = json.load(open(file))
client = triton.InferenceServerClient(address, ssl=True, insecure=True, ssl_context_factory=gevent.ssl._create_unverified_context)
headers = {"authorization": "API-Key " + key}
name = "credit-default"
told = [client.is_server_live(headers=headers), client.is_server_ready(headers=headers), client.is_model_ready(name, "1", headers=headers)]
metadata = client.get_model_metadata(name, headers=headers)
kinds = {"FP64": np.float64, "BOOL": bool, "BYTES": object}
inputs = []
for column in metadata["inputs"]:
    tensor = triton.InferInput(column["name"], [len(rows)], column["datatype"])
    tensor.set_data_from_numpy(np.array([row[column["name"]] for row in rows], dtype=kinds[column["datatype"]]), binary_data=False)
    inputs.append(tensor)
outputs = [triton.InferRequestedOutput(o["name"], binary_data=False) for o in metadata["outputs"]]
answer = client.infer(name, inputs, outputs=outputs, headers=headers, request_id="night")
try:
    client.infer(name, inputs + inputs[:1], outputs=outputs, headers=headers)
    refused = None
except triton.InferenceServerException as error:
    refused = [error.status(), error.message()]
text = lambda values: [v.decode() if isinstance(v, bytes) else v for v in values.tolist()]
print(json.dumps({"told": told, "id": answer.get_response()["id"], "refused": refused,
                  "outputs": {o["name"]: text(answer.as_numpy(o["name"])) for o in metadata["outputs"]}}))
`;

/** The same by KServe's client, which has no call for metadata. */
const KSERVE = `
import asyncio, json, sys
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
address, key, file = sys.argv[1:]
rows = json.load(open(file))
base, name = "https://" + address, "credit-default"
headers = {"authorization": "API-Key " + key}
client = InferenceRESTClient(RESTConfig(protocol="v2", verify=False, retries=0))
kinds = {"FP64": np.float64, "BOOL": bool, "BYTES": object}

def of(column):
    tensor = InferInput(column["name"], [len(rows)], column["datatype"])
    tensor.set_data_from_numpy(np.array([row[column["name"]] for row in rows], dtype=kinds[column["datatype"]]), binary_data=False)
    return tensor

async def main():
    told = [await client.is_server_live(base, headers=headers), await client.is_server_ready(base, headers=headers),
            await client.is_model_ready(base, name, headers=headers)]
    import httpx
    async with httpx.AsyncClient(verify=False) as plain:
        metadata = (await plain.get(f"{base}/v2/models/{name}", headers=headers)).json()
    inputs = [of(column) for column in metadata["inputs"]]
    answer = await client.infer(base, InferRequest(model_name=name, infer_inputs=inputs, request_id="night"), model_name=name, headers=headers)
    try:
        await client.infer(base, InferRequest(model_name=name, infer_inputs=inputs + inputs[:1]), model_name=name, headers=headers)
        refused = None
    except httpx.HTTPStatusError as error:
        refused = [str(error.response.status_code), error.response.text]
    text = lambda values: [v.decode() if isinstance(v, bytes) else v for v in values.tolist()]
    print(json.dumps({"told": told, "id": answer.id, "refused": refused,
                      "outputs": {o.name: text(o.as_numpy()) for o in answer.outputs}}))

asyncio.run(main())
`;

const CLIENTS = [
  ['Triton', CLIENT, 'requirements.txt'],
  ['KServe', KSERVE, 'requirements-kserve.txt'],
] as const;

for (const [whose, script, requirements] of CLIENTS) {
  campaignTest(`the client of ${whose} has the predictions of predict.json`, async () => {
    const found = await pythonWith(`test/support/open-inference/${requirements}`);
    if ('missing' in found) throw new Error(`needs ${found.missing}`);
    await scoresBy(found.python, script);
  });
}

async function scoresBy(python: string, script: string): Promise<void> {
  const service = await startService();
  const text = Buffer.concat([...generatePortfolio({ rows: 400, seed: 31, dirty: false })]).toString();
  // Its arrays have no missing values.
  const rows = asNative(asObjects(text)).filter((row) =>
    Object.values(row).every((value) => value !== null && value !== ''),
  );
  expect(rows.length).toBeGreaterThan(50);
  const file = path.join(scratch(), 'rows.json');
  writeFileSync(file, JSON.stringify(rows));
  const args = ['-c', script, `127.0.0.1:${service.port}`, service.token, file];
  const answer = JSON.parse((await promisify(execFile)(python, args)).stdout);
  expect([answer.told, answer.id]).toEqual([[true, true, true], 'night']);
  expect(answer.refused).toEqual(['400', expect.stringContaining('the name of an input is there twice')]);
  const { predictions } = (await service.call('POST', predictUrl('json'), { body: JSON.stringify(rows) })).json;
  for (const [name, data] of Object.entries(answer.outputs)) {
    expect(data, name).toEqual(predictions.map((p: Record<string, unknown>) => p[name]));
  }
}
