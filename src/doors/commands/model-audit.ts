// `sluice model show --audit`: prints an audit page for a version, as text, JSON or printable HTML.
import { writeFile } from 'node:fs/promises';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-system.ts';
import type { Audit, AuditSection, AuditTrust } from '../../onboarding/audit.ts';
import type { ModelShowFlags } from './flags/model-flags.ts';
import { readText } from './model-states.ts';
import { openRegistry } from './open-registry.ts';

export async function showAudit(ref: string, flags: ModelShowFlags): Promise<void> {
  const [{ auditOf }, { auditSections, auditText }] = await Promise.all([
    import('../../onboarding/audit.ts'),
    import('../../onboarding/audit.ts'),
  ]);
  const trust = flags.key === undefined ? null : await trustIn(flags.key);
  const registry = await openRegistry(flags.registry, { inspects: true });
  const model = await registry.resolve(ref);
  const entry = (await registry.list()).find((m) => m.id === model.manifest.id);
  const audit = await auditOf(model, { registry, entry, trust });
  if (flags.html !== undefined) await leavePage(flags.html, await auditPage(audit, auditSections(audit)));
  process.stdout.write(flags.json ? `${JSON.stringify(audit)}\n` : `${auditText(audit)}\n`);
}

/** Trusted keys, which verify journals and packages, and trusted certificates, which verify packages. */
async function trustIn(file: string): Promise<AuditTrust> {
  const [{ publicKeys }, { trustOf }] = await Promise.all([
    import('../../model/registry/trusted.ts'),
    import('../../model/signing/model-signature.ts'),
  ]);
  const pem = await readText(file);
  if (pem.includes('BEGIN CERTIFICATE')) return { file, keys: [], packages: [trustOf(pem, file)] };
  const keys = publicKeys(pem, file);
  return { file, keys, packages: keys.map((key) => ({ kind: 'key', key })) };
}

async function auditPage(audit: Audit, sections: readonly AuditSection[]): Promise<string> {
  const [{ auditVerdict }, { escapeText, factTable, htmlPage, verdictBox }] = await Promise.all([
    import('../../onboarding/audit.ts'),
    import('../../report/html-page.ts'),
  ]);
  const { level, headline, points } = auditVerdict(sections);
  const parts = sections.map(({ title, facts, lines, verdict }) => {
    const table = facts.length === 0 ? '' : factTable(facts);
    const list = lines.length === 0 ? '' : `<ul>${lines.map((line) => `<li>${escapeText(line)}</li>`).join('')}</ul>`;
    return `<section><h2>${escapeText(title)}</h2><p><b class="${verdict.level}">${MARKS[verdict.level]}</b> ${escapeText(verdict.text)}</p>${table}${list}</section>`;
  });
  parts.unshift(`<section>${verdictBox(level, headline, points)}</section>`);
  return htmlPage(`Audit of ${audit.model}, ${audit.asked.slice(0, 16).replace('T', ' ')} UTC`, parts);
}

const MARKS = { good: 'OK.', warn: 'Look.', bad: 'Problem.', none: 'Note.' } as const;

/** @throws SluiceError usage */
async function leavePage(file: string, page: string): Promise<void> {
  await writeFile(file, page).catch((cause: unknown) => {
    throw new SluiceError('usage', `${file} cannot be written: ${fileFault(cause)}`, { cause });
  });
}
