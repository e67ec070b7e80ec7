// Which records of a fetched partition belong to transactions that were aborted.

interface FetchedMessage {
  offset: string;
  isControlRecord?: boolean;
  batchContext?: { producerId: string | { toString(): string }; inTransaction: boolean };
}

export interface AbortedTransaction {
  producerId: string;
  firstOffset: string;
}

/**
 * The messages without those of aborted transactions; control records stay. `abortedTransactions` as the broker lists them: in any order,
 * and several of them may have begun before the first message.
 */
export function withoutAborted<M extends FetchedMessage>({
  messages,
  abortedTransactions,
}: {
  messages: readonly M[];
  abortedTransactions?: readonly AbortedTransaction[] | null;
}): M[] {
  const coming = (abortedTransactions ?? []).map((t) => ({ ...t, first: BigInt(t.firstOffset) }));
  if (coming.length === 0) return [...messages];
  coming.sort((a, b) => (a.first < b.first ? -1 : 1));
  const aborted = new Set<string>();
  let next = 0;
  return messages.filter(({ offset, isControlRecord, batchContext }) => {
    while (next < coming.length && coming[next]!.first <= BigInt(offset)) aborted.add(coming[next++]!.producerId);
    if (!batchContext?.inTransaction) return true;
    const producerId = String(batchContext.producerId);
    // The end of a transaction, whichever way: what the producer writes after it is of another one.
    if (isControlRecord) aborted.delete(producerId);
    return isControlRecord === true || !aborted.has(producerId);
  });
}
