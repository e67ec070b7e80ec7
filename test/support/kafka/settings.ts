// server.properties of a test broker: KRaft, small, and quick to notice members that are gone.
export interface NodePorts {
  broker: number;
  controller: number;
}

export type ExtraSettings = (usual: Readonly<Record<string, string>>) => Readonly<Record<string, string>>;

export interface ServerSettings {
  node: number;
  /** Of all nodes, in order of their ids from 1. */
  ports: readonly NodePorts[];
  dataFolder: string;
  /** Further settings, such as those of a login, made from the usual ones. */
  extra?: ExtraSettings | undefined;
}

export function serverProperties({ node, ports, dataFolder, extra }: ServerSettings): string {
  const own = ports[node - 1] ?? ports[0]!;
  const replicas = String(Math.min(ports.length, 3));
  const inSync = ports.length > 1 ? '2' : '1';
  const settings: Record<string, string> = {
    'process.roles': 'broker,controller',
    'node.id': String(node),
    'controller.quorum.voters': ports.map((p, i) => `${i + 1}@127.0.0.1:${p.controller}`).join(','),
    listeners: `PLAINTEXT://127.0.0.1:${own.broker},CONTROLLER://127.0.0.1:${own.controller}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${own.broker}`,
    'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT',
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'log.dirs': dataFolder,
    'num.network.threads': '2',
    'num.io.threads': '4',
    'num.partitions': '4',
    'default.replication.factor': replicas,
    'offsets.topic.replication.factor': replicas,
    'offsets.topic.num.partitions': '4',
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.num.partitions': '4',
    'transaction.state.log.min.isr': inSync,
    'share.coordinator.state.topic.replication.factor': replicas,
    'share.coordinator.state.topic.min.isr': inSync,
    'min.insync.replicas': inSync,
    'group.initial.rebalance.delay.ms': '0',
    'group.min.session.timeout.ms': '1000',
    'transaction.abort.timed.out.transaction.cleanup.interval.ms': '1000',
    'auto.create.topics.enable': 'false',
    'controlled.shutdown.enable': 'false',
    'broker.session.timeout.ms': '3000',
    'broker.heartbeat.interval.ms': '500',
    'controller.quorum.election.timeout.ms': '500',
    'controller.quorum.fetch.timeout.ms': '1500',
    'log.retention.check.interval.ms': '1000',
  };
  return Object.entries({ ...settings, ...extra?.(settings) })
    .map(([key, value]) => `${key}=${value}\n`)
    .join('');
}
