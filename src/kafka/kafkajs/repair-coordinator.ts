// Looking for a coordinator, repaired: kafkajs asks one broker after the other and forgets why each refused, so that a missing permission
// reads "Failed to find group coordinator" and is tried for ever.

interface Broker {
  findGroupCoordinator(of: object): Promise<object>;
}

interface Cluster {
  brokerPool: { withBroker(ask: (at: { broker: Broker }) => Promise<unknown>): Promise<object | null> };
  retrier(work: (bail: (error: unknown) => void) => Promise<unknown>): Promise<unknown>;
}

type Refusal = Error & { type?: string };

/** `prototype`: of the cluster of kafkajs; `notFound`: the error it throws when no broker answers. */
export function repairCoordinator(prototype: object, notFound: new (message: string) => Error): void {
  async function findGroupCoordinatorMetadata(this: Cluster, of: object): Promise<object> {
    let refusal: Refusal | null = null;
    const found = await this.brokerPool.withBroker(({ broker }) =>
      this.retrier(async (bail) => {
        try {
          return await broker.findGroupCoordinator(of);
        } catch (error) {
          refusal = error as Refusal;
          if (refusal.type === 'GROUP_COORDINATOR_NOT_AVAILABLE') throw error;
          bail(error);
          return null;
        }
      }),
    );
    if (found) return found;
    const last = refusal as Refusal | null;
    throw last?.type?.endsWith('_AUTHORIZATION_FAILED') ? last : new notFound('Failed to find group coordinator');
  }
  Object.assign(prototype, { findGroupCoordinatorMetadata });
}
