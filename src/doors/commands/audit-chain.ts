// `sluice audit`: verifies that audit logs are unchanged.
import type { Command } from 'commander';
import { verifyChain } from '../../audit/verify-chain.ts';
import { SluiceError } from '../../core/errors.ts';
import { count } from '../../monitor/progress.ts';
import { addFlags, COMMAND_GROUPS } from './flags/command-spec.ts';
import { type AuditVerifyFlags, SERVICE_COMMANDS } from './flags/service-flags.ts';

export function addAuditCommand(program: Command): void {
  const audit = program.command('audit').description(COMMAND_GROUPS.audit);
  addFlags(audit.command('verify'), SERVICE_COMMANDS['audit verify']).action(verifyAudit);
}

async function verifyAudit(files: string[], flags: AuditVerifyFlags): Promise<void> {
  const found = await verifyChain(files, flags.head ?? null);
  if (flags.json) process.stdout.write(`${JSON.stringify(found)}\n`);
  const { broken, records, first, last, closed, torn, lost } = found;
  if (broken) {
    const where = broken.line === 0 ? '' : `${broken.file}:${broken.line} `;
    throw new SluiceError('audit_broken', `${where}${broken.why}; ${count(records)} records before it are intact`);
  }
  if (flags.json) return;
  const told = [
    `${count(records)} records are intact and in order, ${first} to ${last.seq}`,
    ...(first > 1 ? [`records 1 to ${first - 1} are not in these files`] : []),
    ...torn.map(
      ({ file, line, bytes }) =>
        `${file}:${line} ${bytes} bytes of an incomplete record: a server was killed while writing it, and the next server marked it`,
    ),
    ...(lost > 0 ? [`the log reports ${count(lost)} records that could not be written`] : []),
    closed ? 'the server stopped normally' : 'the server is running or was killed, or the end of the log was cut off',
    `last hash ${last.sum}`,
  ];
  process.stdout.write(`${told.join('\n')}\n`);
}
