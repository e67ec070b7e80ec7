// Written by `npm run docs` from src/config/commands: commands and their flags as plain data, so that a command line loads no schema.
import type { CommandTable } from './flags.ts';

export const COMMAND_GROUPS_TABLE: Readonly<Record<string, string>> = {"dlq":"list, show, count, replay and drop dead letters","model":"register, list, verify models and move aliases","audit":"check audit logs","keys":"create, list, rotate and revoke API keys"};

export const COMMAND_TABLES = {
  "score": {
    description: "score a file of applications",
    arguments: [{"name":"[file]","description":"applications, or a pattern of several; - for standard input; nothing with --plan","complete":"file"}],
    flags: [
      {"name":"model","short":"m","value":"ref","description":"model reference: id, id:version or id@alias","required":true,"complete":"model"},
      {"name":"plan","value":"file","description":"score one shard of this plan, which sluice plan made","complete":"file"},
      {"name":"shard","value":"n","description":"shard number, from 0; default: $JOB_COMPLETION_INDEX","number":{"whole":true,"min":0,"max":99999}},
      {"name":"output","short":"o","value":"file","description":"output file; - for standard output","default":"-","complete":"file"},
      {"name":"rejects","value":"file","description":"rejects file; written even if no row is rejected; default: if there are any, beside the output with .rejects.csv behind its name; nowhere for standard output","complete":"file"},
      {"name":"input-format","value":"name","description":"format of the input; default: by the name of the file","choices":["csv","tsv","ndjson","json","parquet","arrow"]},
      {"name":"input-compression","value":"name","description":"compression of the input; default: by the name of the file","choices":["none","gzip","zstd"]},
      {"name":"delimiter","value":"name","description":"delimiter of CSV; default: comma for .csv, else tab","choices":["tab","comma","semicolon","pipe"]},
      {"name":"columns","value":"names","description":"the input has no header row; names of its fields in order: a,b,c"},
      {"name":"rename","value":"pairs","description":"columns with another name in the input: column=name_in_input, …"},
      {"name":"ignore","value":"name","description":"input columns to ignore: a,b, or * for all unused ones"},
      {"name":"constants","value":"pairs","description":"model columns that the input lacks: column=value for all rows, …"},
      {"name":"encoding","value":"name","description":"encoding of the text; utf-16 needs a byte order mark; default: utf-8","choices":["utf-8","latin1","windows-1252","utf-16","utf-16le","utf-16be"]},
      {"name":"decimal","value":"mark","description":"decimal separator of numbers in text; default: point","choices":["point","comma"]},
      {"name":"thousands","value":"mark","description":"thousands separator of numbers in text; default: none","choices":["point","comma","space","apostrophe"]},
      {"name":"trim","description":"trim spaces around values and column names"},
      {"name":"null-values","value":"words","description":"texts that mean a missing value, in addition to those of the model package: NULL,N/A"},
      {"name":"expect-rows","value":"n","description":"required number of applications in the input","number":{"whole":true,"min":0,"max":1000000000000}},
      {"name":"expect-sha256","value":"hex","description":"required SHA-256 of the stored input file, hexadecimal"},
      {"name":"control-file","value":"file","description":"control file with rows=N and sha256=HEX of the input, on separate lines or separated by semicolons; {path}: path of the input","complete":"file"},
      {"name":"format","value":"name","description":"format of the output; default: by the name of the output, else delimited like the input","choices":["csv","tsv","ndjson","json","parquet","arrow"]},
      {"name":"compression","value":"name","description":"compression of the output; default: by the name of the output","choices":["none","gzip","zstd"]},
      {"name":"passthrough","value":"columns","description":"columns outside the model to copy to the output: a,b or *"},
      {"name":"interpretation","description":"add the effect of every column and reason codes to each prediction"},
      {"name":"top","value":"n","description":"report only the N largest effects","number":{"whole":true,"min":1,"max":2000}},
      {"name":"interpret-below","value":"p","description":"interpret only applications whose probability (or value) is below this","number":{}},
      {"name":"interactions","value":"n","description":"report the N strongest pairwise interactions; tree models only","number":{"whole":true,"min":1,"max":500}},
      {"name":"max-evaluations","value":"n","description":"maximum evaluations for interpreting one application of a black-box model","number":{"whole":true,"min":1,"max":100000000}},
      {"name":"on-invalid","value":"what","description":"invalid applications: report rejects them and continues, fail ends the run","choices":["report","fail"],"default":"report"},
      {"name":"allow-empty","description":"publish the output even if every row is rejected; default: the run fails"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"workers","value":"n","description":"workers per model; default: one per core","number":{"whole":true,"min":1,"max":256}},
      {"name":"evaluator","value":"which","description":"auto: the native evaluator if it agrees with ONNX Runtime; otherwise only the named one; default: auto","choices":["auto","onnxruntime","native"]},
      {"name":"batch-rows","value":"n","description":"rows per micro-batch; default: 512, with effects 4096","number":{"whole":true,"min":1,"max":65536}},
      {"name":"block-bytes","value":"n","description":"bytes per block, the unit of work; default: 524288, for Parquet and Arrow 1048576","number":{"whole":true,"min":16,"max":67108864}},
      {"name":"read-bytes","value":"n","description":"bytes per read of the input; default: 262144","number":{"whole":true,"min":1,"max":67108864}},
      {"name":"max-row-bytes","value":"n","description":"maximum size of an application, bytes; larger ones are rejected; default: 1048576","number":{"whole":true,"min":16,"max":67108864}},
      {"name":"max-columns","value":"n","description":"maximum columns of a header row or keys of an object; default: 2000","number":{"whole":true,"min":1,"max":100000}},
      {"name":"metrics-file","value":"file","description":"write the metrics to this file at the end, for a textfile collector","complete":"file"},
      {"name":"push-gateway","value":"address","description":"push the metrics to this Prometheus Pushgateway at the end"},
      {"name":"no-manifest","description":"write no manifest"},
      {"name":"sign-key","value":"file","description":"private key (PEM; Ed25519 or P-256) with which manifests are signed; default: $SLUICE_SIGN_KEY, else manifests are not signed","complete":"file"},
      {"name":"require-lock","description":"load only packages that have a package.lock; default: $SLUICE_REQUIRE_LOCK"},
      {"name":"require-signature","value":"file","description":"load only packages signed with this public key or a trusted certificate (PEM file); default: $SLUICE_REQUIRE_SIGNATURE, else signatures are not asked for","complete":"file"},
      {"name":"require-signer","value":"names","description":"certificate names that may sign: common names, or alternative names with their type, such as URI:spiffe://bank.example/model-team, separated by commas; default: $SLUICE_REQUIRE_SIGNER, else every certificate that is trusted"},
      {"name":"require-approval","value":"file","description":"load only versions approved by a person other than the one who added them: PEM file with the accepted public keys, or `any`; default: $SLUICE_REQUIRE_APPROVAL, else approvals are not asked for","complete":"file"},
      {"name":"deadline","value":"time","description":"deadline of the run: 06:00 (its next occurrence, local time) or 2026-11-23T06:00"},
      {"name":"resume","description":"resume the interrupted run with the same input and options, or start if there is none"},
      {"name":"restart","description":"start from the beginning and remove the files of an interrupted run"},
      {"name":"checkpoint-every","value":"seconds","description":"between files: seconds between checkpoints, from which an interrupted run resumes; 0: none; default: 5","number":{"min":0,"max":86400}},
      {"name":"max-rejects","value":"n","description":"maximum rejected rows: a share of all rows if below 1, otherwise a number","number":{"min":0}},
      {"name":"max-missing","value":"limits","description":"maximum share of missing values per column: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-unseen","value":"limits","description":"maximum share of values that do not occur in the training data, per column: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-out-of-range","value":"limits","description":"maximum share of numbers outside the range of the training data or package, per column: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-psi","value":"limits","description":"largest population stability index of a column against the training: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-score-psi","value":"n","description":"largest population stability index of the score against the training","number":{"min":0}},
      {"name":"min-rows","value":"n","description":"fewest rows of an input","number":{"whole":true,"min":0,"max":1000000000000}},
      {"name":"report","value":"file","description":"write an HTML report of the run, compared with the report already in this file","complete":"file"},
      {"name":"json","description":"print a machine-readable summary, on standard error when predictions go to standard output"},
      {"name":"quiet","description":"print no progress and no summary"},
    ],
  },
  "plan": {
    description: "divide files among shards at the beginnings of records",
    arguments: [{"name":"<file>","description":"applications, or a pattern of several","complete":"file"}],
    flags: [
      {"name":"shards","value":"n","description":"how many; default: as many as --by needs","number":{"whole":true,"min":1,"max":100000}},
      {"name":"output","short":"o","value":"file","description":"where the plan goes; - for standard output","default":"plan.json","complete":"file"},
      {"name":"input-format","value":"name","description":"format of the input; default: by the name of the file","choices":["csv","tsv","ndjson","json","parquet","arrow"]},
      {"name":"input-compression","value":"name","description":"compression of the input; default: by the name of the file","choices":["none","gzip","zstd"]},
      {"name":"delimiter","value":"name","description":"delimiter of CSV; default: comma for .csv, else tab","choices":["tab","comma","semicolon","pipe"]},
      {"name":"max-row-bytes","value":"n","description":"maximum size of an application, bytes; larger ones are rejected; default: 1048576","number":{"whole":true,"min":16,"max":67108864}},
      {"name":"block-bytes","value":"n","description":"bytes per block, the unit of work; default: 524288, for Parquet and Arrow 1048576","number":{"whole":true,"min":16,"max":67108864}},
      {"name":"by","value":"time","description":"when it has to be over, as with --deadline: measures on samples how long it takes and how many shards it needs"},
      {"name":"model","short":"m","value":"ref","description":"model reference: id, id:version or id@alias","complete":"model"},
      {"name":"interpretation","description":"of a run with effects and reasons"},
      {"name":"interactions","value":"n","description":"report the N strongest pairwise interactions; tree models only","number":{"whole":true,"min":1,"max":500}},
      {"name":"passthrough","value":"columns","description":"columns outside the model to copy to the output: a,b or *"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"workers","value":"n","description":"workers per model; default: one per core","number":{"whole":true,"min":1,"max":256}},
      {"name":"json","description":"print what was planned as JSON, on standard error when the plan goes to standard output"},
      {"name":"quiet","description":"print nothing about the plan"},
    ],
  },
  "merge": {
    description: "prove that the parts of a plan are whole, and join them",
    arguments: [{"name":"<plan>","description":"the plan that the shards were scored by","complete":"file"}],
    flags: [
      {"name":"parts","value":"pattern","description":"pattern of the outputs of all shards; what stands beside each is found by its name","required":true,"complete":"file"},
      {"name":"output","short":"o","value":"file","description":"where predictions go, with {name} where there are several inputs; with --leave-parts: the list of the parts","required":true,"complete":"file"},
      {"name":"rejects","value":"file","description":"rejects file; written even if no row is rejected; default: if there are any, beside the output with .rejects.csv behind its name","complete":"file"},
      {"name":"leave-parts","description":"join nothing: check the parts and write one list over them"},
      {"name":"allow-empty","description":"publish the output even if every row is rejected; default: the run fails"},
      {"name":"no-manifest","description":"write no manifest"},
      {"name":"sign-key","value":"file","description":"private key (PEM; Ed25519 or P-256) with which manifests are signed; default: $SLUICE_SIGN_KEY, else manifests are not signed","complete":"file"},
      {"name":"max-rejects","value":"n","description":"maximum rejected rows: a share of all rows if below 1, otherwise a number","number":{"min":0}},
      {"name":"max-missing","value":"limits","description":"maximum share of missing values per column: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-unseen","value":"limits","description":"maximum share of values that do not occur in the training data, per column: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-out-of-range","value":"limits","description":"maximum share of numbers outside the range of the training data or package, per column: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-psi","value":"limits","description":"largest population stability index of a column against the training: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-score-psi","value":"n","description":"largest population stability index of the score against the training","number":{"min":0}},
      {"name":"min-rows","value":"n","description":"fewest rows of an input","number":{"whole":true,"min":0,"max":1000000000000}},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print a machine-readable summary"},
      {"name":"quiet","description":"print no summary"},
    ],
  },
  "explain": {
    description: "draw why one application of a file got its score",
    arguments: [{"name":"<file>","description":"applications; - for standard input","complete":"file"}],
    flags: [
      {"name":"row","value":"n","description":"data row, from 1","number":{"whole":true,"min":1,"max":2147483648},"required":true},
      {"name":"model","short":"m","value":"ref","description":"model reference: id, id:version or id@alias","required":true,"complete":"model"},
      {"name":"input-format","value":"name","description":"format of the input; default: by the name of the file","choices":["csv","tsv","ndjson","json","parquet","arrow"]},
      {"name":"delimiter","value":"name","description":"delimiter of CSV; default: tab for .tsv and .tab, else comma","choices":["tab","comma","semicolon","pipe"]},
      {"name":"columns","value":"names","description":"the input has no header row; names of its fields in order: a,b,c"},
      {"name":"rename","value":"pairs","description":"columns with another name in the input: column=name_in_input, …"},
      {"name":"ignore","value":"name","description":"input columns to ignore: a,b, or * for all unused ones"},
      {"name":"constants","value":"pairs","description":"model columns that the input lacks: column=value for all rows, …"},
      {"name":"encoding","value":"name","description":"encoding of the text; utf-16 needs a byte order mark; default: utf-8","choices":["utf-8","latin1","windows-1252","utf-16","utf-16le","utf-16be"]},
      {"name":"decimal","value":"mark","description":"decimal separator of numbers in text; default: point","choices":["point","comma"]},
      {"name":"thousands","value":"mark","description":"thousands separator of numbers in text; default: none","choices":["point","comma","space","apostrophe"]},
      {"name":"trim","description":"trim spaces around values and column names"},
      {"name":"null-values","value":"words","description":"texts that mean a missing value, in addition to those of the model package: NULL,N/A"},
      {"name":"top","value":"n","description":"columns drawn one by one; the rest together","number":{"whole":true,"min":1,"max":2000},"default":12},
      {"name":"interactions","value":"n","description":"pairs of columns by what they make together, the strongest; for models of trees","number":{"whole":true,"min":0,"max":500},"default":0},
      {"name":"html","value":"file","description":"write a self-contained page","complete":"file"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print the answer as JSON"},
    ],
  },
  "generate": {
    description: "write a portfolio of made-up applications as CSV or TSV",
    arguments: [],
    flags: [
      {"name":"rows","value":"n","description":"applications","number":{"whole":true,"min":0,"max":10000000000},"default":1000},
      {"name":"seed","value":"n","description":"the same seed gives the same bytes","number":{"whole":true,"min":0,"max":4294967295},"default":7},
      {"name":"output","short":"o","value":"file","description":"where it goes; - for standard output","default":"portfolio.csv","complete":"file"},
      {"name":"delimiter","value":"name","description":"delimiter of CSV; default: tab for .tsv, else comma","choices":["tab","comma","semicolon","pipe"]},
      {"name":"faults","value":"n","description":"broken rows among them","number":{"whole":true,"min":0,"max":1000000000},"default":0},
      {"name":"faults-json","value":"file","description":"where the planted faults are listed, as JSON","complete":"file"},
      {"name":"outcome","description":"add the outcome column ok, for training"},
      {"name":"ids","description":"add a leading column application_id"},
      {"name":"clean","description":"no unseen categories"},
      {"name":"drift","description":"a portfolio that drifted away from the one the bundled model was trained on"},
    ],
  },
  "demo": {
    description: "generate a portfolio, score it with the bundled model, show what came out",
    arguments: [],
    flags: [
      {"name":"rows","value":"n","description":"applications","number":{"whole":true,"min":1,"max":1000000000},"default":50000},
      {"name":"folder","value":"path","description":"where the files go","default":"demo","complete":"folder"},
    ],
  },
  "shards": {
    description: "score files in shards, of which this process is one: the first plans, the last that is done merges",
    arguments: [{"name":"<file>","description":"applications, or a pattern of several","complete":"file"}],
    flags: [
      {"name":"shards","value":"n","description":"how many","number":{"whole":true,"min":1,"max":100000},"required":true},
      {"name":"work","value":"folder","description":"folder, or prefix of objects, of this one run: its plan and its parts, for all shards","required":true,"complete":"folder"},
      {"name":"output","short":"o","value":"file","description":"where predictions go when all shards are done, with {name} where there are several inputs","required":true,"complete":"file"},
      {"name":"plan-wait","value":"seconds","description":"seconds that a shard waits for the first one to have planned","number":{"whole":true,"min":0,"max":86400},"default":3600},
      {"name":"keep-parts","description":"leave the parts in the folder when they are merged"},
      {"name":"model","short":"m","value":"ref","description":"model reference: id, id:version or id@alias","required":true,"complete":"model"},
      {"name":"shard","value":"n","description":"shard number, from 0; default: $JOB_COMPLETION_INDEX","number":{"whole":true,"min":0,"max":99999}},
      {"name":"passthrough","value":"columns","description":"columns outside the model to copy to the output: a,b or *"},
      {"name":"interpretation","description":"add the effect of every column and reason codes to each prediction"},
      {"name":"top","value":"n","description":"report only the N largest effects","number":{"whole":true,"min":1,"max":2000}},
      {"name":"interpret-below","value":"p","description":"interpret only applications whose probability (or value) is below this","number":{}},
      {"name":"interactions","value":"n","description":"report the N strongest pairwise interactions; tree models only","number":{"whole":true,"min":1,"max":500}},
      {"name":"max-evaluations","value":"n","description":"maximum evaluations for interpreting one application of a black-box model","number":{"whole":true,"min":1,"max":100000000}},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"workers","value":"n","description":"workers per model; default: one per core","number":{"whole":true,"min":1,"max":256}},
      {"name":"evaluator","value":"which","description":"auto: the native evaluator if it agrees with ONNX Runtime; otherwise only the named one; default: auto","choices":["auto","onnxruntime","native"]},
      {"name":"max-columns","value":"n","description":"maximum columns of a header row or keys of an object; default: 2000","number":{"whole":true,"min":1,"max":100000}},
      {"name":"require-lock","description":"load only packages that have a package.lock; default: $SLUICE_REQUIRE_LOCK"},
      {"name":"require-signature","value":"file","description":"load only packages signed with this public key or a trusted certificate (PEM file); default: $SLUICE_REQUIRE_SIGNATURE, else signatures are not asked for","complete":"file"},
      {"name":"require-signer","value":"names","description":"certificate names that may sign: common names, or alternative names with their type, such as URI:spiffe://bank.example/model-team, separated by commas; default: $SLUICE_REQUIRE_SIGNER, else every certificate that is trusted"},
      {"name":"require-approval","value":"file","description":"load only versions approved by a person other than the one who added them: PEM file with the accepted public keys, or `any`; default: $SLUICE_REQUIRE_APPROVAL, else approvals are not asked for","complete":"file"},
      {"name":"deadline","value":"time","description":"deadline of the run: 06:00 (its next occurrence, local time) or 2026-11-23T06:00"},
      {"name":"metrics-file","value":"file","description":"write the metrics to this file at the end, for a textfile collector","complete":"file"},
      {"name":"push-gateway","value":"address","description":"push the metrics to this Prometheus Pushgateway at the end"},
      {"name":"input-format","value":"name","description":"format of the input; default: by the name of the file","choices":["csv","tsv","ndjson","json","parquet","arrow"]},
      {"name":"input-compression","value":"name","description":"compression of the input; default: by the name of the file","choices":["none","gzip","zstd"]},
      {"name":"delimiter","value":"name","description":"delimiter of CSV; default: comma for .csv, else tab","choices":["tab","comma","semicolon","pipe"]},
      {"name":"max-row-bytes","value":"n","description":"maximum size of an application, bytes; larger ones are rejected; default: 1048576","number":{"whole":true,"min":16,"max":67108864}},
      {"name":"block-bytes","value":"n","description":"bytes per block, the unit of work; default: 524288, for Parquet and Arrow 1048576","number":{"whole":true,"min":16,"max":67108864}},
      {"name":"rejects","value":"file","description":"rejects file; written even if no row is rejected; default: if there are any, beside the output with .rejects.csv behind its name","complete":"file"},
      {"name":"allow-empty","description":"publish the output even if every row is rejected; default: the run fails"},
      {"name":"no-manifest","description":"write no manifest"},
      {"name":"sign-key","value":"file","description":"private key (PEM; Ed25519 or P-256) with which manifests are signed; default: $SLUICE_SIGN_KEY, else manifests are not signed","complete":"file"},
      {"name":"json","description":"print a machine-readable summary"},
      {"name":"quiet","description":"print no summary"},
      {"name":"max-rejects","value":"n","description":"maximum rejected rows: a share of all rows if below 1, otherwise a number","number":{"min":0}},
      {"name":"max-missing","value":"limits","description":"maximum share of missing values per column: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-unseen","value":"limits","description":"maximum share of values that do not occur in the training data, per column: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-out-of-range","value":"limits","description":"maximum share of numbers outside the range of the training data or package, per column: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-psi","value":"limits","description":"largest population stability index of a column against the training: 0.05, or by column a=0.05,*=0.01"},
      {"name":"max-score-psi","value":"n","description":"largest population stability index of the score against the training","number":{"min":0}},
      {"name":"min-rows","value":"n","description":"fewest rows of an input","number":{"whole":true,"min":0,"max":1000000000000}},
    ],
  },
  "verify": {
    description: "check an output against its manifest: name changed blocks and, given --input and --package, the rows that changed",
    arguments: [{"name":"<output>","description":"an output that has a manifest beside it","complete":"file"}],
    flags: [
      {"name":"input","value":"file","description":"the input it was made of","complete":"file"},
      {"name":"list","value":"file","description":"rejects file; default: next to the output","complete":"file"},
      {"name":"package","value":"folder","description":"folder of the package it was made with","complete":"folder"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"key","value":"file","description":"public key (PEM) of who has to have signed the manifest","complete":"file"},
      {"name":"written-as","value":"name","description":"name under which the output was written, if it was renamed; default: the name that it has now"},
      {"name":"json","description":"print the result as JSON"},
    ],
  },
  "replay": {
    description: "score a row of an input again with the package its manifest names, and compare bits",
    arguments: [{"name":"<output>","description":"an output that has a manifest beside it, or the pipeline (YAML) that wrote a table","complete":"file"}],
    flags: [
      {"name":"row","value":"n","description":"row, from 1","number":{"whole":true,"min":1,"max":2147483648},"required":true},
      {"name":"input","value":"file","description":"the input it was made of; default: beside the output","complete":"file"},
      {"name":"package","value":"folder","description":"folder of the package it was made with","complete":"folder"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"key","value":"file","description":"public key (PEM) of who has to have signed the manifest","complete":"file"},
      {"name":"json","description":"print both answers as JSON"},
    ],
  },
  "run": {
    description: "run a pipeline until it ends or is stopped",
    arguments: [{"name":"<pipeline>","description":"YAML file; see docs/pipelines.md","complete":"file"}],
    flags: [
      {"name":"dry-run","description":"check everything, score ten applications, write and commit nothing"},
      {"name":"metrics-port","value":"n","description":"serve /metrics, /metrics/columns, /livez and /readyz over plain HTTP at this port","number":{"whole":true,"min":0,"max":65535}},
      {"name":"metrics-host","value":"address","description":"address for --metrics-port","default":"127.0.0.1"},
      {"name":"metrics-file","value":"file","description":"write the metrics to this file at the end, for a textfile collector","complete":"file"},
      {"name":"push-gateway","value":"address","description":"push the metrics to this Prometheus Pushgateway at the end"},
      {"name":"deadline","value":"time","description":"deadline of the run: 06:00 (its next occurrence, local time) or 2026-11-23T06:00"},
      {"name":"restart","description":"between files: do not go on with an interrupted run; begin from the start, and remove what it left"},
      {"name":"stop-ms","value":"n","description":"work in progress may finish within this after SIGTERM","number":{"whole":true,"min":0,"max":3600000},"default":25000},
      {"name":"log-format","value":"name","description":"lines of the log: json for machines, text for people; auto: text on a terminal, else json; default: $SLUICE_LOG_FORMAT, else auto","choices":["auto","json","text"]},
      {"name":"log-level","value":"name","description":"minimum log level; default: $SLUICE_LOG_LEVEL, else info","choices":["debug","info","warn","error"]},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print a summary as JSON at the end"},
    ],
  },
  "lint": {
    description: "check pipelines and their models without touching sources or sinks",
    arguments: [{"name":"<pipelines...>","description":"YAML files of pipelines","complete":"file"}],
    flags: [
      {"name":"schema","description":"print the schema of the predictions instead, for who registers it by other means"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
    ],
  },
  "test": {
    description: "score the applications of *.test.yaml and compare",
    arguments: [{"name":"<pipelines...>","description":"YAML files of pipelines","complete":"file"}],
    flags: [
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
    ],
  },
  "dlq list": {
    description: "list open dead letters: place and reason, no values",
    arguments: [{"name":"<pipeline>","description":"YAML file with the dead letter topic","complete":"file"}],
    flags: [
      {"name":"code","value":"codes","description":"only those with these error codes, comma-separated"},
      {"name":"column","value":"columns","description":"only those with these columns at fault, comma-separated"},
      {"name":"pipeline","value":"names","description":"only those that these pipelines wrote, comma-separated"},
      {"name":"key","value":"key","description":"only those with this key"},
      {"name":"since","value":"time","description":"only those that became dead letters at or after it: 2026-11-22T02:00Z"},
      {"name":"until","value":"time","description":"only those that became dead letters before it"},
      {"name":"min-age-ms","value":"n","description":"only those that have been dead letters for this long","number":{"whole":true,"min":0,"max":300000000000}},
      {"name":"max-attempt","value":"n","description":"only those that became dead letters at most this often","number":{"whole":true,"min":1,"max":1000000}},
      {"name":"partition","value":"n","description":"only those in this partition of the dead letter topic","number":{"whole":true,"min":0,"max":1000000}},
      {"name":"offsets","value":"ranges","description":"only those with these offsets in the dead letter topic: 100-199,205"},
      {"name":"limit","value":"n","description":"at most this many","number":{"whole":true,"min":1,"max":10000000000},"default":50},
      {"name":"settled","description":"include replayed and dropped dead letters"},
      {"name":"json","description":"print one JSON object a letter"},
    ],
  },
  "dlq show": {
    description: "show one dead letter: place, reason, sizes",
    arguments: [{"name":"<pipeline>","description":"YAML file with the dead letter topic","complete":"file"}, {"name":"<place>","description":"partition and offset as `dlq list` prints them: 0:17"}],
    flags: [
      {"name":"value","description":"print its value, and nothing else"},
      {"name":"json","description":"print JSON; with --value also key and value"},
    ],
  },
  "dlq count": {
    description: "count dead letters by what is wrong with them",
    arguments: [{"name":"<pipeline>","description":"YAML file with the dead letter topic","complete":"file"}],
    flags: [
      {"name":"code","value":"codes","description":"only those with these error codes, comma-separated"},
      {"name":"column","value":"columns","description":"only those with these columns at fault, comma-separated"},
      {"name":"pipeline","value":"names","description":"only those that these pipelines wrote, comma-separated"},
      {"name":"key","value":"key","description":"only those with this key"},
      {"name":"since","value":"time","description":"only those that became dead letters at or after it: 2026-11-22T02:00Z"},
      {"name":"until","value":"time","description":"only those that became dead letters before it"},
      {"name":"min-age-ms","value":"n","description":"only those that have been dead letters for this long","number":{"whole":true,"min":0,"max":300000000000}},
      {"name":"max-attempt","value":"n","description":"only those that became dead letters at most this often","number":{"whole":true,"min":1,"max":1000000}},
      {"name":"partition","value":"n","description":"only those in this partition of the dead letter topic","number":{"whole":true,"min":0,"max":1000000}},
      {"name":"offsets","value":"ranges","description":"only those with these offsets in the dead letter topic: 100-199,205"},
      {"name":"by","value":"name","description":"what to count open ones by","choices":["code","column","pipeline","topic","attempt"],"default":"code"},
      {"name":"json","description":"print JSON"},
    ],
  },
  "dlq replay": {
    description: "put dead letters back where they came from, each once",
    arguments: [{"name":"<pipeline>","description":"YAML file with the dead letter topic","complete":"file"}],
    flags: [
      {"name":"topic","value":"topic","description":"another topic than the one they came from"},
      {"name":"timestamp","value":"name","description":"timestamp of replayed records; retention may delete records with an old timestamp immediately","choices":["now","original"],"default":"now"},
      {"name":"code","value":"codes","description":"only those with these error codes, comma-separated"},
      {"name":"column","value":"columns","description":"only those with these columns at fault, comma-separated"},
      {"name":"pipeline","value":"names","description":"only those that these pipelines wrote, comma-separated"},
      {"name":"key","value":"key","description":"only those with this key"},
      {"name":"since","value":"time","description":"only those that became dead letters at or after it: 2026-11-22T02:00Z"},
      {"name":"until","value":"time","description":"only those that became dead letters before it"},
      {"name":"min-age-ms","value":"n","description":"only those that have been dead letters for this long","number":{"whole":true,"min":0,"max":300000000000}},
      {"name":"max-attempt","value":"n","description":"only those that became dead letters at most this often","number":{"whole":true,"min":1,"max":1000000}},
      {"name":"partition","value":"n","description":"only those in this partition of the dead letter topic","number":{"whole":true,"min":0,"max":1000000}},
      {"name":"offsets","value":"ranges","description":"only those with these offsets in the dead letter topic: 100-199,205"},
      {"name":"limit","value":"n","description":"at most this many, in order of partition and offset","number":{"whole":true,"min":1,"max":10000000000}},
      {"name":"reopen","description":"also those that the replay of an earlier release passed: it put them back, or left them out"},
      {"name":"dry-run","description":"count them, write nothing"},
      {"name":"json","description":"print counts as JSON"},
    ],
  },
  "dlq drop": {
    description: "settle dead letters without putting them back, each once",
    arguments: [{"name":"<pipeline>","description":"YAML file with the dead letter topic","complete":"file"}],
    flags: [
      {"name":"code","value":"codes","description":"only those with these error codes, comma-separated"},
      {"name":"column","value":"columns","description":"only those with these columns at fault, comma-separated"},
      {"name":"pipeline","value":"names","description":"only those that these pipelines wrote, comma-separated"},
      {"name":"key","value":"key","description":"only those with this key"},
      {"name":"since","value":"time","description":"only those that became dead letters at or after it: 2026-11-22T02:00Z"},
      {"name":"until","value":"time","description":"only those that became dead letters before it"},
      {"name":"min-age-ms","value":"n","description":"only those that have been dead letters for this long","number":{"whole":true,"min":0,"max":300000000000}},
      {"name":"max-attempt","value":"n","description":"only those that became dead letters at most this often","number":{"whole":true,"min":1,"max":1000000}},
      {"name":"partition","value":"n","description":"only those in this partition of the dead letter topic","number":{"whole":true,"min":0,"max":1000000}},
      {"name":"offsets","value":"ranges","description":"only those with these offsets in the dead letter topic: 100-199,205"},
      {"name":"all","description":"all that are open"},
      {"name":"limit","value":"n","description":"at most this many, in order of partition and offset","number":{"whole":true,"min":1,"max":10000000000}},
      {"name":"reopen","description":"also those that the replay of an earlier release passed: it put them back, or left them out"},
      {"name":"dry-run","description":"count them, write nothing"},
      {"name":"json","description":"print counts as JSON"},
    ],
  },
  "model add": {
    description: "look into an ONNX file and its training table, propose a package, check it, register it",
    arguments: [{"name":"<onnx>","description":"the ONNX file","complete":"file"}],
    flags: [
      {"name":"training-data","value":"file","description":"CSV the model was trained on, with a header row","required":true,"complete":"file"},
      {"name":"id","value":"id","description":"id of the model; default: the name of the ONNX file"},
      {"name":"as-version","value":"version","description":"version; default: the next number"},
      {"name":"outcome","value":"column","description":"the column that was predicted; default: ok"},
      {"name":"positive-class","value":"class","description":"the class whose probability is wanted; default: 1"},
      {"name":"ignore","value":"columns","description":"columns of the table the model does not use, comma-separated"},
      {"name":"encoding","value":"file","description":"JSON with code maps, column order and what missing values became","complete":"file"},
      {"name":"expected","value":"file","description":"CSV with predictions of the training library, row by row for the training table","complete":"file"},
      {"name":"expected-rows","value":"file","description":"CSV with the applications those predictions belong to, if not the training table","complete":"file"},
      {"name":"tolerance","value":"n","description":"largest difference from those predictions that passes; default: 1e-6","number":{"min":0}},
      {"name":"covers","value":"file","description":"JSON with the training rows at every tree node: effects along the paths of the trees","complete":"file"},
      {"name":"background","value":"file","description":"CSV with the applications that effects are measured against, instead of a sample of the training table","complete":"file"},
      {"name":"background-rows","value":"n","description":"rows of the background; default: 100","number":{"whole":true,"min":1,"max":10000}},
      {"name":"policy","value":"file","description":"YAML with decisions, scorecard, reasons and reasons_max, as in model.yaml","complete":"file"},
      {"name":"force","value":"reason","description":"register although the training table contradicts it; the reason is kept in the package"},
      {"name":"delimiter","value":"d","description":"tab, comma, semicolon, pipe, or one character; default: detected"},
      {"name":"task","value":"name","description":"task of the model; default: detected","choices":["binary","multiclass","regression","score"]},
      {"name":"output","value":"kind","description":"what the scores are; default: detected","choices":["probability","log_odds"]},
      {"name":"scores","value":"output","description":"the output of the graph that carries the scores; default: detected"},
      {"name":"description","value":"text","description":"a sentence kept in model.yaml"},
      {"name":"require-batch-invariance","description":"refuse a model whose bits change with the batch size"},
      {"name":"alias","value":"alias","description":"point this alias to the new version"},
      {"name":"sign-key","value":"file","description":"sign the package, and that it was added, with this private key (PEM; P-256, P-384 or P-521)","complete":"file"},
      {"name":"certificates","value":"file","description":"PEM with the certificate of that key, and those it leads to a root by","complete":"file"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"dry-run","description":"show model.yaml and the report, register nothing"},
      {"name":"json","description":"print a JSON document"},
    ],
  },
  "model new-version": {
    description: "a new version of a model from an old one, with other decisions, scorecard and reasons",
    arguments: [],
    flags: [
      {"name":"from","value":"ref","description":"the version it is made from: id, id:version or id@alias","required":true,"complete":"model"},
      {"name":"policy","value":"file","description":"YAML with decisions, scorecard, reasons and reasons_max, as in model.yaml, instead of those of the old one","required":true,"complete":"file"},
      {"name":"reason","value":"text","description":"why; kept in the package and in the history"},
      {"name":"as-version","value":"version","description":"version; default: the next number"},
      {"name":"sign-key","value":"file","description":"sign the package, and that it was added, with this private key (PEM; P-256, P-384 or P-521)","complete":"file"},
      {"name":"certificates","value":"file","description":"PEM with the certificate of that key, and those it leads to a root by","complete":"file"},
      {"name":"who","value":"name","description":"person who does it; default: the user of this machine"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"dry-run","description":"check everything and say what changes, register nothing"},
      {"name":"json","description":"print a JSON document"},
    ],
  },
  "model list": {
    description: "models, versions and aliases",
    arguments: [],
    flags: [
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print a JSON document"},
    ],
  },
  "model show": {
    description: "columns, aliases, their history and a sample application of one model; or its audit page",
    arguments: [{"name":"<ref>","description":"id, id:version or id@alias","complete":"model"}],
    flags: [
      {"name":"audit","description":"one page: how it came to be what it is, who registered and approved it, what was checked"},
      {"name":"key","value":"file","description":"with --audit: PEM with the public keys, or the certificates, to check its signatures with","complete":"file"},
      {"name":"html","value":"file","description":"with --audit: leave the page there as HTML, to print","complete":"file"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print a JSON document"},
    ],
  },
  "model verify": {
    description: "repeat all checks on a registered model or a package folder",
    arguments: [{"name":"<ref>","description":"id, id:version, id@alias or a folder","complete":"model"}],
    flags: [
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print a JSON document"},
    ],
  },
  "model diff": {
    description: "what two packages say otherwise, and how their predictions, decisions and effects differ",
    arguments: [{"name":"<ref>","description":"id, id:version, id@alias or a folder","complete":"model"}, {"name":"<other>","description":"what it is held against","complete":"model"}],
    flags: [
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print a JSON document"},
    ],
  },
  "model seal": {
    description: "write package.lock, the list of its files, into a package that has none",
    arguments: [{"name":"<ref>","description":"id, id:version, id@alias or a folder","complete":"model"}],
    flags: [
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
    ],
  },
  "model sign": {
    description: "sign a package: model.sig beside its files, in the model-signing format of the OpenSSF",
    arguments: [{"name":"<ref>","description":"id, id:version, id@alias or a folder","complete":"model"}],
    flags: [
      {"name":"key","value":"file","description":"private key (PEM; P-256, P-384 or P-521)","required":true,"complete":"file"},
      {"name":"certificates","value":"file","description":"PEM with the certificate of that key, and those it leads to a root by","complete":"file"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
    ],
  },
  "model verify-signature": {
    description: "check who signed a package, and that it is what was signed",
    arguments: [{"name":"<ref>","description":"id, id:version, id@alias or a folder","complete":"model"}],
    flags: [
      {"name":"key","value":"file","description":"public key (PEM) that has to have signed it","complete":"file"},
      {"name":"certificates","value":"file","description":"PEM with the roots that the certificate of whoever signed has to lead to","complete":"file"},
      {"name":"signer","value":"names","description":"certificate names that may sign: common names, or alternative names with their type, such as URI:spiffe://bank.example/model-team, separated by commas"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print a JSON document"},
    ],
  },
  "model history": {
    description: "who moved the aliases of a model and judged its versions, when and why; checks that nothing was changed",
    arguments: [{"name":"<ref>","description":"id","complete":"model"}],
    flags: [
      {"name":"key","value":"file","description":"public key (PEM) that has to have signed each move","complete":"file"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print a JSON document"},
    ],
  },
  "model approve": {
    description: "approve a version: somebody else than who added it says that it may be used",
    arguments: [{"name":"<ref>","description":"id:version","complete":"model"}],
    flags: [
      {"name":"key","value":"file","description":"sign the approval with this private key (PEM; Ed25519 or P-256), another one than it was added with","complete":"file"},
      {"name":"reason","value":"text","description":"why it is approved; kept in the history"},
      {"name":"who","value":"name","description":"person who does it; default: the user of this machine"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
    ],
  },
  "model retire": {
    description: "retire a version: no bare id and no alias means it any more; by its number it still loads",
    arguments: [{"name":"<ref>","description":"id:version","complete":"model"}],
    flags: [
      {"name":"reason","value":"text","description":"why; kept in the history"},
      {"name":"force","value":"reason","description":"also while an alias means it or a process has it loaded; the reason is kept in the history"},
      {"name":"sign-key","value":"file","description":"sign the history entry with this private key (PEM; Ed25519 or P-256)","complete":"file"},
      {"name":"who","value":"name","description":"person who does it; default: the user of this machine"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
    ],
  },
  "model remove": {
    description: "remove the files of a version for good; its history stays, and its number is never given again",
    arguments: [{"name":"<ref>","description":"id:version","complete":"model"}],
    flags: [
      {"name":"reason","value":"text","description":"why; kept in the history"},
      {"name":"force","value":"reason","description":"also while an alias means it or a process has it loaded; the reason is kept in the history"},
      {"name":"sign-key","value":"file","description":"sign the history entry with this private key (PEM; Ed25519 or P-256)","complete":"file"},
      {"name":"who","value":"name","description":"person who does it; default: the user of this machine"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
    ],
  },
  "model alias": {
    description: "point an alias to a version, or remove it",
    arguments: [{"name":"<ref>","description":"id@alias","complete":"model"}, {"name":"[version]","description":"version it shall mean"}],
    flags: [
      {"name":"remove","description":"remove the alias"},
      {"name":"who","value":"name","description":"person who does it; default: the user of this machine"},
      {"name":"reason","value":"text","description":"reason for the move, recorded in the history"},
      {"name":"sign-key","value":"file","description":"sign the history entry with this private key (PEM; Ed25519 or P-256)","complete":"file"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
    ],
  },
  "outcomes": {
    description: "compare predictions with observed outcomes: AUC, KS, Brier score, calibration, bad rate of approved applications",
    arguments: [{"name":"[predictions...]","description":"files of predictions, or patterns of several; none: the output topics of --pipeline","complete":"file"}],
    flags: [
      {"name":"labels","value":"file","description":"file with the outcomes","complete":"file"},
      {"name":"labels-topic","value":"topic","description":"topic with the outcomes, of the brokers of --pipeline"},
      {"name":"pipeline","value":"file","description":"a pipeline: its brokers, its schema registry and its output topics","complete":"file"},
      {"name":"key","value":"column","description":"column of the predictions that identifies the application; default for topics: the record key; default: the keys of the records, for topics"},
      {"name":"label-key","value":"column","description":"the same column of the labels; default: as --key"},
      {"name":"outcome","value":"column","description":"column of the labels with the outcome","default":"ok"},
      {"name":"positive","value":"words","description":"labels of the class whose probability was predicted, comma-separated","default":"true,True,TRUE,1,1.0"},
      {"name":"negative","value":"words","description":"labels of the other outcomes, which count as bad","default":"false,False,FALSE,0,0.0"},
      {"name":"month","value":"column","description":"column with the month of the application (2026-03), of the labels or else of the predictions"},
      {"name":"time","value":"column","description":"column with its time in ISO 8601 instead; default: of topics, the time of the record"},
      {"name":"model","value":"name","description":"model that made the predictions: id:version; default: they say it"},
      {"name":"model-column","value":"column","description":"column of the predictions that contains id:version"},
      {"name":"probability","value":"column","description":"column with the probability of the positive class","default":"probability"},
      {"name":"on-duplicate","value":"what","description":"duplicate keys: refuse ends the command, last uses the last row; default: refuse for files, last for topics","choices":["refuse","last"]},
      {"name":"format","value":"name","description":"format of the predictions; default: by the name of the file","choices":["csv","tsv","ndjson","json","parquet","arrow"]},
      {"name":"delimiter","value":"name","description":"delimiter of CSV; default: tab for .tsv and .tab, else comma","choices":["tab","comma","semicolon","pipe"]},
      {"name":"labels-format","value":"name","description":"format of the labels; default: by the name of the file","choices":["csv","tsv","ndjson","json","parquet","arrow"]},
      {"name":"labels-delimiter","value":"name","description":"delimiter of CSV; default: tab for .tsv and .tab, else comma","choices":["tab","comma","semicolon","pipe"]},
      {"name":"output","short":"o","value":"file","description":"write the report to this file as JSON","complete":"file"},
      {"name":"metrics-file","value":"file","description":"write the metrics to this file, for a textfile collector","complete":"file"},
      {"name":"json","description":"print the report as JSON instead of tables"},
    ],
  },
  "serve": {
    description: "serve predictions over HTTPS",
    arguments: [],
    flags: [
      {"name":"config","short":"c","value":"file","description":"YAML file; see docs/serve-config.md","complete":"file"},
      {"name":"set","value":"name=value","description":"override a setting of the file, such as limits.rows=1000","many":true,"default":[]},
      {"name":"port","value":"n","description":"short for --set listen.port=n","number":{"whole":true,"min":0,"max":65535}},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"log-format","value":"name","description":"lines of the log: json for machines, text for people; auto: text on a terminal, else json; default: $SLUICE_LOG_FORMAT, else log.format","choices":["auto","json","text"]},
      {"name":"log-level","value":"name","description":"minimum log level; default: $SLUICE_LOG_LEVEL, else log.level","choices":["debug","info","warn","error"]},
      {"name":"dev","description":"development mode: loopback only, with a temporary certificate and API key"},
      {"name":"cert-out","value":"file","description":"with --dev: write the certificate to this file, for clients to trust"},
    ],
  },
  "keys create": {
    description: "create a key and print its token once",
    arguments: [{"name":"<name>","description":"who uses it"}],
    flags: [
      {"name":"file","value":"file","description":"file of the keys","default":"keys.yaml","complete":"file"},
      {"name":"scopes","value":"list","description":"some of predict,interpret,jobs,models:read,models:write,metrics","default":"predict,interpret,jobs,models:read"},
      {"name":"models","value":"list","description":"model ids that the key may use; default: all"},
      {"name":"days","value":"n","description":"valid for this many days; default: until revoked","number":{"above":0}},
    ],
  },
  "keys list": {
    description: "names, scopes, models and expiry of the keys",
    arguments: [],
    flags: [
      {"name":"file","value":"file","description":"file of the keys","default":"keys.yaml","complete":"file"},
    ],
  },
  "keys rotate": {
    description: "create a new token for a key and print it once; the previous token works for a grace period",
    arguments: [{"name":"<name>","description":"name of the key"}],
    flags: [
      {"name":"file","value":"file","description":"file of the keys","default":"keys.yaml","complete":"file"},
      {"name":"grace","value":"time","description":"grace period of the previous token, such as 30m, 24h or 7d; 0: it stops working at once","default":"24h"},
      {"name":"days","value":"n","description":"validity of the new token in days; default: as for the previous token","number":{"above":0}},
    ],
  },
  "keys revoke": {
    description: "remove a key with all its tokens",
    arguments: [{"name":"<name>","description":"name of the key"}],
    flags: [
      {"name":"file","value":"file","description":"file of the keys","default":"keys.yaml","complete":"file"},
    ],
  },
  "audit verify": {
    description: "check that the records of an audit log are unchanged, in order and complete",
    arguments: [{"name":"<files...>","description":"files of one log","complete":"file"}],
    flags: [
      {"name":"head","value":"sha256","description":"hash of a record that must be present, from an audit_head line of the log"},
      {"name":"json","description":"print the result as JSON"},
    ],
  },
  "init": {
    description: "create a project: models, a pipeline with its test, service settings, systemd units, alert rules",
    arguments: [{"name":"[folder]","description":"where; default: here","complete":"folder"}],
    flags: [
    ],
  },
  "doctor": {
    description: "check this machine, the registry, its models, and the requirements of a configuration or pipeline",
    arguments: [],
    flags: [
      {"name":"config","short":"c","value":"file","description":"configuration of serve","complete":"file"},
      {"name":"pipeline","value":"file","description":"a pipeline: its model and topics","complete":"file"},
      {"name":"registry","value":"address","description":"model registry: a folder, s3://bucket/prefix or mlflow+https://host; default: $SLUICE_REGISTRY, else ./models","complete":"folder"},
      {"name":"json","description":"print the findings as JSON"},
    ],
  },
  "completion": {
    description: "print the completion script of a shell",
    arguments: [{"name":"<shell>","description":"bash, zsh, fish","choices":["bash","zsh","fish"]}],
    flags: [
    ],
  },
} as const satisfies Record<string, CommandTable>;

export interface ScoreFlags {
  model: string;
  plan?: string;
  shard?: number;
  output: string;
  rejects?: string;
  inputFormat?: 'csv' | 'tsv' | 'ndjson' | 'json' | 'parquet' | 'arrow';
  inputCompression?: 'none' | 'gzip' | 'zstd';
  delimiter?: 'tab' | 'comma' | 'semicolon' | 'pipe';
  columns?: string;
  rename?: string;
  ignore?: string;
  constants?: string;
  encoding?: 'utf-8' | 'latin1' | 'windows-1252' | 'utf-16' | 'utf-16le' | 'utf-16be';
  decimal?: 'point' | 'comma';
  thousands?: 'point' | 'comma' | 'space' | 'apostrophe';
  trim?: boolean;
  nullValues?: string;
  expectRows?: number;
  expectSha256?: string;
  controlFile?: string;
  format?: 'csv' | 'tsv' | 'ndjson' | 'json' | 'parquet' | 'arrow';
  compression?: 'none' | 'gzip' | 'zstd';
  passthrough?: string;
  interpretation?: boolean;
  top?: number;
  interpretBelow?: number;
  interactions?: number;
  maxEvaluations?: number;
  onInvalid: 'report' | 'fail';
  allowEmpty?: boolean;
  registry?: string;
  workers?: number;
  evaluator?: 'auto' | 'onnxruntime' | 'native';
  batchRows?: number;
  blockBytes?: number;
  readBytes?: number;
  maxRowBytes?: number;
  maxColumns?: number;
  metricsFile?: string;
  pushGateway?: string;
  noManifest?: boolean;
  signKey?: string;
  requireLock?: boolean;
  requireSignature?: string;
  requireSigner?: string;
  requireApproval?: string;
  deadline?: string;
  resume?: boolean;
  restart?: boolean;
  checkpointEvery?: number;
  maxRejects?: number;
  maxMissing?: string;
  maxUnseen?: string;
  maxOutOfRange?: string;
  maxPsi?: string;
  maxScorePsi?: number;
  minRows?: number;
  report?: string;
  json?: boolean;
  quiet?: boolean;
}

export interface PlanFlags {
  shards?: number;
  output: string;
  inputFormat?: 'csv' | 'tsv' | 'ndjson' | 'json' | 'parquet' | 'arrow';
  inputCompression?: 'none' | 'gzip' | 'zstd';
  delimiter?: 'tab' | 'comma' | 'semicolon' | 'pipe';
  maxRowBytes?: number;
  blockBytes?: number;
  by?: string;
  model?: string;
  interpretation?: boolean;
  interactions?: number;
  passthrough?: string;
  registry?: string;
  workers?: number;
  json?: boolean;
  quiet?: boolean;
}

export interface MergeFlags {
  parts: string;
  output: string;
  rejects?: string;
  leaveParts?: boolean;
  allowEmpty?: boolean;
  noManifest?: boolean;
  signKey?: string;
  maxRejects?: number;
  maxMissing?: string;
  maxUnseen?: string;
  maxOutOfRange?: string;
  maxPsi?: string;
  maxScorePsi?: number;
  minRows?: number;
  registry?: string;
  json?: boolean;
  quiet?: boolean;
}

export interface ExplainFlags {
  row: number;
  model: string;
  inputFormat?: 'csv' | 'tsv' | 'ndjson' | 'json' | 'parquet' | 'arrow';
  delimiter?: 'tab' | 'comma' | 'semicolon' | 'pipe';
  columns?: string;
  rename?: string;
  ignore?: string;
  constants?: string;
  encoding?: 'utf-8' | 'latin1' | 'windows-1252' | 'utf-16' | 'utf-16le' | 'utf-16be';
  decimal?: 'point' | 'comma';
  thousands?: 'point' | 'comma' | 'space' | 'apostrophe';
  trim?: boolean;
  nullValues?: string;
  top: number;
  interactions: number;
  html?: string;
  registry?: string;
  json?: boolean;
}

export interface GenerateFlags {
  rows: number;
  seed: number;
  output: string;
  delimiter?: 'tab' | 'comma' | 'semicolon' | 'pipe';
  faults: number;
  faultsJson?: string;
  outcome?: boolean;
  ids?: boolean;
  clean?: boolean;
  drift?: boolean;
}

export interface DemoFlags {
  rows: number;
  folder: string;
}

export interface ShardsFlags {
  shards: number;
  work: string;
  output: string;
  planWait: number;
  keepParts?: boolean;
  model: string;
  shard?: number;
  passthrough?: string;
  interpretation?: boolean;
  top?: number;
  interpretBelow?: number;
  interactions?: number;
  maxEvaluations?: number;
  registry?: string;
  workers?: number;
  evaluator?: 'auto' | 'onnxruntime' | 'native';
  maxColumns?: number;
  requireLock?: boolean;
  requireSignature?: string;
  requireSigner?: string;
  requireApproval?: string;
  deadline?: string;
  metricsFile?: string;
  pushGateway?: string;
  inputFormat?: 'csv' | 'tsv' | 'ndjson' | 'json' | 'parquet' | 'arrow';
  inputCompression?: 'none' | 'gzip' | 'zstd';
  delimiter?: 'tab' | 'comma' | 'semicolon' | 'pipe';
  maxRowBytes?: number;
  blockBytes?: number;
  rejects?: string;
  allowEmpty?: boolean;
  noManifest?: boolean;
  signKey?: string;
  json?: boolean;
  quiet?: boolean;
  maxRejects?: number;
  maxMissing?: string;
  maxUnseen?: string;
  maxOutOfRange?: string;
  maxPsi?: string;
  maxScorePsi?: number;
  minRows?: number;
}

export interface VerifyFlags {
  input?: string;
  list?: string;
  package?: string;
  registry?: string;
  key?: string;
  writtenAs?: string;
  json?: boolean;
}

export interface ReplayFlags {
  row: number;
  input?: string;
  package?: string;
  registry?: string;
  key?: string;
  json?: boolean;
}

export interface RunFlags {
  dryRun?: boolean;
  metricsPort?: number;
  metricsHost: string;
  metricsFile?: string;
  pushGateway?: string;
  deadline?: string;
  restart?: boolean;
  stopMs: number;
  logFormat?: 'auto' | 'json' | 'text';
  logLevel?: 'debug' | 'info' | 'warn' | 'error';
  registry?: string;
  json?: boolean;
}

export interface LintFlags {
  schema?: boolean;
  registry?: string;
}

export interface TestFlags {
  registry?: string;
}

export interface DlqListFlags {
  code?: string;
  column?: string;
  pipeline?: string;
  key?: string;
  since?: string;
  until?: string;
  minAgeMs?: number;
  maxAttempt?: number;
  partition?: number;
  offsets?: string;
  limit: number;
  settled?: boolean;
  json?: boolean;
}

export interface DlqShowFlags {
  value?: boolean;
  json?: boolean;
}

export interface DlqCountFlags {
  code?: string;
  column?: string;
  pipeline?: string;
  key?: string;
  since?: string;
  until?: string;
  minAgeMs?: number;
  maxAttempt?: number;
  partition?: number;
  offsets?: string;
  by: 'code' | 'column' | 'pipeline' | 'topic' | 'attempt';
  json?: boolean;
}

export interface DlqReplayFlags {
  topic?: string;
  timestamp: 'now' | 'original';
  code?: string;
  column?: string;
  pipeline?: string;
  key?: string;
  since?: string;
  until?: string;
  minAgeMs?: number;
  maxAttempt?: number;
  partition?: number;
  offsets?: string;
  limit?: number;
  reopen?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

export interface DlqDropFlags {
  code?: string;
  column?: string;
  pipeline?: string;
  key?: string;
  since?: string;
  until?: string;
  minAgeMs?: number;
  maxAttempt?: number;
  partition?: number;
  offsets?: string;
  all?: boolean;
  limit?: number;
  reopen?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

export interface ModelAddFlags {
  trainingData: string;
  id?: string;
  asVersion?: string;
  outcome?: string;
  positiveClass?: string;
  ignore?: string;
  encoding?: string;
  expected?: string;
  expectedRows?: string;
  tolerance?: number;
  covers?: string;
  background?: string;
  backgroundRows?: number;
  policy?: string;
  force?: string;
  delimiter?: string;
  task?: 'binary' | 'multiclass' | 'regression' | 'score';
  output?: 'probability' | 'log_odds';
  scores?: string;
  description?: string;
  requireBatchInvariance?: boolean;
  alias?: string;
  signKey?: string;
  certificates?: string;
  registry?: string;
  dryRun?: boolean;
  json?: boolean;
}

export interface ModelNewVersionFlags {
  from: string;
  policy: string;
  reason?: string;
  asVersion?: string;
  signKey?: string;
  certificates?: string;
  who?: string;
  registry?: string;
  dryRun?: boolean;
  json?: boolean;
}

export interface ModelListFlags {
  registry?: string;
  json?: boolean;
}

export interface ModelShowFlags {
  audit?: boolean;
  key?: string;
  html?: string;
  registry?: string;
  json?: boolean;
}

export interface ModelVerifyFlags {
  registry?: string;
  json?: boolean;
}

export interface ModelDiffFlags {
  registry?: string;
  json?: boolean;
}

export interface ModelSealFlags {
  registry?: string;
}

export interface ModelSignFlags {
  key: string;
  certificates?: string;
  registry?: string;
}

export interface ModelVerifySignatureFlags {
  key?: string;
  certificates?: string;
  signer?: string;
  registry?: string;
  json?: boolean;
}

export interface ModelHistoryFlags {
  key?: string;
  registry?: string;
  json?: boolean;
}

export interface ModelApproveFlags {
  key?: string;
  reason?: string;
  who?: string;
  registry?: string;
}

export interface ModelRetireFlags {
  reason?: string;
  force?: string;
  signKey?: string;
  who?: string;
  registry?: string;
}

export interface ModelRemoveFlags {
  reason?: string;
  force?: string;
  signKey?: string;
  who?: string;
  registry?: string;
}

export interface ModelAliasFlags {
  remove?: boolean;
  who?: string;
  reason?: string;
  signKey?: string;
  registry?: string;
}

export interface OutcomesFlags {
  labels?: string;
  labelsTopic?: string;
  pipeline?: string;
  key?: string;
  labelKey?: string;
  outcome: string;
  positive: string;
  negative: string;
  month?: string;
  time?: string;
  model?: string;
  modelColumn?: string;
  probability: string;
  onDuplicate?: 'refuse' | 'last';
  format?: 'csv' | 'tsv' | 'ndjson' | 'json' | 'parquet' | 'arrow';
  delimiter?: 'tab' | 'comma' | 'semicolon' | 'pipe';
  labelsFormat?: 'csv' | 'tsv' | 'ndjson' | 'json' | 'parquet' | 'arrow';
  labelsDelimiter?: 'tab' | 'comma' | 'semicolon' | 'pipe';
  output?: string;
  metricsFile?: string;
  json?: boolean;
}

export interface ServeFlags {
  config?: string;
  set: string[];
  port?: number;
  registry?: string;
  logFormat?: 'auto' | 'json' | 'text';
  logLevel?: 'debug' | 'info' | 'warn' | 'error';
  dev?: boolean;
  certOut?: string;
}

export interface KeysCreateFlags {
  file: string;
  scopes: string;
  models?: string;
  days?: number;
}

export interface KeysListFlags {
  file: string;
}

export interface KeysRotateFlags {
  file: string;
  grace: string;
  days?: number;
}

export interface KeysRevokeFlags {
  file: string;
}

export interface AuditVerifyFlags {
  head?: string;
  json?: boolean;
}

export interface DoctorFlags {
  config?: string;
  pipeline?: string;
  registry?: string;
  json?: boolean;
}
