// Defences of the threat model (docs/threat-model.md) as changes of the source that take each away, and the test that has to fail then.

export interface Defence {
  name: string;
  file: string;
  /** Occurs once in the file. */
  find: string;
  /** The same without the defence. */
  replace: string;
  test: string;
}

const TENANTS = 'test/doors/http/tenants.test.ts';
const KEYS = 'test/doors/http/keys.test.ts';
const TOKENS = 'test/doors/http/tokens.test.ts';
const CERTIFICATES = 'test/doors/http/client-certificates.test.ts';
const SECURITY = 'test/doors/http/security.test.ts';
const AUDIT = 'test/doors/http/audit.test.ts';
const FILE_MODES = 'test/doors/http/file-modes.test.ts';
const SIGNATURES = 'test/model/signing/model-signature.test.ts';
const FOREIGN = 'test/proof/foreign-manifests.test.ts';
const PAGES = 'test/core/html-policy.test.ts';

export const DEFENCES: Defence[] = [
  {
    name: 'a key expires',
    file: 'src/doors/http/access/api-keys.ts',
    find: "if (expires !== null && !(expires > now)) return { refused: 'expired', name: key.name };",
    replace: '',
    test: KEYS,
  },
  {
    name: 'wrong keys are limited by address',
    file: 'src/doors/http/access/gatekeeper.ts',
    find: 'if (retryAfter !== null) {',
    replace: 'if (retryAfter === Number.NaN) {',
    test: KEYS,
  },
  {
    name: 'X-Forwarded-For is read from its end',
    file: 'src/doors/http/wire/client-address.ts',
    find: 'of said.reverse()',
    replace: 'of said',
    test: KEYS,
  },
  {
    name: 'no key has a name of another kind of caller',
    file: 'src/doors/http/access/keys-file.ts',
    find: 'if (taken !== undefined) refuse(',
    replace: 'if (taken === null) refuse(',
    test: KEYS,
  },
  {
    name: 'only proxies that are named, and only HTTPS',
    file: 'src/doors/http/wire/listener.ts',
    find: "if (!isListed(allowed, peerOf(request)) || proto !== 'https') {",
    replace: "if (proto === 'none') {",
    test: SECURITY,
  },
  {
    name: 'a scope',
    file: 'src/doors/http/access/permissions.ts',
    find: 'if (permits(identity, scope)) return;',
    replace: 'if (permits(identity, scope) || scope) return;',
    test: SECURITY,
  },
  {
    name: 'a model',
    file: 'src/doors/http/access/permissions.ts',
    find: 'if (permits(identity, request.routeOptions.config.scope!, parseReference(reference).id)) return;',
    replace: 'if (parseReference(reference)) return;',
    test: TENANTS,
  },
  {
    name: 'the key before the path',
    file: 'src/doors/http/server.ts',
    find: 'if (scope === undefined && (health || !needsKey(request))) return;',
    replace: 'if (scope === undefined) return;',
    test: TENANTS,
  },
  {
    name: 'the key before a malformed address',
    file: 'src/doors/http/server.ts',
    find: 'const login = needsKey(asking) ? await refusalOf(asking, options) : null;',
    replace: 'const login = null;',
    test: TENANTS,
  },
  {
    name: 'a pipeline of others does not exist',
    file: 'src/doors/http/routes/upload-pipelines.ts',
    find: 'if (permits(identity, scope, parseReference(model).id)) return pipeline;',
    replace: 'if (parseReference(model)) return pipeline;',
    test: TENANTS,
  },
  {
    name: 'metrics of the models of a key',
    file: 'src/doors/http/routes/service-routes.ts',
    find: 'return text(visibleSeries(request.identity!));',
    replace: 'return text(null);',
    test: TENANTS,
  },
  {
    name: 'a job of others does not exist',
    file: 'src/doors/http/jobs/job-access.ts',
    find: "const reason = job.owner !== identity.name ? 'owner' :",
    replace: 'const reason =',
    test: TENANTS,
  },
  {
    name: 'a job is gone with the permission for its model',
    file: 'src/doors/http/jobs/job-access.ts',
    find: "mayStillUse(identity, job, pipelines) ? null : 'model';",
    replace: "pipelines ? null : 'model';",
    test: TENANTS,
  },
  {
    name: 'lists leave out jobs whose model may not be used',
    file: 'src/doors/http/jobs/job-routes.ts',
    find: 'taken.filter((job) => jobs.isVisible(job, identity)).map(describeJob)',
    replace: 'taken.map(describeJob)',
    test: TENANTS,
  },
  {
    name: 'an upload of others does not exist',
    file: 'src/doors/http/jobs/resumable-uploads.ts',
    find: "assertOwn(exists ? upload.job : null, identity, pipelines, 'upload_not_found');",
    replace: "if (!exists) assertOwn(null, identity, pipelines, 'upload_not_found');",
    test: TENANTS,
  },
  {
    name: 'the audience of a token',
    file: 'src/doors/http/access/token-issuers.ts',
    find: 'audience: config.audience,',
    replace: '',
    test: TOKENS,
  },
  {
    name: 'an ID token is no access token',
    file: 'src/doors/http/access/token-issuers.ts',
    find: '...(config.token_type === ANY_TYPE ? {} : { typ: config.token_type }),',
    replace: '',
    test: TOKENS,
  },
  {
    name: 'an ID token shows by its claims',
    file: 'src/doors/http/access/token-issuers.ts',
    find: 'this.config.token_type === ANY_TYPE && isIdToken(claims)',
    replace: 'isIdToken({})',
    test: TOKENS,
  },
  {
    name: 'a bound token wants its certificate',
    file: 'src/doors/http/access/token-issuers.ts',
    find: 'this.#assertBound(claims, thumbprint);',
    replace: '',
    test: CERTIFICATES,
  },
  {
    name: 'a certificate of another authority',
    file: 'src/doors/http/wire/client-certificate.ts',
    find: 'if (!socket.authorized) return { refused: String(socket.authorizationError) };',
    replace: '',
    test: CERTIFICATES,
  },
  {
    name: 'a busy connection after a revocation',
    file: 'src/doors/http/wire/client-certificate.ts',
    find: 'if (known.generation !== this.#generation)',
    replace: 'if (known.generation < 0)',
    test: CERTIFICATES,
  },
  {
    name: 'forward secrecy at the start',
    file: 'src/doors/http/wire/listener.ts',
    find: '  ...certificate,\n  ...TLS_SETTINGS,',
    replace: "  ...certificate,\n  minVersion: 'TLSv1.2',",
    test: 'test/doors/http/tls-ciphers.test.ts',
  },
  {
    name: 'forward secrecy after a new certificate',
    file: 'src/doors/http/wire/listener.ts',
    find: '{ ...certificate, ...TLS_SETTINGS }',
    replace: "{ ...certificate, minVersion: 'TLSv1.2' }",
    test: 'test/doors/http/tls-ciphers.test.ts',
  },
  {
    name: 'two requests in one',
    file: 'src/doors/http/wire/listener.ts',
    find: 'insecureHTTPParser: false,',
    replace: 'insecureHTTPParser: true,',
    test: SECURITY,
  },
  {
    name: 'a coding that nobody undoes',
    file: 'src/doors/http/server.ts',
    find: "if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked') {",
    replace: "if (coding === 'none') {",
    test: 'test/doors/http/bodies.test.ts',
  },
  {
    name: 'pages of other origins',
    file: 'src/doors/http/wire/cross-origin.ts',
    find: 'if (origin === undefined || !(all || origins.includes(origin))) return false;',
    replace: 'if (origin === undefined) return false;',
    test: 'test/doors/http/cross-origin.test.ts',
  },
  {
    name: 'the operation in the audit log',
    file: 'src/doors/http/access/audit-trail.ts',
    find: 'method: story.method ?? request.method,',
    replace: 'method: request.method,',
    test: AUDIT,
  },
  {
    name: 'the target in the audit log',
    file: 'src/doors/http/server.ts',
    find: 'if (refused && options.audit) await noteRefusedTarget(request, error, host.registry);',
    replace: '',
    test: AUDIT,
  },
  {
    name: 'guesses on unknown paths in the audit log',
    file: 'src/doors/http/access/audit-trail.ts',
    find: "if (request.routeOptions.config?.scope === 'metrics' && login === null) return;",
    replace: 'if (!request.routeOptions.config?.scope || request.routeOptions.config.scope === "metrics") return;',
    test: AUDIT,
  },
  {
    name: 'no name of a client in the audit log',
    file: 'src/doors/http/access/refused-target.ts',
    find: 'if (!entry) return;',
    replace: 'if (!entry) request.story.model = named(reference);\n    if (!entry) return;',
    test: AUDIT,
  },
  {
    name: 'the chain of the audit log',
    file: 'src/audit/verify-chain.ts',
    find: 'return seq === this.#last.seq + 1 && prev === this.#last.sum;',
    replace: 'return seq === this.#last.seq + 1;',
    test: 'test/audit/chain.test.ts',
  },
  {
    name: 'results for their owner',
    file: 'src/doors/http/jobs/folder-files.ts',
    find: 'openFileSink(this.#result(id), PRIVATE_FILE)',
    replace: 'openFileSink(this.#result(id))',
    test: FILE_MODES,
  },
  {
    name: 'the table of jobs for its owner',
    file: 'src/doors/http/jobs/sqlite-jobs.ts',
    find: 'createPrivateFile(file);',
    replace: '',
    test: FILE_MODES,
  },
  {
    name: 'the folder of jobs for its owner',
    file: 'src/doors/http/jobs/open-jobs.ts',
    find: 'await restrictFolder(folder);',
    replace: '',
    test: FILE_MODES,
  },
  {
    name: 'keys for their owner',
    file: 'src/doors/http/access/keys-file.ts',
    find: '{ mode: 0o600, flush: true });\n    await chmod(temporary, 0o600);',
    replace: '{ flush: true });',
    test: FILE_MODES,
  },
  {
    name: 'the signature of a package',
    file: 'src/model/signing/model-signature.ts',
    find: 'if (!hash || !verify(hash, preAuthentication(payload), signed.key, signature)) {',
    replace: 'if (!hash) {',
    test: SIGNATURES,
  },
  {
    name: 'a certificate for TLS signs no package',
    file: 'src/model/signing/certificate-chains.ts',
    find: 'return (certificate.keyUsage ?? []).includes(CODE_SIGNING);',
    replace: 'return true;',
    test: SIGNATURES,
  },
  {
    name: 'an authority for TLS vouches for no signer',
    file: 'src/model/signing/certificate-chains.ts',
    find: 'if (!extension(certificate, EXTENDED_KEY_USAGE)) return true;\n  return',
    replace: 'return true;\n  return',
    test: SIGNATURES,
  },
  {
    name: 'the length of a path of certificates',
    file: 'src/model/signing/certificate-chains.ts',
    find: 'pathLengthOf(c) >= below && ',
    replace: '',
    test: SIGNATURES,
  },
  {
    name: 'a constraint that is not evaluated',
    file: 'src/model/signing/certificate-chains.ts',
    find: '  if (hasUnknownCritical(certificate)) return false;\n',
    replace: '',
    test: SIGNATURES,
  },
  {
    name: 'the names of signers',
    file: 'src/model/signing/model-signature.ts',
    find: 'if (trust.signers !== null && !hasName(signer!, trust.signers)) {',
    replace: 'if (trust.signers !== null && !hasName(signer!, []) && by === "") {',
    test: SIGNATURES,
  },
  {
    name: 'a lock where one is required',
    file: 'src/model/registry/trusted.ts',
    find: 'if (policy.require_lock && !model.locked) {',
    replace: 'if (policy.require_lock && model.ref === "") {',
    test: SIGNATURES,
  },
  {
    name: 'the chain of a journal',
    file: 'src/model/registry/journal.ts',
    find: 'if (entry.previous !== undefined && entry.previous !== (before ? hashOf(before, textOf) : null)) {',
    replace: 'if (entry.previous === "") {',
    test: 'test/model/registry/alias-journal.test.ts',
  },
  {
    name: 'an output of another day',
    file: 'src/runs/verify-output.ts',
    find: 'if (output.name !== name) {',
    replace: 'if (name === null) {',
    test: FOREIGN,
  },
  {
    name: 'the time in a signed manifest',
    file: 'src/runs/run-proof.ts',
    find: '...finishedNow(this.#of.key),',
    replace: '',
    test: FOREIGN,
  },
  {
    name: 'paths in a manifest',
    file: 'src/proof/statement.ts',
    find: "if (!names.every(isPlainName)) throw invalid('a name in it is a path');",
    replace: '',
    test: FOREIGN,
  },
  {
    name: 'paths in the description of a part',
    file: 'src/runs/shard-part.ts',
    find: 'if (part.rejects !== null && !isPlainName(part.rejects.name))',
    replace: 'if (part.rejects?.name === "")',
    test: FOREIGN,
  },
  {
    name: 'paths in a journal',
    file: 'src/io/sink/commit-journal.ts',
    find: ' && path.dirname(name) === path.dirname(target)',
    replace: '',
    test: FOREIGN,
  },
  {
    name: 'paths in a package',
    file: 'src/model/package/package-hash.ts',
    find: 'if (!isLeftOut(name)) continue;',
    replace: 'if (name) continue;',
    test: FOREIGN,
  },
  {
    name: 'a formula with @, a tab or CR',
    file: 'src/io/format/delimited.ts',
    find: 'const FORMULA = /^[=+\\-@\\t\\r]/;',
    replace: 'const FORMULA = /^[=+-]/;',
    test: 'test/io/format/predictions.test.ts',
  },
  {
    name: 'text of an input in an explanation',
    file: 'src/doors/commands/waterfall-page.ts',
    find: 'text.replace(/[&<>"\']/g, (c) =>',
    replace: 'text.replace(/\\0/g, (c) =>',
    test: PAGES,
  },
  {
    name: 'the policy of pages',
    file: 'src/core/html-policy.ts',
    find: "default-src 'none'; ",
    replace: '',
    test: PAGES,
  },
];
