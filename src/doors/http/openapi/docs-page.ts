// The page /docs: the operations of the OpenAPI document with examples, as HTML that loads nothing and runs no script.
import { contentPolicy, styledHead } from '../../../core/html-policy.ts';
import { exampleBody, exampleOf } from './example-body.ts';
import type { OpenApiDocument, Operation } from './openapi.ts';

const html = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

// One click selects a whole example, because copying with a button needs a script.
const STYLE = `
:root{color-scheme:light dark;--paper:#fff;--ink:#1d2733;--soft:#566273;--line:#d6dde4;--card:#f4f6f9;--mark:#0b6b57}
@media(prefers-color-scheme:dark){:root{--paper:#14181f;--ink:#e6eaf0;--soft:#a3afbe;--line:#38424f;--card:#1d232c;--mark:#6fd3b8}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--paper)}
main,nav{padding:1rem}main{max-width:58rem;min-width:0}h1{margin:0;font-size:1.4rem}h2{margin:2rem 0 0;font-size:1.2rem}
section{border-top:1px solid var(--line);padding:.6rem 0}h3{font-size:1rem;margin:.4rem 0;overflow-wrap:anywhere}h4{font-size:.9rem;margin:.8rem 0 .2rem;color:var(--soft)}
h3 b,nav b{color:var(--mark);margin-right:.4rem}a{color:inherit}nav{font-size:.87rem;border-bottom:1px solid var(--line)}nav a{display:block;padding:.1rem 0;text-decoration:none;overflow-wrap:anywhere}nav a:hover{text-decoration:underline}nav p{margin:.8rem 0 .2rem;color:var(--soft)}
code,pre{font:.87rem/1.45 ui-monospace,monospace}pre{background:var(--card);padding:.6rem .8rem;margin:.2rem 0;overflow-x:auto;user-select:all;max-height:24rem}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.4rem 0}td{text-align:left;padding:.15rem 1rem .15rem 0;vertical-align:top}summary{cursor:pointer;color:var(--soft)}
@media(max-width:40rem){tr{display:block;padding:.3rem 0;border-top:1px solid var(--line)}td{display:inline;padding-right:.6rem}td:last-child{display:block}nav{max-height:14rem;overflow-y:auto}}
@media(min-width:60rem){body{display:grid;grid-template-columns:19rem 1fr}nav{position:sticky;top:0;height:100vh;overflow-y:auto;border-bottom:0;border-right:1px solid var(--line)}}`;

/** Sent as a header, because a meta element cannot forbid framing. */
export const DOCS_POLICY = `${contentPolicy(STYLE)}; frame-ancestors 'none'`;

interface Described {
  id: string;
  method: string;
  path: string;
  op: Operation;
}

export function docsPage({ info, paths, components }: OpenApiDocument): string {
  const byTag = new Map<string, Described[]>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, op] of Object.entries(methods)) {
      const tag = op.tags?.[0] ?? 'other';
      const id = `${method}${path}`.replaceAll(/[^\w.]+/g, '-');
      byTag.set(tag, [...(byTag.get(tag) ?? []), { id, method: method.toUpperCase(), path, op }]);
    }
  }
  const links = [...byTag].map(([tag, all]) => `<p>${html(tag)}</p>${all.map(link).join('')}`);
  const groups = [...byTag].map(([tag, all]) => `<h2>${html(tag)}</h2>${all.map((one) => section(one, components.schemas)).join('\n')}`); // biome-ignore format: one line
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
${styledHead(STYLE)}
<title>${html(info.title)} ${html(info.version)}</title></head><body><nav aria-label="operations"><details open><summary>Operations</summary>${links.join('')}</details></nav>
<main><h1>${html(info.title)} ${html(info.version)}</h1><p>${html(info.description)}
The whole document: <a href="/openapi.json">/openapi.json</a>. Every operation except health checks requires
<code>Authorization: API-Key &lt;token&gt;</code>.</p>
<p>The commands below read two variables. A click selects a whole example.</p>
<pre>export SLUICE_URL=https://scores.bank.example SLUICE_API_KEY=sluice_…</pre>
${groups.join('\n')}</main></body></html>
`;
}

const link = ({ id, method, path }: Described): string =>
  `<a href="#${id}"><b>${method}</b>${html(path).replaceAll(/[/_.]/g, '$&<wbr>')}</a>`;

function section({ id, method, path, op }: Described, schemas: Record<string, unknown>): string {
  const parameters = (op.parameters ?? []).map((p) => {
    const type = p.schema.enum?.join(' | ') ?? p.schema.type ?? '';
    return `<tr><td><code>${html(p.name)}</code></td><td>${p.required ? 'required' : ''}</td><td>${html(type)}</td><td>${html(p.description ?? '')}</td></tr>`;
  });
  const answers = Object.entries(op.responses).map(
    ([status, r]) =>
      `<tr><td><code>${status}</code></td><td>${html(r.description)}</td><td>${html(Object.keys(r.content ?? {}).join(', '))}</td></tr>`,
  );
  const table = (rows: readonly string[]): string => `<div class="wide"><table>${rows.join('')}</table></div>`;
  return `<section id="${id}"><h3><b>${method}</b> <code>${html(path)}</code></h3><p>${html(op.summary ?? '')}</p>
<pre>${html(curlCommand(method, path, op, schemas))}</pre>
${requests(op, schemas)}${parameters.length > 0 ? `<h4>Parameters</h4>${table(parameters)}` : ''}<h4>Responses</h4>${table(answers)}${responses(op, schemas)}</section>`;
}

function requests({ requestBody }: Operation, schemas: Record<string, unknown>): string {
  return Object.entries(requestBody?.content ?? {})
    .map(([type, content]) => {
      const example = exampleBody(type, content, schemas);
      return `<h4>Body: <code>${html(type)}</code></h4>${example === null ? '' : `<pre>${html(example)}</pre>`}`;
    })
    .join('');
}

/** The body of each successful response, and of the first error. */
function responses(op: Operation, schemas: Record<string, unknown>): string {
  const all = Object.entries(op.responses);
  const shown = [...all.filter(([status]) => status.startsWith('2')), ...all.filter(([status]) => /^[45]/.test(status)).slice(0, 1)]; // biome-ignore format: one line
  return shown
    .flatMap(([status, { content = {} }]) =>
      Object.entries(content).map(([type, one]) => {
        const example = exampleBody(type, one, schemas, true);
        return example === null ? '' : `<details><summary>Example of ${status}, ${html(type)}</summary><pre>${html(example)}</pre></details>`; // biome-ignore format: one line
      }),
    )
    .join('');
}

/** A command that calls the operation with its required parameters. */
function curlCommand(method: string, path: string, op: Operation, schemas: Record<string, unknown>): string {
  const value = (p: NonNullable<Operation['parameters']>[number]): string =>
    encodeURIComponent(String((p as { example?: unknown }).example ?? exampleOf(p.schema, schemas, p.name)));
  const parameters = op.parameters ?? [];
  const places = path.split('/').map((part) => {
    const known = parameters.find((p) => p.in === 'path' && part === `{${p.name}}`);
    return known ? value(known) : part;
  });
  const place = places.join('/');
  const asked = parameters.filter((p) => p.in === 'query' && p.required).map((p) => `${p.name}=${value(p)}`);
  const types = Object.keys(op.requestBody?.content ?? {});
  const [type] = types;
  if (type === 'text/csv') asked.push('delimiter=comma');
  const isOpen = op.security?.length === 0;
  return [
    `curl ${method === 'GET' ? '' : method === 'HEAD' ? '--head ' : `-X ${method} `}"$SLUICE_URL${place}${asked.length > 0 ? `?${asked.join('&')}` : ''}"`,
    ...(isOpen ? [] : ['-H "Authorization: API-Key $SLUICE_API_KEY"']),
    ...(type === undefined ? [] : type === 'multipart/form-data' ? ['-F file=@package.tar'] : [`-H 'Content-Type: ${type}'`, bodyFlag(type, op, schemas)]), // biome-ignore format: one line
  ].join(' \\\n  ');
}

function bodyFlag(type: string, op: Operation, schemas: Record<string, unknown>): string {
  const example = exampleBody(type, op.requestBody!.content[type], schemas);
  if (example === null) return '--data-binary @body';
  const text = type.endsWith('json') && !type.includes('ndjson') ? JSON.stringify(JSON.parse(example)) : example;
  // A shell ends a quoted text at an apostrophe.
  return `--data-binary '${text.replaceAll("'", "'\\''")}'`;
}
