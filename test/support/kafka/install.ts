// Gets the broker of the tests ready once: jars by Maven, formatted storage, a class archive that halves the start.
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from '../ports.ts';
import { missingTools } from '../tools.ts';
import { serverProperties } from './settings.ts';

const run = promisify(execFile);
const POM = path.join(import.meta.dirname, 'pom.xml');
const CLUSTER_ID = 'c2x1aWNlLXRlc3QtMDAwMQ';
/** Nodes a cluster of the tests has at most. */
export const MAX_NODES = 3;

export interface KafkaHome {
  folder: string;
  classPath: string;
  /** Formatted storage of a node, to be copied. */
  formatted(node: number): string;
  /** Flags of the Java machine, with the class archive where there is one. */
  javaFlags: readonly string[];
}

/** What is missing on this machine, null when nothing is. Maven fetches the broker once. */
export function whatIsMissing(): string | null {
  return existsSync(folder()) ? missingTools('Java 17 or newer') : missingTools('Java 17 or newer', 'Maven');
}

/** Named after what is installed, so that another version gets another folder. */
function folder(): string {
  const hash = createHash('sha256').update(readFileSync(POM)).digest('hex').slice(0, 12);
  return path.resolve(import.meta.dirname, '../../../.cache/kafka', hash);
}

/** Installs on first use (half a minute and 60 MB), in a folder of its own that is renamed when it is whole. */
export async function kafkaHome(): Promise<KafkaHome> {
  const home = folder();
  if (!existsSync(home)) {
    mkdirSync(path.dirname(home), { recursive: true });
    const making = mkdtempSync(`${home}-`);
    await install(making);
    try {
      renameSync(making, home);
    } catch (error) {
      rmSync(making, { recursive: true, force: true });
      // Another test process was faster.
      if (!existsSync(home)) throw error;
    }
  }
  return describe(home);
}

function describe(home: string): KafkaHome {
  const archive = path.join(home, 'classes.jsa');
  return {
    folder: home,
    // Listed in full, since a class archive wants the same path each time.
    classPath: readdirSync(path.join(home, 'lib'))
      .sort()
      .map((jar) => path.join('lib', jar))
      .join(':'),
    formatted: (node) => path.join(home, `formatted-${node}`),
    javaFlags: [
      '-Xmx320m',
      '-XX:+UseSerialGC',
      '-XX:TieredStopAtLevel=1',
      '-Xshare:auto',
      `-Dlog4j2.configurationFile=${path.join(home, 'log4j2.properties')}`,
      ...(existsSync(archive) ? ['-XX:SharedArchiveFile=classes.jsa', '-Xlog:cds=off', '-Xlog:cds+dynamic=off'] : []),
    ],
  };
}

async function install(home: string): Promise<void> {
  await run('mvn', [
    ...['-q', '-B', '-ntp', '-f', POM, 'dependency:copy-dependencies'],
    ...['-DincludeScope=runtime', `-DoutputDirectory=${path.join(home, 'lib')}`],
  ]);
  writeFileSync(path.join(home, 'log4j2.properties'), LOGGING);
  const made = describe(home);
  for (let node = 1; node <= MAX_NODES; node++) {
    const config = path.join(home, 'format.properties');
    const ports = Array.from({ length: MAX_NODES }, (_, i) => ({ broker: 19092 + i, controller: 19192 + i }));
    writeFileSync(config, serverProperties({ node, ports, dataFolder: made.formatted(node) }));
    const format = ['kafka.tools.StorageTool', 'format', '-t', CLUSTER_ID, '-c', config];
    await run('java', [...made.javaFlags, '-cp', made.classPath, ...format], { cwd: home });
  }
  await archiveClasses(home, made);
}

/** Runs a broker once and keeps the classes it loaded. Without the archive everything works, a second slower. */
async function archiveClasses(home: string, made: KafkaHome): Promise<void> {
  const [broker, controller] = await freePorts(2);
  const config = path.join(home, 'archive.properties');
  const dataFolder = path.join(home, 'archive-data');
  const formatting = path.join(home, 'archive-format.properties');
  const properties = serverProperties({ node: 1, ports: [{ broker: broker!, controller: controller! }], dataFolder });
  writeFileSync(config, properties);
  writeFileSync(formatting, properties);
  const format = ['kafka.tools.StorageTool', 'format', '-t', CLUSTER_ID, '-c', formatting];
  await run('java', [...made.javaFlags, '-cp', made.classPath, ...format], { cwd: home });
  const flags = [...made.javaFlags, '-XX:ArchiveClassesAtExit=classes.jsa', '-cp', made.classPath];
  const child = spawn('java', [...flags, 'kafka.Kafka', config], { cwd: home, stdio: 'ignore' });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  await new Promise((resolve) => setTimeout(resolve, 6_000));
  child.kill('SIGTERM');
  await exited;
  rmSync(dataFolder, { recursive: true, force: true });
}

const LOGGING = `rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
`;
