// Written by `npm run docs` from the schema in pipeline-schema.ts: apart from the checks, which flags do not need.
import type { Defaults } from './schema-defaults.ts';

type Ends<T> = Record<'source' | 'sink' | 'dead_letter', Record<string, T>>;

export const PIPELINE_DEFAULTS: { common: Defaults } & Ends<Defaults> = {
  common: [
      [["score"],{}],
      [["score","interpretation"],"none"],
      [["score","batch_rows"],1024],
      [["score","batch_wait_ms"],20],
      [["score","evaluator"],"auto"],
      [["score","record_bytes"],1048576],
      [["score","max_columns"],2000],
      [["checkpoint_every"],5],
      [["transaction_rows"],4096],
      [["commit_interval_ms"],20],
      [["transaction_timeout_ms"],10000],
      [["kafka"],{}],
      [["kafka","client_id"],"sluice"],
      [["kafka","sasl","token_endpoint","auth_method"],"client_secret_basic"],
      [["kafka","sasl","token_endpoint","timeout_ms"],10000],
      [["kafka","session_timeout_ms"],30000],
      [["kafka","connect_timeout_ms"],10000],
      [["kafka","request_timeout_ms"],30000],
      [["schema_registry","register"],true],
      [["schema_registry","subject"],"topic"],
      [["schema_registry","timeout_ms"],5000],
    ],
  source: {
    kafka: [
      [["format"],"json"],
      [["tombstones"],"reject"],
      [["start_at"],"earliest"],
      [["on_offset_lost"],"stop"],
      [["until_caught_up"],false],
      [["fetch_bytes"],524288],
      [["in_flight_bytes"],8388608],
    ],
    file: [],
    stdio: [
      [["format"],"csv"],
      [["compression"],"none"],
    ],
    postgres: [
      [["connect_timeout_ms"],10000],
      [["statement_timeout_ms"],3600000],
    ],
    upload: [
      [["format"],"csv"],
    ],
  },
  sink: {
    kafka: [
      [["format"],"json"],
      [["compression"],"none"],
      [["timestamp"],"input"],
    ],
    file: [
      [["roll_rows"],100000],
      [["roll_ms"],60000],
    ],
    stdio: [
      [["format"],"ndjson"],
      [["compression"],"none"],
    ],
    postgres: [
      [["connect_timeout_ms"],10000],
      [["statement_timeout_ms"],3600000],
      [["mode"],"append"],
    ],
  },
  dead_letter: {
    kafka: [
      [["retry","delay_ms"],300000],
      [["retry","attempts"],3],
    ],
    file: [],
    postgres: [],
  },
};
