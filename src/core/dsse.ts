// The bytes that DSSE signs, and the type of an in-toto statement: https://github.com/secure-systems-lab/dsse/blob/v1.0.2/protocol.md

export const STATEMENT_TYPE = 'application/vnd.in-toto+json';

/** Type and payload, each preceded by its length. */
export function preAuthentication(payload: Uint8Array): Buffer {
  const head = `DSSEv1 ${STATEMENT_TYPE.length} ${STATEMENT_TYPE} ${payload.length} `;
  return Buffer.concat([Buffer.from(head), payload]);
}
