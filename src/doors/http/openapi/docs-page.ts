// The page /docs: the operations of the OpenAPI document as HTML that loads nothing from other origins.
import { contentPolicy, styledHead } from '../../../core/html-policy.ts';
import type { OpenApiDocument, Operation } from './openapi.ts';

const html = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

const STYLE = `
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1d2733}
h1{margin-bottom:0}section{border-top:1px solid #d6dde4;padding:.6rem 0}code{font-size:.92em}
h2{font-size:1.05rem;margin:.4rem 0}b{color:#0b6b57;display:inline-block;min-width:3.6rem}
table{border-collapse:collapse;margin:.4rem 0}td,th{text-align:left;padding:.15rem 1rem .15rem 0;vertical-align:top;font-weight:400}
th{color:#5b6b7a}`;

/** Sent as a header, because a meta element cannot forbid framing. */
export const DOCS_POLICY = `${contentPolicy(STYLE)}; frame-ancestors 'none'`;

export function docsPage({ info, paths }: OpenApiDocument): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, op]) => section(method.toUpperCase(), path, op)),
  );
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
${styledHead(STYLE)}
<title>${info.title} ${info.version}</title></head><body><h1>${info.title} ${info.version}</h1><p>${html(info.description)}
The whole document: <a href="/openapi.json">/openapi.json</a>. Every operation except health checks requires
<code>Authorization: API-Key &lt;token&gt;</code>.</p>
${operations.join('\n')}</body></html>
`;
}

function section(method: string, path: string, op: Operation): string {
  const parameters = (op.parameters ?? []).map((p) => {
    const type = p.schema.enum?.join(' | ') ?? p.schema.type ?? '';
    return `<tr><td><code>${html(p.name)}</code></td><td>${p.required ? 'required' : ''}</td><td>${html(type)}</td><td>${html(p.description ?? '')}</td></tr>`;
  });
  const answers = Object.entries(op.responses).map(
    ([status, r]) =>
      `<tr><td><code>${status}</code></td><td>${html(r.description)}</td><td>${Object.keys(r.content ?? {})
        .map(html)
        .join(', ')}</td></tr>`,
  );
  const body = op.requestBody
    ? `<p>Body: ${Object.keys(op.requestBody.content)
        .map((t) => `<code>${html(t)}</code>`)
        .join(' or ')}</p>`
    : '';
  return `<section><h2><b>${method}</b> <code>${html(path)}</code></h2><p>${html(op.summary ?? '')}</p>
${parameters.length > 0 ? `<table>${parameters.join('')}</table>` : ''}${body}<table>${answers.join('')}</table></section>`;
}
