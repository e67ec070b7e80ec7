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

/** What every client does, with tensors as JSON, as bytes, and with those of the model's own kinds as other datatypes. */
const COMMON = `
import json, sys
import numpy as np
address, key, file, binary = sys.argv[1:]
rows = json.load(open(file))
headers = {"authorization": "API-Key " + key}
name = "credit-default"
# Nothing is said where nothing has to be: the defaults of the client are under test.
binary = {} if binary == "default" else {"binary_data": False}
whole = lambda values: all(float(v).is_integer() for v in values)
kinds = {"BOOL": bool, "BYTES": object, "INT64": np.int64, "FP64": np.float64}

def column_of(column):
    values = [row[column["name"]] for row in rows]
    datatype = "INT64" if column["datatype"] == "FP64" and whole(values) else column["datatype"]
    return datatype, np.array(values, dtype=kinds[datatype])

text = lambda values: [v.decode() if isinstance(v, bytes) else v for v in values.tolist()]
`;

const TRITON = `${COMMON}
import gevent.ssl, tritonclient.http as triton
client = triton.InferenceServerClient(address, ssl=True, insecure=True, ssl_context_factory=gevent.ssl._create_unverified_context)
told = [client.is_server_live(headers=headers), client.is_server_ready(headers=headers), client.is_model_ready(name, "1", headers=headers)]
assert client.get_server_metadata(headers=headers)["extensions"] == ["binary_tensor_data"]
metadata = client.get_model_metadata(name, headers=headers)
inputs = []
for column in metadata["inputs"]:
    datatype, values = column_of(column)
    tensor = triton.InferInput(column["name"], [len(rows)], datatype)
    tensor.set_data_from_numpy(values, **binary)
    inputs.append(tensor)
outputs = None if not binary else [triton.InferRequestedOutput(o["name"], **binary) for o in metadata["outputs"]]
answer = client.infer(name, inputs, outputs=outputs, headers=headers, request_id="night")
try:
    client.infer(name, inputs + inputs[:1], outputs=outputs, headers=headers)
    refused = None
except triton.InferenceServerException as error:
    refused = [error.status(), error.message()]
print(json.dumps({"told": told, "id": answer.get_response()["id"], "refused": refused, "datatypes": sorted({i.datatype() for i in inputs}),
                  "binary": ["parameters" in o for o in answer.get_response()["outputs"]],
                  "outputs": {o["name"]: text(answer.as_numpy(o["name"])) for o in metadata["outputs"]}}))
`;

/** The same by KServe's client, which has no call for metadata, and asks for outputs as bytes only when it is told to. */
const KSERVE = `${COMMON}
import asyncio, httpx
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
base = "https://" + address
client = InferenceRESTClient(RESTConfig(protocol="v2", verify=False, retries=0))

def of(column):
    datatype, values = column_of(column)
    tensor = InferInput(column["name"], [len(rows)], datatype)
    tensor.set_data_from_numpy(values, **binary)
    return tensor

async def main():
    told = [await client.is_server_live(base, headers=headers), await client.is_server_ready(base, headers=headers),
            await client.is_model_ready(base, name, headers=headers)]
    async with httpx.AsyncClient(verify=False) as plain:
        metadata = (await plain.get(f"{base}/v2/models/{name}", headers=headers)).json()
    inputs = [of(column) for column in metadata["inputs"]]
    request = lambda given, **more: InferRequest(model_name=name, infer_inputs=given, request_id="night", **more)
    more = {} if binary else {"parameters": {"binary_data_output": True}}
    told_back = {}
    answer = await client.infer(base, request(inputs, **more), model_name=name, headers=dict(headers), response_headers=told_back)
    length = told_back.get("inference-header-content-length")
    try:
        await client.infer(base, request(inputs + inputs[:1]), model_name=name, headers=dict(headers))
        refused = None
    except httpx.HTTPStatusError as error:
        refused = [str(error.response.status_code), error.response.text]
    print(json.dumps({"told": told, "id": answer.id, "refused": refused, "datatypes": sorted({i.datatype for i in inputs}),
                      "binary": [length is not None for o in answer.outputs],
                      "outputs": {o.name: text(o.as_numpy()) for o in answer.outputs}}))

asyncio.run(main())
`;

/** MLServer's requests and codecs, which write tensors into JSON, and its batch client, which is one of Triton's. */
const MLSERVER = `${COMMON}
import asyncio, ssl, urllib.request, pathlib
import pandas as pd
from mlserver.codecs import NumpyCodec, PandasCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse
base, bare = "https://" + address, ssl._create_unverified_context()

def ask(path, body=None):
    more = {**headers, "content-type": "application/json"}
    request = urllib.request.Request(base + path, data=body, headers=more)
    try:
        with urllib.request.urlopen(request, context=bare) as reply:
            return 200, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)

told = [ask("/v2/health/live")[1]["live"], ask("/v2/health/ready")[1]["ready"], ask(f"/v2/models/{name}/ready")[1]["ready"]]
metadata = ask(f"/v2/models/{name}")[1]
if binary:
    frame = pd.DataFrame({c["name"]: column_of(c)[1] for c in metadata["inputs"]})
    request = PandasCodec.encode_request(frame)
    request.id = "night"
    reply = InferenceResponse.model_validate(ask(f"/v2/models/{name}/infer", request.model_dump_json().encode())[1])
else:
    def of(column):
        datatype, values = column_of(column)
        if datatype == "BYTES":
            return StringCodec.encode_input(column["name"], list(values), use_bytes=False)
        return NumpyCodec.encode_input(column["name"], values)
    request = InferenceRequest(id="night", inputs=[of(column) for column in metadata["inputs"]])
    from mlserver.batch_processing import process_batch
    folder = pathlib.Path(file).parent
    (folder / "in.ndjson").write_text(request.model_dump_json() + chr(10))
    asyncio.run(process_batch(model_name=name, url=address, workers=1, retries=1, batch_size=1, input_data_path=str(folder / "in.ndjson"),
        output_data_path=str(folder / "out.ndjson"), binary_data=True, transport="rest", request_headers=["authorization: API-Key " + key],
        timeout=180, batch_interval=0, batch_jitter=0, use_ssl=True, insecure=True, verbose=False, extra_verbose=False))
    line = (folder / "out.ndjson").read_text()
    reply = InferenceResponse.model_validate_json(line)
twice = request.model_copy(update={"inputs": request.inputs + request.inputs[:1]})
code, problem = ask(f"/v2/models/{name}/infer", twice.model_dump_json().encode())
sys.stdout = sys.__stdout__
print(chr(10) + json.dumps({"told": told, "id": reply.id, "refused": [str(code), problem["error"]], "datatypes": sorted({i.datatype for i in request.inputs}),
      "binary": None, "outputs": {o.name: [v.decode() if isinstance(v, bytes) else v for v in np.ravel(NumpyCodec.decode_output(o)).tolist()] for o in reply.outputs}}))
`;

const CLIENTS = [
  ['Triton', TRITON, 'requirements.txt'],
  ['KServe', KSERVE, 'requirements-kserve.txt'],
  ['MLServer', MLSERVER, 'requirements-mlserver.txt'],
] as const;

for (const [whose, script, requirements] of CLIENTS) {
  for (const binary of ['default', 'as JSON']) {
    const how = binary === 'default' ? 'as it is' : 'with tensors as JSON';
    campaignTest(`the client of ${whose} ${how} has the predictions of predict.json`, async () => {
      const found = await pythonWith(`test/support/open-inference/${requirements}`);
      if ('missing' in found) throw new Error(`needs ${found.missing}`);
      await scoresBy(found.python, script, binary);
    });
  }
}

async function scoresBy(python: string, script: string, binary: string): Promise<void> {
  const service = await startService();
  const text = Buffer.concat([...generatePortfolio({ rows: 400, seed: 31, oddness: 'none' })]).toString();
  // Its arrays have no missing values.
  const rows = asNative(asObjects(text)).filter((row) =>
    Object.values(row).every((value) => value !== null && value !== ''),
  );
  expect(rows.length).toBeGreaterThan(50);
  const file = path.join(scratch(), 'rows.json');
  writeFileSync(file, JSON.stringify(rows));
  const args = ['-c', script, `127.0.0.1:${service.port}`, service.token, file, binary];
  const { stdout } = await promisify(execFile)(python, args);
  const answer = JSON.parse(stdout.trim().split('\n').at(-1)!);
  expect([answer.told, answer.id]).toEqual([[true, true, true], 'night']);
  expect(answer.refused).toEqual(['400', expect.stringContaining('two inputs have the same name')]);
  const { predictions } = (await service.call('POST', predictUrl('json'), { body: JSON.stringify(rows) })).json;
  expect(answer.datatypes).toEqual(['BOOL', 'BYTES', 'FP64', 'INT64']);
  if (answer.binary) expect(answer.binary).toEqual(Array(4).fill(binary === 'default'));
  expect(Object.keys(answer.outputs)).toEqual(['prediction', 'probability', 'points', 'decision']);
  for (const [name, data] of Object.entries(answer.outputs)) {
    expect(data, name).toEqual(predictions.map((p: Record<string, unknown>) => p[name]));
  }
}
