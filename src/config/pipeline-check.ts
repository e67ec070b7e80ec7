// Written by `npm run docs` from the schema in pipeline-schema.ts: the common part, then each end by its type.
// @ts-nocheck: typebox writes JavaScript.
import { Guard } from 'typebox/guard';
import type { Defaults } from './schema-defaults.ts';

type Ends<T> = Record<'source' | 'sink' | 'dead_letter', Record<string, T>>;

export const PIPELINE_CHECKS: { common: (value: unknown) => boolean } & Ends<(value: unknown) => boolean> = {
  common: (() => {
    const External = [
      /(^model$|^source$|^score$|^sink$|^dead_letter$|^on_invalid$|^delivery$|^transaction_rows$|^transaction_timeout_ms$|^kafka$|^schema_registry$)/u,
      /(^interpretation$|^interpret_below$|^top_effects$|^passthrough$|^batch_rows$|^batch_wait_ms$|^workers$|^evaluator$|^record_bytes$)/u,
      /(^brokers$|^client_id$|^rack$|^tls$|^sasl$|^session_timeout_ms$|^connect_timeout_ms$|^request_timeout_ms$)/u,
      /(^ca_file$|^certificate_file$|^key_file$|^key_passphrase$|^server_name$)/u,
      /(^url$|^username$|^password$|^timeout_ms$)/u,
    ];
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && (((("model" in value && "source" in value) && "sink" in value) && Object.getOwnPropertyNames(value).every((unique_0, unique_1) => ((External[0].test(unique_0) || false)))) && (((((((((((typeof value.model === "string" && (value.model.length >= 2 || (value.model.length >= 1 && Guard.CodePointCount(value.model) >= 1))) && ((typeof value.source === "object" && value.source !== null && !(Array.isArray(value.source))) && (("type" in value.source && true) && (((value.source.type === "kafka" || value.source.type === "file") || value.source.type === "stdio") || value.source.type === "upload")))) && (value.score === undefined || (!("score" in value) || ((typeof value.score === "object" && value.score !== null && !(Array.isArray(value.score))) && ((true && Object.getOwnPropertyNames(value.score).every((unique_2, unique_3) => ((External[1].test(unique_2) || false)))) && (((((((((value.score.interpretation === undefined || (!("interpretation" in value.score) || ((value.score.interpretation === "none" || value.score.interpretation === "effects") || value.score.interpretation === "reasons"))) && (value.score.interpret_below === undefined || (!("interpret_below" in value.score) || Number.isFinite(value.score.interpret_below)))) && (value.score.top_effects === undefined || (!("top_effects" in value.score) || (Number.isInteger(value.score.top_effects) && (!((Number.isFinite(value.score.top_effects) || typeof value.score.top_effects === "bigint")) || (value.score.top_effects >= 1 && value.score.top_effects <= 2000)))))) && (value.score.passthrough === undefined || (!("passthrough" in value.score) || ((Array.isArray(value.score.passthrough) && value.score.passthrough.every((unique_4, index) => (typeof unique_4 === "string"))) || value.score.passthrough === "*")))) && (value.score.batch_rows === undefined || (!("batch_rows" in value.score) || (Number.isInteger(value.score.batch_rows) && (!((Number.isFinite(value.score.batch_rows) || typeof value.score.batch_rows === "bigint")) || (value.score.batch_rows >= 1 && value.score.batch_rows <= 65536)))))) && (value.score.batch_wait_ms === undefined || (!("batch_wait_ms" in value.score) || (Number.isInteger(value.score.batch_wait_ms) && (!((Number.isFinite(value.score.batch_wait_ms) || typeof value.score.batch_wait_ms === "bigint")) || value.score.batch_wait_ms >= 0))))) && (value.score.workers === undefined || (!("workers" in value.score) || (Number.isInteger(value.score.workers) && (!((Number.isFinite(value.score.workers) || typeof value.score.workers === "bigint")) || (value.score.workers >= 1 && value.score.workers <= 256)))))) && (value.score.evaluator === undefined || (!("evaluator" in value.score) || ((value.score.evaluator === "auto" || value.score.evaluator === "onnxruntime") || value.score.evaluator === "native")))) && (value.score.record_bytes === undefined || (!("record_bytes" in value.score) || (Number.isInteger(value.score.record_bytes) && (!((Number.isFinite(value.score.record_bytes) || typeof value.score.record_bytes === "bigint")) || (value.score.record_bytes >= 16 && value.score.record_bytes <= 67108864))))))))))) && ((typeof value.sink === "object" && value.sink !== null && !(Array.isArray(value.sink))) && (("type" in value.sink && true) && ((value.sink.type === "kafka" || value.sink.type === "file") || value.sink.type === "stdio")))) && (value.dead_letter === undefined || (!("dead_letter" in value) || ((typeof value.dead_letter === "object" && value.dead_letter !== null && !(Array.isArray(value.dead_letter))) && (("type" in value.dead_letter && true) && (value.dead_letter.type === "kafka" || value.dead_letter.type === "file")))))) && (value.on_invalid === undefined || (!("on_invalid" in value) || ((value.on_invalid === "dead_letter" || value.on_invalid === "report") || value.on_invalid === "fail")))) && (value.delivery === undefined || (!("delivery" in value) || (value.delivery === "exactly_once" || value.delivery === "at_least_once")))) && (value.transaction_rows === undefined || (!("transaction_rows" in value) || (Number.isInteger(value.transaction_rows) && (!((Number.isFinite(value.transaction_rows) || typeof value.transaction_rows === "bigint")) || value.transaction_rows >= 1))))) && (value.transaction_timeout_ms === undefined || (!("transaction_timeout_ms" in value) || (Number.isInteger(value.transaction_timeout_ms) && (!((Number.isFinite(value.transaction_timeout_ms) || typeof value.transaction_timeout_ms === "bigint")) || value.transaction_timeout_ms >= 1))))) && (value.kafka === undefined || (!("kafka" in value) || ((typeof value.kafka === "object" && value.kafka !== null && !(Array.isArray(value.kafka))) && ((true && Object.getOwnPropertyNames(value.kafka).every((unique_5, unique_6) => ((External[2].test(unique_5) || false)))) && ((((((((value.kafka.brokers === undefined || (!("brokers" in value.kafka) || (Array.isArray(value.kafka.brokers) && (value.kafka.brokers.every((unique_7, index) => ((typeof unique_7 === "string" && (unique_7.length >= 2 || (unique_7.length >= 1 && Guard.CodePointCount(unique_7) >= 1))))) && value.kafka.brokers.length >= 1)))) && (value.kafka.client_id === undefined || (!("client_id" in value.kafka) || typeof value.kafka.client_id === "string"))) && (value.kafka.rack === undefined || (!("rack" in value.kafka) || (typeof value.kafka.rack === "string" && (value.kafka.rack.length >= 2 || (value.kafka.rack.length >= 1 && Guard.CodePointCount(value.kafka.rack) >= 1)))))) && (value.kafka.tls === undefined || (!("tls" in value.kafka) || (typeof value.kafka.tls === "boolean" || ((typeof value.kafka.tls === "object" && value.kafka.tls !== null && !(Array.isArray(value.kafka.tls))) && (Object.getOwnPropertyNames(value.kafka.tls).every((unique_8, unique_9) => ((External[3].test(unique_8) || false))) && (((((value.kafka.tls.ca_file === undefined || (!("ca_file" in value.kafka.tls) || (typeof value.kafka.tls.ca_file === "string" && (value.kafka.tls.ca_file.length >= 2 || (value.kafka.tls.ca_file.length >= 1 && Guard.CodePointCount(value.kafka.tls.ca_file) >= 1))))) && (value.kafka.tls.certificate_file === undefined || (!("certificate_file" in value.kafka.tls) || (typeof value.kafka.tls.certificate_file === "string" && (value.kafka.tls.certificate_file.length >= 2 || (value.kafka.tls.certificate_file.length >= 1 && Guard.CodePointCount(value.kafka.tls.certificate_file) >= 1)))))) && (value.kafka.tls.key_file === undefined || (!("key_file" in value.kafka.tls) || (typeof value.kafka.tls.key_file === "string" && (value.kafka.tls.key_file.length >= 2 || (value.kafka.tls.key_file.length >= 1 && Guard.CodePointCount(value.kafka.tls.key_file) >= 1)))))) && (value.kafka.tls.key_passphrase === undefined || (!("key_passphrase" in value.kafka.tls) || (((typeof value.kafka.tls.key_passphrase === "object" && value.kafka.tls.key_passphrase !== null && !(Array.isArray(value.kafka.tls.key_passphrase))) && (("file" in value.kafka.tls.key_passphrase && Object.getOwnPropertyNames(value.kafka.tls.key_passphrase).length === 1) && (typeof value.kafka.tls.key_passphrase.file === "string" && (value.kafka.tls.key_passphrase.file.length >= 2 || (value.kafka.tls.key_passphrase.file.length >= 1 && Guard.CodePointCount(value.kafka.tls.key_passphrase.file) >= 1))))) || ((typeof value.kafka.tls.key_passphrase === "object" && value.kafka.tls.key_passphrase !== null && !(Array.isArray(value.kafka.tls.key_passphrase))) && (("env" in value.kafka.tls.key_passphrase && Object.getOwnPropertyNames(value.kafka.tls.key_passphrase).length === 1) && (typeof value.kafka.tls.key_passphrase.env === "string" && (value.kafka.tls.key_passphrase.env.length >= 2 || (value.kafka.tls.key_passphrase.env.length >= 1 && Guard.CodePointCount(value.kafka.tls.key_passphrase.env) >= 1))))))))) && (value.kafka.tls.server_name === undefined || (!("server_name" in value.kafka.tls) || (typeof value.kafka.tls.server_name === "string" && (value.kafka.tls.server_name.length >= 2 || (value.kafka.tls.server_name.length >= 1 && Guard.CodePointCount(value.kafka.tls.server_name) >= 1)))))))))))) && (value.kafka.sasl === undefined || (!("sasl" in value.kafka) || ((typeof value.kafka.sasl === "object" && value.kafka.sasl !== null && !(Array.isArray(value.kafka.sasl))) && (((("mechanism" in value.kafka.sasl && "username" in value.kafka.sasl) && "password" in value.kafka.sasl) && Object.getOwnPropertyNames(value.kafka.sasl).length === 3) && ((((value.kafka.sasl.mechanism === "plain" || value.kafka.sasl.mechanism === "scram-sha-256") || value.kafka.sasl.mechanism === "scram-sha-512") && (typeof value.kafka.sasl.username === "string" && (value.kafka.sasl.username.length >= 2 || (value.kafka.sasl.username.length >= 1 && Guard.CodePointCount(value.kafka.sasl.username) >= 1)))) && (((typeof value.kafka.sasl.password === "object" && value.kafka.sasl.password !== null && !(Array.isArray(value.kafka.sasl.password))) && (("file" in value.kafka.sasl.password && Object.getOwnPropertyNames(value.kafka.sasl.password).length === 1) && (typeof value.kafka.sasl.password.file === "string" && (value.kafka.sasl.password.file.length >= 2 || (value.kafka.sasl.password.file.length >= 1 && Guard.CodePointCount(value.kafka.sasl.password.file) >= 1))))) || ((typeof value.kafka.sasl.password === "object" && value.kafka.sasl.password !== null && !(Array.isArray(value.kafka.sasl.password))) && (("env" in value.kafka.sasl.password && Object.getOwnPropertyNames(value.kafka.sasl.password).length === 1) && (typeof value.kafka.sasl.password.env === "string" && (value.kafka.sasl.password.env.length >= 2 || (value.kafka.sasl.password.env.length >= 1 && Guard.CodePointCount(value.kafka.sasl.password.env) >= 1)))))))))))) && (value.kafka.session_timeout_ms === undefined || (!("session_timeout_ms" in value.kafka) || (Number.isInteger(value.kafka.session_timeout_ms) && (!((Number.isFinite(value.kafka.session_timeout_ms) || typeof value.kafka.session_timeout_ms === "bigint")) || value.kafka.session_timeout_ms >= 1000))))) && (value.kafka.connect_timeout_ms === undefined || (!("connect_timeout_ms" in value.kafka) || (Number.isInteger(value.kafka.connect_timeout_ms) && (!((Number.isFinite(value.kafka.connect_timeout_ms) || typeof value.kafka.connect_timeout_ms === "bigint")) || value.kafka.connect_timeout_ms >= 1))))) && (value.kafka.request_timeout_ms === undefined || (!("request_timeout_ms" in value.kafka) || (Number.isInteger(value.kafka.request_timeout_ms) && (!((Number.isFinite(value.kafka.request_timeout_ms) || typeof value.kafka.request_timeout_ms === "bigint")) || value.kafka.request_timeout_ms >= 1)))))))))) && (value.schema_registry === undefined || (!("schema_registry" in value) || ((typeof value.schema_registry === "object" && value.schema_registry !== null && !(Array.isArray(value.schema_registry))) && (("url" in value.schema_registry && Object.getOwnPropertyNames(value.schema_registry).every((unique_10, unique_11) => ((External[4].test(unique_10) || false)))) && ((((typeof value.schema_registry.url === "string" && (value.schema_registry.url.length >= 2 || (value.schema_registry.url.length >= 1 && Guard.CodePointCount(value.schema_registry.url) >= 1))) && (value.schema_registry.username === undefined || (!("username" in value.schema_registry) || (typeof value.schema_registry.username === "string" && (value.schema_registry.username.length >= 2 || (value.schema_registry.username.length >= 1 && Guard.CodePointCount(value.schema_registry.username) >= 1)))))) && (value.schema_registry.password === undefined || (!("password" in value.schema_registry) || (((typeof value.schema_registry.password === "object" && value.schema_registry.password !== null && !(Array.isArray(value.schema_registry.password))) && (("file" in value.schema_registry.password && Object.getOwnPropertyNames(value.schema_registry.password).length === 1) && (typeof value.schema_registry.password.file === "string" && (value.schema_registry.password.file.length >= 2 || (value.schema_registry.password.file.length >= 1 && Guard.CodePointCount(value.schema_registry.password.file) >= 1))))) || ((typeof value.schema_registry.password === "object" && value.schema_registry.password !== null && !(Array.isArray(value.schema_registry.password))) && (("env" in value.schema_registry.password && Object.getOwnPropertyNames(value.schema_registry.password).length === 1) && (typeof value.schema_registry.password.env === "string" && (value.schema_registry.password.env.length >= 2 || (value.schema_registry.password.env.length >= 1 && Guard.CodePointCount(value.schema_registry.password.env) >= 1))))))))) && (value.schema_registry.timeout_ms === undefined || (!("timeout_ms" in value.schema_registry) || (Number.isInteger(value.schema_registry.timeout_ms) && (!((Number.isFinite(value.schema_registry.timeout_ms) || typeof value.schema_registry.timeout_ms === "bigint")) || value.schema_registry.timeout_ms >= 1)))))))))))));
    return (value) => { return check_0(value) }
  })(),
  source: {
    kafka: (() => {
    const External = [
      /(^type$|^topic$|^group$|^format$|^start_at$|^on_offset_lost$|^until_caught_up$|^fetch_bytes$|^in_flight_bytes$)/u,
    ];
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && (((("type" in value && "topic" in value) && "group" in value) && Object.getOwnPropertyNames(value).every((unique_0, unique_1) => ((External[0].test(unique_0) || false)))) && ((((((((value.type === "kafka" && (typeof value.topic === "string" && (value.topic.length >= 2 || (value.topic.length >= 1 && Guard.CodePointCount(value.topic) >= 1)))) && (typeof value.group === "string" && (value.group.length >= 2 || (value.group.length >= 1 && Guard.CodePointCount(value.group) >= 1)))) && (value.format === undefined || (!("format" in value) || (value.format === "json" || value.format === "avro")))) && (value.start_at === undefined || (!("start_at" in value) || (value.start_at === "earliest" || value.start_at === "latest")))) && (value.on_offset_lost === undefined || (!("on_offset_lost" in value) || ((value.on_offset_lost === "stop" || value.on_offset_lost === "earliest") || value.on_offset_lost === "latest")))) && (value.until_caught_up === undefined || (!("until_caught_up" in value) || typeof value.until_caught_up === "boolean"))) && (value.fetch_bytes === undefined || (!("fetch_bytes" in value) || (Number.isInteger(value.fetch_bytes) && (!((Number.isFinite(value.fetch_bytes) || typeof value.fetch_bytes === "bigint")) || value.fetch_bytes >= 1))))) && (value.in_flight_bytes === undefined || (!("in_flight_bytes" in value) || (Number.isInteger(value.in_flight_bytes) && (!((Number.isFinite(value.in_flight_bytes) || typeof value.in_flight_bytes === "bigint")) || value.in_flight_bytes >= 1))))))));
    return (value) => { return check_0(value) }
  })(),
    file: (() => {
    const External = [
      /(^type$|^path$|^format$|^compression$|^delimiter$)/u,
    ];
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && ((("type" in value && "path" in value) && Object.getOwnPropertyNames(value).every((unique_0, unique_1) => ((External[0].test(unique_0) || false)))) && ((((value.type === "file" && (typeof value.path === "string" && (value.path.length >= 2 || (value.path.length >= 1 && Guard.CodePointCount(value.path) >= 1)))) && (value.format === undefined || (!("format" in value) || ((((value.format === "csv" || value.format === "tsv") || value.format === "ndjson") || value.format === "json") || value.format === "parquet")))) && (value.compression === undefined || (!("compression" in value) || ((value.compression === "none" || value.compression === "gzip") || value.compression === "zstd")))) && (value.delimiter === undefined || (!("delimiter" in value) || (((value.delimiter === "tab" || value.delimiter === "comma") || value.delimiter === "semicolon") || value.delimiter === "pipe")))))));
    return (value) => { return check_0(value) }
  })(),
    stdio: (() => {
    const External = [
      /(^type$|^format$|^compression$|^delimiter$)/u,
    ];
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && (("type" in value && Object.getOwnPropertyNames(value).every((unique_0, unique_1) => ((External[0].test(unique_0) || false)))) && (((value.type === "stdio" && (value.format === undefined || (!("format" in value) || (((value.format === "csv" || value.format === "tsv") || value.format === "ndjson") || value.format === "json")))) && (value.compression === undefined || (!("compression" in value) || ((value.compression === "none" || value.compression === "gzip") || value.compression === "zstd")))) && (value.delimiter === undefined || (!("delimiter" in value) || (((value.delimiter === "tab" || value.delimiter === "comma") || value.delimiter === "semicolon") || value.delimiter === "pipe")))))));
    return (value) => { return check_0(value) }
  })(),
    upload: (() => {
    const External = [
      /(^type$|^format$|^delimiter$)/u,
    ];
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && (("type" in value && Object.getOwnPropertyNames(value).every((unique_0, unique_1) => ((External[0].test(unique_0) || false)))) && ((value.type === "upload" && (value.format === undefined || (!("format" in value) || (((value.format === "csv" || value.format === "tsv") || value.format === "ndjson") || value.format === "json")))) && (value.delimiter === undefined || (!("delimiter" in value) || (((value.delimiter === "tab" || value.delimiter === "comma") || value.delimiter === "semicolon") || value.delimiter === "pipe")))))));
    return (value) => { return check_0(value) }
  })(),
  },
  sink: {
    kafka: (() => {
    const External = [
      /(^type$|^topic$|^format$|^compression$|^timestamp$|^key$)/u,
    ];
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && ((("type" in value && "topic" in value) && Object.getOwnPropertyNames(value).every((unique_0, unique_1) => ((External[0].test(unique_0) || false)))) && (((((value.type === "kafka" && (typeof value.topic === "string" && (value.topic.length >= 2 || (value.topic.length >= 1 && Guard.CodePointCount(value.topic) >= 1)))) && (value.format === undefined || (!("format" in value) || (value.format === "json" || value.format === "avro")))) && (value.compression === undefined || (!("compression" in value) || ((((value.compression === "none" || value.compression === "gzip") || value.compression === "snappy") || value.compression === "lz4") || value.compression === "zstd")))) && (value.timestamp === undefined || (!("timestamp" in value) || (value.timestamp === "input" || value.timestamp === "now")))) && (value.key === undefined || (!("key" in value) || (typeof value.key === "string" && (value.key.length >= 2 || (value.key.length >= 1 && Guard.CodePointCount(value.key) >= 1)))))))));
    return (value) => { return check_0(value) }
  })(),
    file: (() => {
    const External = [
      /(^type$|^path$|^format$|^compression$|^delimiter$|^roll_rows$|^roll_ms$)/u,
    ];
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && ((("type" in value && "path" in value) && Object.getOwnPropertyNames(value).every((unique_0, unique_1) => ((External[0].test(unique_0) || false)))) && ((((((value.type === "file" && (typeof value.path === "string" && (value.path.length >= 2 || (value.path.length >= 1 && Guard.CodePointCount(value.path) >= 1)))) && (value.format === undefined || (!("format" in value) || ((((value.format === "csv" || value.format === "tsv") || value.format === "ndjson") || value.format === "json") || value.format === "parquet")))) && (value.compression === undefined || (!("compression" in value) || ((value.compression === "none" || value.compression === "gzip") || value.compression === "zstd")))) && (value.delimiter === undefined || (!("delimiter" in value) || (((value.delimiter === "tab" || value.delimiter === "comma") || value.delimiter === "semicolon") || value.delimiter === "pipe")))) && (value.roll_rows === undefined || (!("roll_rows" in value) || (Number.isInteger(value.roll_rows) && (!((Number.isFinite(value.roll_rows) || typeof value.roll_rows === "bigint")) || value.roll_rows >= 1))))) && (value.roll_ms === undefined || (!("roll_ms" in value) || (Number.isInteger(value.roll_ms) && (!((Number.isFinite(value.roll_ms) || typeof value.roll_ms === "bigint")) || value.roll_ms >= 1))))))));
    return (value) => { return check_0(value) }
  })(),
    stdio: (() => {
    const External = [
      /(^type$|^format$|^compression$|^delimiter$)/u,
    ];
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && (("type" in value && Object.getOwnPropertyNames(value).every((unique_0, unique_1) => ((External[0].test(unique_0) || false)))) && (((value.type === "stdio" && (value.format === undefined || (!("format" in value) || (((value.format === "csv" || value.format === "tsv") || value.format === "ndjson") || value.format === "json")))) && (value.compression === undefined || (!("compression" in value) || ((value.compression === "none" || value.compression === "gzip") || value.compression === "zstd")))) && (value.delimiter === undefined || (!("delimiter" in value) || (((value.delimiter === "tab" || value.delimiter === "comma") || value.delimiter === "semicolon") || value.delimiter === "pipe")))))));
    return (value) => { return check_0(value) }
  })(),
  },
  dead_letter: {
    kafka: (() => {
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && ((("type" in value && "topic" in value) && Object.getOwnPropertyNames(value).length === 2) && (value.type === "kafka" && (typeof value.topic === "string" && (value.topic.length >= 2 || (value.topic.length >= 1 && Guard.CodePointCount(value.topic) >= 1)))))));
    return (value) => { return check_0(value) }
  })(),
    file: (() => {
    const check_0 = ((value) => ((typeof value === "object" && value !== null && !(Array.isArray(value))) && ((("type" in value && "path" in value) && Object.getOwnPropertyNames(value).length === 2) && (value.type === "file" && (typeof value.path === "string" && (value.path.length >= 2 || (value.path.length >= 1 && Guard.CodePointCount(value.path) >= 1)))))));
    return (value) => { return check_0(value) }
  })(),
  },
};

export const PIPELINE_DEFAULTS: { common: Defaults } & Ends<Defaults> = {
  common: [
      [["score"],{}],
      [["score","interpretation"],"none"],
      [["score","batch_rows"],1024],
      [["score","batch_wait_ms"],20],
      [["score","evaluator"],"auto"],
      [["score","record_bytes"],1048576],
      [["transaction_rows"],4096],
      [["transaction_timeout_ms"],60000],
      [["kafka"],{}],
      [["kafka","client_id"],"sluice"],
      [["kafka","session_timeout_ms"],30000],
      [["kafka","connect_timeout_ms"],10000],
      [["kafka","request_timeout_ms"],30000],
      [["schema_registry","timeout_ms"],5000],
    ],
  source: {
    kafka: [
      [["format"],"json"],
      [["start_at"],"earliest"],
      [["on_offset_lost"],"stop"],
      [["until_caught_up"],false],
      [["fetch_bytes"],1048576],
      [["in_flight_bytes"],33554432],
    ],
    file: [],
    stdio: [
      [["format"],"csv"],
      [["compression"],"none"],
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
  },
  dead_letter: {
    kafka: [],
    file: [],
  },
};
