// Opens the audit log of a service, registers the metrics of the log, and logs its position.
import { AuditLog } from '../../../audit/audit-log.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import { startInterval, stopTimer } from '../../../core/clock.ts';
import { faultFields, type Log, named, saysOf, words } from '../../../core/log.ts';
import type { Metrics } from '../../../monitor/metrics.ts';
import { AuditTrail } from './audit-trail.ts';
import { readAddresses } from './open-gate.ts';

const TELL_MS = 10 * 60_000;

export interface OpenedAudit {
  /** Null if audit is not configured. */
  trail: AuditTrail | null;
  close(): Promise<void>;
}

/** @throws SluiceError usage | folder_unusable | folder_in_use | audit_broken */
export async function openAudit(
  config: ServerConfig,
  { metrics, log }: { metrics: Metrics; log: Log },
): Promise<OpenedAudit> {
  if (!config.audit) return { trail: null, close: async () => {} };
  const { file, sync, max_bytes } = config.audit;
  const addressOf = readAddresses(config);
  metrics.auditFailed.set(0);
  const audit = await AuditLog.open({
    file,
    sync,
    maxBytes: max_bytes,
    onWritten: (records) => metrics.auditRecords.inc(records),
    onLost: () => metrics.auditLost.inc(),
    onFailed: (error) => {
      metrics.auditFailed.set(1);
      log('error', 'audit_failed', words`the audit log cannot be written: ${saysOf(error)}`, faultFields(error));
    },
    onRestored: () => {
      metrics.auditFailed.set(0);
      log('info', 'audit_restored', words`the audit log is writable again`);
    },
  });
  let told = 0;
  /** Logs the number and the hash of the last record, so that a truncation of the audit log can be detected. */
  const tell = (): void => {
    const { seq, sum } = audit.end;
    if (seq === told) return;
    told = seq;
    log('info', 'audit_head', words`the last record of the audit log is ${seq}`, { seq, sum: named(sum) });
  };
  tell();
  const timer = startInterval(tell, TELL_MS);
  timer.unref();
  return {
    trail: new AuditTrail({ config: config.audit, log: audit, addressOf }),
    close: async () => {
      stopTimer(timer);
      const lost = await audit.close();
      if (lost > 0)
        log('error', 'audit_failed', words`${lost} records of the audit log were not written before the stop`);
      tell();
    },
  };
}
