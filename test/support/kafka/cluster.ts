// A real Kafka of one or three nodes for as long as a test lasts: it dies with the process that started it.
import { type ChildProcess, spawn } from 'node:child_process';
import { pbkdf2Sync, randomBytes } from 'node:crypto';
import { cpSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { alterUserScramCredentialsV0, Connection, describeUserScramCredentialsV0 } from '@platformatic/kafka';
import type { Admin, Kafka } from 'kafkajs';
import { openKafkajs } from '../../../src/connectors/kafka/kafkajs/connect.ts';
import { freePorts } from '../ports.ts';
import { eventually, until } from '../until.ts';
import { type KafkaHome, kafkaHome } from './install.ts';
import { type ExtraSettings, type NodePorts, serverProperties } from './settings.ts';
import { sharedBrokerPort } from './shared-broker.ts';

/**
 * Ends the broker when its standard input closes, which the kernel does for us whatever happens here; the data goes too,
 * unless a word says that the node will be started again.
 */
const GUARD = `"$@" >>"$LOG" 2>&1 </dev/null & broker=$!; echo $broker; read -r word; kill -9 $broker 2>/dev/null
wait $broker 2>/dev/null; [ "$word" = keep ] || rm -rf "$FOLDER"`;

export interface ClusterOptions {
  nodes?: 1 | 3;
  /** Port of the first broker; default: any free one. */
  port?: number;
  settings?: ExtraSettings;
  /** Further flags of the Java machine, such as system properties. */
  javaFlags?: readonly string[];
}

interface Node {
  id: number;
  guard: ChildProcess;
  pid: number;
}

/** How long a broker may take to create a topic. The default of kafkajs is five seconds, which a busy machine exceeds. */
const CREATE_MS = 25_000;

/** A controller that has just started may not know all brokers yet: it then has too few for the replicas. */
async function createWhenBrokersAreKnown(create: () => Promise<boolean>): Promise<boolean> {
  const tried = await eventually(() =>
    create().catch((error: unknown) => {
      const { errors } = error as { errors?: readonly { type?: string }[] };
      if (errors?.some(({ type }) => type === 'INVALID_REPLICATION_FACTOR')) throw error;
      return { error };
    }),
  );
  if (typeof tried === 'object') throw tried.error;
  return tried;
}

/** `await using` ends it. */
export class KafkaCluster implements AsyncDisposable {
  readonly brokers: readonly string[];
  readonly folder: string;
  readonly #home: KafkaHome;
  readonly #ports: readonly NodePorts[];
  readonly #settings: ExtraSettings | undefined;
  readonly #javaFlags: readonly string[];
  readonly #nodes = new Map<number, Node>();
  readonly #shared: boolean;
  #admin: Admin | null = null;

  private constructor(home: KafkaHome, ports: readonly NodePorts[], options: ClusterOptions, shared = false) {
    this.#shared = shared;
    this.#home = home;
    this.#ports = ports;
    this.#settings = options.settings;
    this.#javaFlags = options.javaFlags ?? [];
    this.brokers = ports.map((p) => `127.0.0.1:${p.broker}`);
    this.folder = mkdtempSync(path.join(tmpdir(), 'sluice-kafka-'));
  }

  /**
   * The one broker of this run of the tests, for files that do nothing to the broker itself; it is started for the first of them, which saves the
   * others the seconds of a start. Topics and groups want names that no other file uses; `stop` ends just what this process has open.
   */
  static async shared(): Promise<KafkaCluster> {
    const port = await sharedBrokerPort();
    return new KafkaCluster(await kafkaHome(), [{ broker: port, controller: 0 }], {}, true);
  }

  static async start(options: ClusterOptions = {}): Promise<KafkaCluster> {
    const home = await kafkaHome();
    const count = options.nodes ?? 1;
    const free = await freePorts(count * 2);
    const ports = Array.from({ length: count }, (_, i) => ({ broker: free[i * 2]!, controller: free[i * 2 + 1]! }));
    if (options.port !== undefined) for (const [i, p] of ports.entries()) p.broker = options.port + i;
    const cluster = new KafkaCluster(home, ports, options);
    try {
      for (let node = 1; node <= count; node++) {
        cpSync(home.formatted(node), cluster.#data(node), { recursive: true });
      }
      await Promise.all(ports.map((_, i) => cluster.startNode(i + 1)));
      await cluster.ready();
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  /** A client without group or transactions, for what a test checks on its own. */
  client(): Kafka {
    return openKafkajs({ brokers: this.brokers }).kafka;
  }

  /** One admin connection, kept. */
  async admin(): Promise<Admin> {
    if (!this.#admin) {
      this.#admin = this.client().admin();
      await this.#admin.connect();
    }
    return this.#admin;
  }

  async createTopic(topic: string, partitions = 1, settings: Record<string, string> = {}): Promise<string> {
    const admin = await this.admin();
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
    const replicationFactor = this.#ports.length;
    const wanted = { topic, numPartitions: partitions, replicationFactor, configEntries };
    const made = await createWhenBrokersAreKnown(() =>
      admin.createTopics({ topics: [wanted], waitForLeaders: false, timeout: CREATE_MS }),
    );
    if (!made && this.#shared) throw new Error(`another test has a topic ${topic}`);
    await this.accepts(topic, partitions);
    return topic;
  }

  /**
   * Resolves when the leader of each of the `partitions` of a topic accepts requests. A broker names itself as leader a
   * little before, on a busy machine seconds before, and rejects records until then.
   */
  async accepts(topic: string, partitions: number): Promise<void> {
    await eventually(async () => {
      // A client for each attempt: kafkajs keeps what it heard of a topic, and asks for it also when it is deleted.
      const admin = this.client().admin();
      await admin.connect();
      const offsets = await admin.fetchTopicOffsets(topic).finally(() => admin.disconnect());
      if (offsets.length < partitions) throw new Error(`${topic} has ${offsets.length} of ${partitions} partitions`);
    });
  }

  async startNode(id: number): Promise<void> {
    const config = path.join(this.folder, `server-${id}.properties`);
    const settings = { node: id, ports: this.#ports, dataFolder: this.#data(id), extra: this.#settings };
    writeFileSync(config, serverProperties(settings));
    const log = path.join(this.folder, `server-${id}.log`);
    openSync(log, 'a');
    const flags = [...this.#home.javaFlags, ...this.#javaFlags];
    const java = ['java', ...flags, '-cp', this.#home.classPath, 'kafka.Kafka', config];
    const guard = spawn('sh', ['-c', GUARD, 'sh', ...java], {
      cwd: this.#home.folder,
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { ...process.env, LOG: log, FOLDER: this.folder },
    });
    guard.unref();
    const pid = await new Promise<number>((resolve, reject) => {
      guard.stdout!.once('data', (line: Buffer) => resolve(Number(line.toString())));
      guard.once('error', reject);
    });
    for (const pipe of [guard.stdin!, guard.stdout!]) (pipe as unknown as { unref(): void }).unref();
    this.#nodes.set(id, { id, guard, pid });
  }

  /** kill -9, as a power cut would. */
  async killNode(id: number): Promise<void> {
    if (this.#shared) throw new Error('others use this broker');
    const node = this.#nodes.get(id);
    if (!node) return;
    this.#nodes.delete(id);
    node.guard.ref();
    const gone = new Promise((resolve) => node.guard.once('exit', resolve));
    node.guard.stdin!.end('keep\n');
    await gone;
  }

  /** Resolves when every node that runs is part of the cluster. */
  async ready(): Promise<void> {
    const joined = async (): Promise<void> => {
      const admin = openKafkajs({ brokers: this.brokers, connectTimeoutMs: 500 }).kafka.admin({
        retry: { retries: 0 },
      });
      try {
        await admin.connect();
        const { brokers } = await admin.describeCluster();
        if (brokers.length !== this.#nodes.size) throw new Error(`${brokers.length} of ${this.#nodes.size} brokers`);
      } finally {
        await admin.disconnect().catch(() => {});
      }
    };
    await eventually(joined, 100).catch((error: unknown) => {
      throw new Error(`the broker did not start:\n${this.log()}`, { cause: error });
    });
  }

  /** Lets a user log in by SCRAM. Kafka's own tool would need a Java machine for it, and two CPU seconds. */
  async addScramUser(name: string, password: string, bits: 256 | 512): Promise<void> {
    const connection = new Connection('sluice-test');
    const [host, port] = this.brokers[0]!.split(':');
    await connection.connect(host!, Number(port));
    try {
      const [iterations, salt] = [4096, randomBytes(16)];
      const saltedPassword = pbkdf2Sync(password, salt, iterations, bits / 8, `sha${bits}`);
      const user = { name, mechanism: bits === 256 ? 1 : 2, iterations, salt, saltedPassword };
      await alterUserScramCredentialsV0.api.async(connection, [], [user]);
      // The controller has it before the broker.
      const known = () => describeUserScramCredentialsV0.api.async(connection, [{ name }]);
      await until(() => known().catch(() => null), `the broker knows the user ${name}`);
    } finally {
      await connection.close();
    }
  }

  /** Runs one of Kafka's own command line tools; gives its standard output. */
  async tool(main: string, args: readonly string[], input = ''): Promise<string> {
    const java = [...this.#home.javaFlags, '-cp', this.#home.classPath, main, ...args];
    const child = spawn('java', java, { cwd: this.#home.folder, stdio: ['pipe', 'pipe', 'pipe'] });
    child.stdin.on('error', () => {}).end(input);
    const [out, err, code] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      new Promise((resolve) => child.once('exit', resolve)),
    ]);
    if (code !== 0) throw new Error(`${main} ended with ${code}: ${err}`);
    return out;
  }

  /** The end of what the brokers said. */
  log(): string {
    if (this.#shared) return 'the log of a broker that is shared is not here';
    return this.#ports
      .map((_, i) => readFileSync(path.join(this.folder, `server-${i + 1}.log`), 'utf8').slice(-2000))
      .join('\n');
  }

  async stop(): Promise<void> {
    await this.#admin?.disconnect().catch(() => {});
    this.#admin = null;
    await Promise.all([...this.#nodes.keys()].map((id) => this.killNode(id)));
    rmSync(this.folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #data(node: number): string {
    return path.join(this.folder, `data-${node}`);
  }
}
