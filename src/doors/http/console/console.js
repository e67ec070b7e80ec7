// The console: one page for operators and auditors. All texts of the service are inserted as text nodes, never as HTML.

/** @typedef {Record<string, any>} Json */
/** @typedef {(string | number | Node | null | undefined | false | Content[])} Content */

// Elements

/**
 * @param {HTMLElement | SVGElement} node
 * @param {Json} props
 * @param {Content[]} children
 */
function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'value' && 'value' in node) node.value = value;
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...flat(children));
  return node;
}

/** @param {Content[]} children @returns {(string | Node)[]} */
const flat = (children) =>
  children.flatMap((child) => {
    if (child === null || child === undefined || child === false) return [];
    if (Array.isArray(child)) return flat(child);
    return [child instanceof Node ? child : String(child)];
  });

/** @param {string} tag @param {Json} [props] @param {...Content} children @returns {any} */
const h = (tag, props = {}, ...children) => fill(document.createElement(tag), props, children);

/** @param {string} tag @param {Json} [props] @param {...Content} children @returns {any} */
const svg = (tag, props = {}, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children);

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

/** Announces a text to screen readers. @param {string} text */
function announce(text) {
  byId('status').textContent = text;
}

// Formats

const LOCALE = 'en-GB';
/** @param {number | null | undefined} n */
const count = (n) => (n === null || n === undefined ? '–' : n.toLocaleString(LOCALE));
/** @param {number} share */
const percent = (share) => (share === 0 ? '0 %' : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`);
/** @param {string} iso */
const when = (iso) => new Date(iso).toLocaleString(LOCALE, { dateStyle: 'medium', timeStyle: 'short' });
/** @param {string} iso */
const time = (iso) => h('time', { datetime: iso, title: iso }, when(iso));
/** @param {number} n */
const decimal = (n, digits = 4) => Number(n.toFixed(digits)).toString();
/** @param {number} n */
const signed = (n) => `${n < 0 ? '−' : '+'}${Math.abs(n).toFixed(3)}`;

/** @param {number | null} seconds */
function span(seconds) {
  if (seconds === null) return '–';
  if (seconds < 1) return 'none';
  for (const [size, unit] of /** @type {[number, string][]} */ ([
    [86400, 'd'],
    [3600, 'h'],
    [60, 'min'],
  ])) {
    if (seconds >= size) return `${decimal(seconds / size, 1)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

/** @param {number} bytes */
function size(bytes) {
  const units = ['kB', 'MB', 'GB', 'TB'];
  let value = Math.ceil(bytes / 100) / 10;
  while (value >= 1000 && units.length > 1) {
    value /= 1000;
    units.shift();
  }
  return `${decimal(value, 1)} ${units[0]}`;
}

// Service

/** The caller. The credential is held in memory only. @type {{ authorization: string, caller: Json } | null} */
let session = null;
const BASE = new URL('..', import.meta.url);

class ApiError extends Error {
  /** @param {number} status @param {Json} problem @param {boolean} [waits] whether a later attempt may succeed */
  constructor(status, problem, waits = false) {
    super(problem.detail ?? `the service answered with status ${status}`);
    this.status = status;
    this.waits = waits;
    this.code = problem.code ?? '';
    this.problem = problem;
  }
}

/** @param {string} path @param {RequestInit} [options] @param {string} [authorization] @returns {Promise<Response>} */
async function call(path, options = {}, authorization = session?.authorization ?? '') {
  let response;
  try {
    const headers = { ...options.headers, authorization };
    response = await fetch(new URL(path, BASE), { ...options, headers, credentials: 'omit' });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, { detail: 'The service cannot be reached.' });
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401 && session) {
    session = null;
    render();
    announce('The key is no longer valid. Log in again.');
  }
  throw new ApiError(response.status, problem, response.status === 503 || response.headers.has('retry-after'));
}

/** @param {string} path @returns {Promise<Json>} */
const get = async (path) => (await call(path)).json();

/** Whether the caller has a scope. @param {string} scope */
const may = (scope) => session?.caller.scopes.includes(scope) ?? false;

/** @param {string} reference */
const ref = (reference) => encodeURIComponent(reference);

// Parts

/** @param {string} text @param {'good' | 'bad' | 'warn' | 'plain'} [tone] */
const badge = (text, tone = 'plain') => h('span', { class: `badge ${tone}` }, text);

/** @param {string} title @param {Json} props @param {...Content} children */
const card = (title, props, ...children) =>
  h(
    'section',
    { class: `card ${props.class ?? ''}`, 'aria-label': title },
    h('div', { class: 'head' }, h('h2', {}, title), props.aside),
    children,
  );

/** A table with a caption for screen readers. @param {string} caption @param {string[]} head @param {Content[][]} rows @param {string} [empty] */
function table(caption, head, rows, empty = 'Nothing to show.') {
  if (rows.length === 0) return h('p', { class: 'empty' }, empty);
  const cells = (/** @type {Content[]} */ row) =>
    row.map((cell, i) =>
      h(i === 0 ? 'th' : 'td', { scope: i === 0 && 'row', 'data-label': head[i] }, h('div', {}, cell)),
    );
  return h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `Table: ${caption}` },
    h(
      'table',
      {},
      h('caption', { class: 'sr' }, caption),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          head.map((name) => h('th', { scope: 'col' }, name)),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((row) => h('tr', {}, cells(row))),
      ),
    ),
  );
}

/** @param {[string, Content][]} facts */
const facts = (facts) =>
  h(
    'dl',
    { class: 'facts' },
    facts
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
  );

/** @param {unknown} error */
function problem(error) {
  const { message } = /** @type {Error} */ (error);
  const code = error instanceof ApiError && error.code !== '' ? ` [${error.code}]` : '';
  return h('p', { class: 'alert', role: 'alert' }, message, code);
}

/** @param {string} hash */
function hashText(hash) {
  const copy = async () => {
    await navigator.clipboard?.writeText(hash);
    announce('Copied.');
  };
  return h(
    'span',
    { class: 'hash' },
    h('code', {}, hash),
    navigator.clipboard
      ? h('button', { type: 'button', class: 'small', onclick: copy, 'aria-label': 'Copy the hash' }, 'Copy')
      : null,
  );
}

/** @param {string} label */
function grafana(label) {
  const address = session?.caller.links?.grafana;
  return address
    ? h('a', { href: address, target: '_blank', rel: 'noreferrer', 'aria-label': `Grafana: ${label}` }, 'Grafana ↗')
    : null;
}

/** Shows a part as soon as it is loaded, and again when its data changed. @param {() => Promise<any>} load @param {(data: any) => Content} show @param {number} [everyMs] */
function live(load, show, everyMs = 0) {
  const place = h('div', { 'aria-busy': 'true' }, h('p', { class: 'empty' }, 'Loading …'));
  let last = '';
  const update = async () => {
    let content;
    let seen;
    try {
      const data = await load();
      seen = JSON.stringify(data);
      if (seen === last) return;
      content = show(data);
    } catch (error) {
      seen = String(error);
      if (seen === last) return;
      content = problem(error);
    }
    last = seen;
    place.removeAttribute('aria-busy');
    place.replaceChildren(...flat([content]));
  };
  update();
  if (everyMs > 0) repeat(update, everyMs);
  return place;
}

/** Work that ends with the current view. @type {(() => void)[]} */
const onLeave = [];

/** @param {() => void} task @param {number} everyMs */
function repeat(task, everyMs) {
  const timer = setInterval(() => document.visibilityState === 'visible' && task(), everyMs);
  onLeave.push(() => clearInterval(timer));
}

// Views

/** @type {Record<string, { title: string, nav?: string, needs: string, show: (argument: string) => Content }>} */
const VIEWS = {
  overview: { title: 'Overview', nav: 'Overview', needs: '', show: showOverview },
  try: { title: 'Try one application', nav: 'Try', needs: 'predict', show: showTry },
  file: { title: 'Score a file', nav: 'File', needs: 'predict', show: showFile },
  drift: { title: 'Drift', nav: 'Drift', needs: 'models:read', show: showDrift },
  model: { title: 'Model', needs: 'models:read', show: showModel },
  run: { title: 'Run', needs: 'models:read', show: showRun },
};

function place() {
  const [name = '', ...rest] = location.hash.slice(1).split('/');
  let argument = rest.join('/');
  try {
    argument = decodeURIComponent(argument);
  } catch {
    argument = '';
  }
  return Object.hasOwn(VIEWS, name) ? { name, argument } : { name: 'overview', argument: '' };
}

function render() {
  for (const end of onLeave.splice(0)) end();
  const { name, argument } = place();
  const view = VIEWS[name];
  byId('top').replaceChildren(...flat([header(name)]));
  const main = byId('main');
  if (!session) {
    document.title = 'Log in – Sluice';
    main.replaceChildren(showLogin());
    return;
  }
  document.title = `${view.title} – Sluice`;
  const heading = h('h1', { tabindex: -1 }, name === 'model' ? `Model ${argument}` : view.title);
  const content =
    view.needs === '' || may(view.needs)
      ? view.show(argument)
      : h('p', { class: 'empty' }, `This key lacks the scope ${view.needs}.`);
  main.replaceChildren(...flat([heading, content]));
  heading.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** @param {string} current */
function header(current) {
  const brand = h(
    'a',
    { class: 'brand', href: '#overview' },
    h('img', { src: '/console/icon.svg', alt: '', width: 24, height: 24 }),
    'Sluice',
  );
  if (!session) return brand;
  const links = Object.entries(VIEWS).flatMap(([name, { nav }]) =>
    nav ? [h('a', { href: `#${name}`, 'aria-current': name === current && 'page' }, nav)] : [],
  );
  const logOut = () => {
    session = null;
    location.hash = '';
    render();
  };
  return [
    brand,
    h('nav', { 'aria-label': 'Views' }, links),
    h(
      'div',
      { class: 'who' },
      h('span', { title: session.caller.name }, session.caller.name),
      h('button', { type: 'button', onclick: logOut }, 'Log out'),
    ),
  ];
}

// Login

/** @type {Promise<Json>} */
const settings = fetch(new URL('console/settings.json', BASE)).then(
  (response) => response.json(),
  () => ({ logins: [] }),
);

/** @param {string} authorization */
async function enter(authorization) {
  const caller = await (await call('api/v1/whoami', {}, authorization)).json();
  session = { authorization, caller };
  render();
}

const BAD_KEY =
  'This key is not valid. Check that it is complete and is a key of this service. It may also have expired or been revoked.';

/** @param {string} [message] */
function showLogin(message) {
  const field = h('input', {
    id: 'key',
    type: 'password',
    autocomplete: 'off',
    required: true,
    spellcheck: 'false',
    'aria-describedby': 'key-note',
  });
  const failure = h('div', {}, message && h('p', { class: 'alert', role: 'alert' }, message));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    failure.replaceChildren();
    try {
      await enter(`API-Key ${field.value.trim()}`);
    } catch (error) {
      const rejected = error instanceof ApiError && error.status === 401;
      failure.replaceChildren(problem(rejected ? new Error(BAD_KEY) : error));
      field.setAttribute('aria-invalid', 'true');
      field.focus();
    }
  };
  const providers = h('div', { class: 'stack' });
  settings.then(({ logins }) => {
    for (const login of logins) {
      const go = () => leaveForLogin(login).catch((error) => failure.replaceChildren(problem(error)));
      providers.append(h('button', { type: 'button', onclick: go }, `Log in with ${login.name}`));
    }
  });
  return h(
    'div',
    { class: 'login card' },
    h('h1', {}, 'Log in'),
    h(
      'form',
      { class: 'stack', onsubmit: submit },
      h('label', { for: 'key' }, 'API key'),
      field,
      h(
        'p',
        { id: 'key-note', class: 'note' },
        'The key stays in the memory of this page. Closing or reloading the page forgets it.',
      ),
      h('button', { class: 'primary' }, 'Log in'),
    ),
    failure,
    providers,
  );
}

// Login through an identity provider: authorization code with PKCE (RFC 7636).

const PENDING = 'sluice-login';
const redirectAddress = () => new URL('console', BASE).href;

/** @param {ArrayBuffer | Uint8Array} bytes */
const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** @param {string} issuer @returns {Promise<Json>} */
async function discover(issuer) {
  const response = await fetch(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
  const found = await response.json();
  if (found.issuer !== issuer) throw new Error('The identity provider describes another issuer.');
  return found;
}

/** @param {Json} login */
async function leaveForLogin({ name, issuer, client_id, scope, resource }) {
  const { authorization_endpoint } = await discover(issuer);
  const [verifier, state] = [random(), random()];
  const challenge = base64url(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier)));
  // Only the verifier outlives the page, and only until the provider redirects back.
  sessionStorage.setItem(PENDING, JSON.stringify({ name, verifier, state, hash: location.hash }));
  const address = new URL(authorization_endpoint);
  const parameters = {
    response_type: 'code',
    client_id,
    scope,
    state,
    redirect_uri: redirectAddress(),
    code_challenge: challenge,
    code_challenge_method: 'S256',
    ...(resource && { resource }),
  };
  for (const [key, value] of Object.entries(parameters)) address.searchParams.set(key, value);
  location.assign(address);
}

/** Ends a login that the provider redirected back. */
async function returnFromLogin() {
  const answer = new URLSearchParams(location.search);
  const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? 'null');
  sessionStorage.removeItem(PENDING);
  if (!answer.has('state')) return;
  byId('main').replaceChildren(h('p', { class: 'empty' }, 'Logging in …'));
  history.replaceState(null, '', `${location.pathname}${pending?.hash ?? ''}`);
  if (!pending || answer.get('state') !== pending.state)
    throw new Error('The login was not started by this page. Start it again.');
  if (answer.has('error')) throw new Error(`The identity provider rejected the login: ${answer.get('error')}`);
  const login = (await settings).logins.find((/** @type {Json} */ one) => one.name === pending.name);
  const { token_endpoint } = await discover(login.issuer);
  const body = new URLSearchParams({
    grant_type: 'authorization_code',
    code: answer.get('code') ?? '',
    client_id: login.client_id,
    redirect_uri: redirectAddress(),
    code_verifier: pending.verifier,
    ...(login.resource && { resource: login.resource }),
  });
  const response = await fetch(token_endpoint, { method: 'POST', body });
  const { access_token } = await response.json();
  if (!access_token) throw new Error('The identity provider issued no access token.');
  await enter(`Bearer ${access_token}`);
}

// Overview

const REFRESH_MS = 5000;
/** An application that waits longer is late, seconds. */
const LATE_SECONDS = 60;

function showOverview() {
  const { name, scopes, models, limits } = session?.caller ?? {};
  const allowed = models['models:read'] ?? models.predict ?? null;
  const reads = may('models:read');
  return h(
    'div',
    { class: 'grid' },
    reads && card('Is anything wrong?', { class: 'wide' }, live(findConcerns, showConcerns, REFRESH_MS)),
    reads && card('Models', { class: 'wide', aside: grafana('models') }, live(loadModels, showModels)),
    reads &&
      card(
        'Pipelines',
        { class: 'wide', aside: grafana('pipelines') },
        live(() => get('api/v1/pipelines'), showPipelines, REFRESH_MS),
      ),
    reads &&
      card(
        'Recent runs',
        { class: 'wide', aside: grafana('runs') },
        live(() => get('api/v1/runs?limit=25'), showRuns, REFRESH_MS),
      ),
    may('jobs') &&
      card(
        'Jobs of this key',
        { class: 'wide', aside: grafana('jobs') },
        live(() => get('api/v1/scoring/jobs?limit=25'), showJobs, REFRESH_MS),
      ),
    card(
      'You',
      { class: 'wide' },
      facts([
        ['Name', name],
        ['May', scopes.map((/** @type {string} */ scope) => badge(scope))],
        ['Models', allowed === null ? 'all models' : allowed.join(', ')],
        [
          'Limits',
          `${count(limits.rows)} rows and ${size(limits.body_bytes)} per request, ${count(limits.concurrent_requests)} requests at once`,
        ],
      ]),
    ),
  );
}

async function findConcerns() {
  const [{ pipelines, unreachable }, { runs, recorded }] = await Promise.all([
    get('api/v1/pipelines'),
    get('api/v1/runs?limit=25'),
  ]);
  const newest = new Map();
  for (const run of runs) if (!newest.has(run.name)) newest.set(run.name, run);
  return { pipelines, unreachable, newest: [...newest.values()], recorded };
}

/** @param {Json} found */
function showConcerns({ pipelines, unreachable, newest, recorded }) {
  const concerns = [
    ...pipelines
      .filter(isLate)
      .map((/** @type {Json} */ p) => [
        badge('late', 'bad'),
        ` Pipeline ${p.name}: the oldest application has waited ${span(p.oldestSeconds)}, ${count(p.lag)} applications are waiting.`,
      ]),
    ...pipelines
      .filter((/** @type {Json} */ p) => !['running', 'accepts_uploads'].includes(p.state))
      .map((/** @type {Json} */ p) => [badge(STATES[p.state]?.[0] ?? p.state, 'bad'), ` Pipeline ${p.name}.`]),
    ...unreachable.map((/** @type {string} */ address) => [
      badge('unreachable', 'bad'),
      ` The process at ${address} does not answer, so its pipelines are unknown.`,
    ]),
    ...newest
      .filter((/** @type {Json} */ run) => ['failed', 'gate_stopped', 'killed'].includes(run.state))
      .map((/** @type {Json} */ run) => [
        badge(RUN_STATES[run.state][0], 'bad'),
        ' The last run of ',
        h('a', { href: `#run/${ref(run.id)}` }, run.name),
        `, ${when(run.began)}.`,
      ]),
    ...newest
      .filter((/** @type {Json} */ run) => run.outputs.some((/** @type {Json} */ o) => o.manifest.state === 'changed'))
      .map((/** @type {Json} */ run) => [
        badge('changed', 'bad'),
        ' The output of the last run of ',
        h('a', { href: `#run/${ref(run.id)}` }, run.name),
        ' was changed after the run.',
      ]),
  ];
  if (concerns.length > 0)
    return h(
      'ul',
      { class: 'concerns' },
      concerns.map((text) => h('li', {}, text)),
    );
  const topics = pipelines.filter((/** @type {Json} */ p) => p.kind === 'topic').length;
  const sentences = [
    topics === 0 ? 'No topic is watched.' : `No topic is late (${topics} watched).`,
    !recorded
      ? 'Runs are not recorded.'
      : newest.length === 0
        ? 'No run is recorded.'
        : 'The last run of every pipeline succeeded.',
  ];
  return h('p', {}, badge('no', 'good'), ` ${sentences.join(' ')}`);
}

/** @param {Json} pipeline */
const isLate = ({ oldestSeconds }) => oldestSeconds !== null && oldestSeconds > LATE_SECONDS;

async function loadModels() {
  const { models } = await get('api/v1/models');
  return Promise.all(
    models.map(async (/** @type {Json} */ model) => {
      const { history } = await get(`api/v1/models/${ref(model.id)}/aliases`).catch(() => ({ history: [] }));
      return { ...model, periods: periodsOf(history, 'champion') };
    }),
  );
}

/** The versions that an alias pointed to, oldest first, with the author and reason of each move. @param {Json[]} history @param {string} alias @returns {Json[]} */
function periodsOf(history, alias) {
  const moves = history.filter((move) => move.alias === alias);
  return moves.map((move, i) => ({
    version: move.to,
    from: move.at,
    to: moves[i + 1]?.at ?? null,
    who: move.who,
    why: move.why ?? null,
  }));
}

/** The periods that overlap yesterday, in local time. @param {Json[]} periods */
function yesterday(periods) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const start = new Date(midnight).setDate(new Date(midnight).getDate() - 1);
  return periods.filter(({ from, to }) => Date.parse(from) < midnight && (to === null || Date.parse(to) > start));
}

/** Author of a move that the history found in the file of the aliases. */
const BY_HAND = 'edited by hand';

/** @param {Json} period */
const moved = ({ who, from, why }) => [`${who}, `, time(from), why === null ? ' (no reason given)' : `: ${why}`];

/** @param {Json[]} models */
const showModels = (models) =>
  table(
    'Models',
    ['Model', 'Current version', 'Set by', 'Version yesterday', 'Versions', 'Other aliases'],
    models.map(({ id, versions, aliases, states, periods }) => {
      const now = aliases.champion;
      const last = periods.at(-1);
      const then = yesterday(periods);
      // An alias that was written by hand has no moves before it was first seen.
      const isRecorded = !now || (last && periods[0].who !== BY_HAND);
      const served = (versions ?? []).filter(
        (/** @type {string} */ v) => states?.[v] !== 'retired' && states?.[v] !== 'removed',
      );
      return [
        h('a', { href: `#model/${ref(id)}` }, id),
        now ? ['version ', h('b', {}, now)] : ['version ', h('b', {}, served.at(-1) ?? '–'), ' (newest; no champion)'],
        !now ? '–' : last ? moved(last) : 'not recorded',
        then.length === 0
          ? isRecorded
            ? 'no champion'
            : 'not recorded'
          : then.map(({ version, who }) =>
              h('div', {}, version === null ? 'no champion' : `version ${version}`, ` (${who})`),
            ),
        versions.join(', '),
        Object.entries(aliases)
          .filter(([alias]) => alias !== 'champion')
          .map(([alias, version]) => badge(`${alias} → ${version}`)),
      ];
    }),
    'This key permits no model.',
  );

/** @type {Record<string, [string, 'good' | 'bad' | 'warn' | 'plain']>} */
const STATES = {
  running: ['running', 'good'],
  accepts_uploads: ['accepts uploads', 'good'],
  paused: ['paused', 'bad'],
  model_unavailable: ['waits for its model', 'bad'],
  not_ready: ['not ready', 'warn'],
  unreachable: ['unreachable', 'bad'],
};

/** @param {Record<string, number> | undefined} codes */
const byCode = (codes) => {
  const entries = Object.entries(codes ?? {});
  return entries.length === 0 ? 'none' : entries.map(([code, n]) => `${code} ${count(n)}`).join(', ');
};

/** @param {Json} found */
const showPipelines = ({ pipelines, unreachable }) => [
  unreachable.map((/** @type {string} */ address) =>
    h('p', { class: 'alert' }, `The process at ${address} does not answer.`),
  ),
  table(
    'Pipelines',
    ['Pipeline', 'Model', 'State', 'Waiting', 'Oldest', 'Dead letters', 'Rows', 'Processes'],
    pipelines.map((/** @type {Json} */ p) => [
      p.name,
      p.model,
      [badge(...(STATES[p.state] ?? [p.state])), isLate(p) ? badge('late', 'bad') : null],
      count(p.lag),
      span(p.oldestSeconds),
      p.kind === 'topic' ? byCode(p.deadLetters) : '–',
      count(p.rows),
      p.members.length === 0 ? 'this service' : count(p.members.length),
    ]),
    'No pipeline is known. List the sluice run processes in the setting pipeline_members of the service.',
  ),
];

/** @param {Json} found */
const showJobs = ({ jobs }) =>
  table(
    'Jobs',
    ['Created', 'Model', 'State', 'Progress', 'Rows', 'Rejected', 'Error'],
    jobs.map((/** @type {Json} */ job) => [
      time(job.created),
      `${job.modelId}:${job.modelVersion}`,
      badge(job.state, job.state === 'failed' ? 'bad' : job.state === 'done' ? 'good' : 'plain'),
      percent(job.progress),
      count(job.summary.rows),
      count(job.summary.rejected),
      job.error ? `${job.error.message ?? ''} [${job.error.code}]` : '–',
    ]),
    'This key has no jobs.',
  );

/** @type {Record<string, [string, 'good' | 'bad' | 'warn' | 'plain']>} */
const RUN_STATES = {
  done: ['done', 'good'],
  rejected_rows: ['done, rows rejected', 'warn'],
  failed: ['failed', 'bad'],
  gate_stopped: ['stopped by the gate', 'bad'],
  running: ['running', 'plain'],
  killed: ['killed', 'bad'],
};

/** @type {Record<string, [string, 'good' | 'bad' | 'warn' | 'plain']>} */
const INTACT = {
  verified: ['intact', 'good'],
  changed: ['changed', 'bad'],
  replaced: ['replaced by a later run', 'plain'],
  missing: ['not readable by this server', 'warn'],
  none: ['no manifest', 'plain'],
  checking: ['checking …', 'plain'],
  not_checked: ['not checked', 'plain'],
};

/** @param {Json} run */
function intactCell({ id, outputs }) {
  if (outputs.length === 0) return 'nothing published';
  const worst =
    ['changed', 'missing', 'checking', 'not_checked', 'replaced', 'none', 'verified'].find((state) =>
      outputs.some((/** @type {Json} */ o) => o.manifest.state === state),
    ) ?? 'none';
  const content = worst === 'not_checked' ? 'check now' : badge(...INTACT[worst]);
  return h('a', { href: `#run/${ref(id)}`, title: 'Compare the files with their manifests' }, content);
}

/** @param {Json} found */
const showRuns = ({ runs, recorded }) =>
  table(
    'Recent runs',
    ['Began', 'Run', 'Model', 'State', 'Rows', 'Rejected', 'Files intact?'],
    runs.map((/** @type {Json} */ run) => [
      h('a', { href: `#run/${ref(run.id)}` }, time(run.began)),
      run.name,
      modelOf(run),
      badge(...(RUN_STATES[run.state] ?? [run.state])),
      count(run.rows),
      count(run.rejected),
      intactCell(run),
    ]),
    recorded
      ? 'No run is recorded yet.'
      : 'Runs are not recorded. Set run_records in the service, and --run-records or run_records for each run.',
  );

/** @param {Json} run */
const modelOf = ({ model }) => (model.version === null ? model.reference : `${model.id}:${model.version}`);

// One run

/** @param {string} id */
function showRun(id) {
  const load = () => get(`api/v1/runs/${ref(id)}`);
  return live(
    load,
    (run) => {
      announce(
        `Files: ${run.outputs.map((/** @type {Json} */ o) => INTACT[o.manifest.state]?.[0]).join(', ') || 'nothing published'}`,
      );
      return h(
        'div',
        { class: 'split' },
        runFacts(run),
        h('div', { class: 'stack' }, runFiles(run), runGate(run), runDrift(run)),
      );
    },
    2000,
  );
}

/** @param {Json} run */
const runFacts = (run) =>
  card(
    'What happened',
    {},
    facts([
      ['State', badge(...(RUN_STATES[run.state] ?? [run.state]))],
      // The lines after the first one are the table of the gate.
      ['Error', run.error && `${run.error.message.split('\n')[0]} [${run.error.code}]`],
      ['Exit code', count(run.exitCode)],
      ['Run', `${run.name} on ${run.host}`],
      ['Record', run.id],
      ['Began', time(run.began)],
      ['Ended', run.ended === null ? 'not ended' : time(run.ended)],
      ['Model', h('a', { href: `#model/${ref(modelOf(run))}` }, modelOf(run))],
      ['Package hash', run.model.packageSha256 && hashText(run.model.packageSha256)],
      ['Input', run.input],
      ['Rows', `${count(run.rows)} read = ${count(run.scored)} scored + ${count(run.rejected)} rejected`],
      ['Rejected by reason', byCode(run.rejectedByCode)],
      ['Report', run.report && h('code', {}, run.report)],
    ]),
  );

/** The end of a finding, which names flags of the command line. */
const NAMES_ROWS = '; to list the changed rows, pass --input and --package';

/** @param {Json} run */
function runFiles({ outputs, rejectLists }) {
  const rows = outputs.map((/** @type {Json} */ { path, manifest }) => [
    h('span', { class: 'path' }, path),
    [
      badge(...(INTACT[manifest.state] ?? [manifest.state])),
      manifest.findings.map((/** @type {string} */ text) => h('div', {}, text.replace(NAMES_ROWS, ''))),
    ],
    manifest.checked === null ? '–' : time(manifest.checked),
  ]);
  return card(
    'Are the files intact?',
    {},
    table('Outputs', ['Output', 'Compared with its manifest', 'Checked'], rows, 'The run published nothing.'),
    outputs.some((/** @type {Json} */ o) => o.manifest.findings.some((/** @type {string} */ f) => f.includes(NAMES_ROWS))) &&
      h('p', { class: 'note' }, 'The changed rows are named by ', h('code', {}, 'sluice verify OUTPUT --input INPUT --package FOLDER')), // biome-ignore format: one line
    rejectLists?.length > 0 && h('p', { class: 'note' }, `Rejected rows: ${rejectLists.join(', ')}`),
  );
}

/** @param {Json} run */
function runGate({ gate }) {
  if (!gate) return card('Gate', {}, h('p', { class: 'empty' }, 'The run had no gate.'));
  const several = gate.inputs.length > 1;
  const rows = gate.inputs.flatMap((/** @type {Json} */ input) =>
    input.exceeded.map((/** @type {Json} */ e) => [
      ...(several ? [h('span', { class: 'path' }, input.input)] : []),
      e.limit,
      e.column ?? 'whole input',
      decimal(e.found),
      decimal(e.allowed),
      e.training === null ? '–' : decimal(e.training),
    ]),
  );
  return card(
    'Gate',
    { aside: badge(gate.verdict, gate.verdict === 'passed' ? 'good' : 'bad') },
    table(
      'Exceeded limits',
      [...(several ? ['Input'] : []), 'Limit', 'Column', 'Found', 'Allowed', 'Training data'],
      rows,
      'No limit was exceeded.',
    ),
  );
}

/** @param {Json} run */
const runDrift = ({ drift, model }) =>
  card(
    'Which columns drift?',
    { aside: h('a', { href: `#drift/${ref(model.id)}` }, 'Drift now') },
    drift
      ? [
          h(
            'p',
            {},
            `PSI of the score: ${drift.scorePsi === null ? 'too few rows' : decimal(drift.scorePsi, 3)}. Columns with a PSI of ${DRIFTED_PSI} or more: ${count(drift.columnsDrifted)}.`,
          ),
          driftTable(drift.columns),
        ]
      : h('p', { class: 'empty' }, 'Nothing was measured: no row was scored, or the package has no baseline.'),
  );

/** The largest PSI first. @param {Json[]} columns */
const byPsi = (columns) => columns.toSorted((a, b) => (b.psi ?? -1) - (a.psi ?? -1));

/** @param {Json[]} columns */
const driftTable = (columns) =>
  table(
    'Columns that differ most from the training data',
    ['Column', 'PSI', 'Missing now', 'In training', 'Unseen'],
    byPsi(columns).map(({ column, psi, missing, missingInTraining, unseen }) => [
      column,
      psiBadge(psi),
      percent(missing),
      percent(missingInTraining),
      percent(unseen),
    ]),
  );

/** The levels of `PSI_LEVELS` in src/drift/drift-report.ts. */
const MOVED_PSI = 0.1;
const DRIFTED_PSI = 0.25;

/** @param {number | null} psi */
const psiBadge = (psi) =>
  psi === null
    ? 'too few rows'
    : badge(decimal(psi, 3), psi >= DRIFTED_PSI ? 'bad' : psi >= MOVED_PSI ? 'warn' : 'good');

// One model

/** @param {string} reference */
function showModel(reference) {
  const id = reference.split(/[:@]/)[0];
  return live(
    async () => ({
      model: await get(`api/v1/models/${ref(reference)}`),
      history: (await get(`api/v1/models/${ref(id)}/aliases`)).history,
    }),
    ({ model, history }) =>
      h(
        'div',
        { class: 'grid' },
        modelFacts(model),
        modelMoves(history, model),
        modelColumns(model),
        card(
          'Report card',
          { class: 'wide' },
          live(
            () => reportCard(reference),
            (text) =>
              h(
                'div',
                { class: 'text', tabindex: 0, role: 'region', 'aria-label': 'Text of the report card' },
                markdown(text),
              ),
          ),
        ),
      ),
  );
}

/** Headings, tables, lists and code of a report card as elements; anything else is text. @param {string} text @returns {Content[]} */
function markdown(text) {
  // The first heading repeats the title of the view.
  const blocks = text.split(/\n\n+/).filter((block) => block.trim() !== '' && !block.startsWith('# '));
  return blocks.map((block) => {
    const lines = block.trim().split('\n');
    const first = lines[0] ?? '';
    if (first.startsWith('#')) return h('h3', {}, codes(first.replace(/^#+ /, '')));
    if (lines.every((line) => line.startsWith('- ')))
      return h(
        'ul',
        {},
        lines.map((line) => h('li', {}, codes(line.slice(2)))),
      );
    if (!lines.every((line) => line.startsWith('|'))) return h('p', {}, codes(block.trim()));
    const [head = [], , ...rows] = lines.map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim())); // biome-ignore format: one line
    if (head.every((name) => name === '')) return facts(rows.map(([name = '', ...cells]) => [name, codes(cells.join('|'))])); // biome-ignore format: one line
    return table('Report card', head, rows.map((row) => row.map(codes))); // biome-ignore format: one line
  });
}

/** Texts between backticks as code. @param {string} text @returns {Content[]} */
const codes = (text) => text.split('`').map((part, i) => (i % 2 === 1 ? h('code', {}, part) : part));

/** @param {string} reference */
async function reportCard(reference) {
  try {
    const text = await (await call(`api/v1/models/${ref(reference)}/report-card`)).text();
    return text;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404)
      return 'The package has no report card: it was not registered with sluice model add.';
    throw error;
  }
}

/** @param {Json} model */
function modelFacts({ id, version, state, task, description, package_sha256, sha256, versions, states, aliases }) {
  const chips = versions.map((/** @type {string} */ v) =>
    h(
      'a',
      { class: 'chip', href: `#model/${ref(`${id}:${v}`)}`, 'aria-current': v === version && 'true' },
      `${v} ${states?.[v] ?? ''}`,
    ),
  );
  return card(
    'Version',
    { class: 'wide', aside: may('predict') && h('a', { href: `#try/${ref(`${id}:${version}`)}` }, 'Try it') },
    facts([
      ['Shown', [`version ${version} `, badge(state)]],
      ['All versions', chips],
      ['Aliases', Object.entries(aliases).map(([alias, v]) => badge(`${alias} → ${v}`))],
      ['Task', task],
      ['Description', description],
      ['Package hash', package_sha256 && hashText(package_sha256)],
      ['Model file hash', sha256 && hashText(sha256)],
      ['Drift', h('a', { href: `#drift/${ref(id)}` }, 'compared with the training data')],
    ]),
  );
}

/** @param {Json[]} history @param {Json} model */
function modelMoves(history, { aliases }) {
  const moved = [...new Set(history.map(({ alias }) => alias))];
  const rows = moved.flatMap((alias) =>
    periodsOf(history, alias)
      .reverse()
      .map(({ version, from, to, who, why }) => [
        alias,
        version === null ? 'removed' : `version ${version}`,
        time(from),
        to === null ? 'now' : time(to),
        who,
        why ?? 'no reason given',
      ]),
  );
  return card(
    'History of the aliases',
    { class: 'wide' },
    table(
      'Moves of aliases',
      ['Alias', 'Version', 'From', 'Until', 'By', 'Reason'],
      rows,
      Object.keys(aliases).length > 0
        ? 'No move is recorded: the aliases were written without sluice model alias.'
        : 'No alias was ever moved: a reference without a version means the newest one.',
    ),
  );
}

/** @param {Json} model */
const modelColumns = ({ columns }) =>
  card(
    `Columns (${columns.length})`,
    { class: 'wide' },
    table(
      'Columns',
      ['Column', 'Kind', 'Values', 'Required'],
      columns.map((/** @type {Json} */ c) => [c.name, c.kind, valuesOf(c), c.required ? 'yes' : 'may be missing']),
    ),
  );

/** @param {Json} column */
function valuesOf({ values, range, kind }) {
  if (range) return `${range[0]} to ${range[1]}`;
  if (!values) return kind === 'boolean' ? 'true, false' : 'any';
  const shown = values.slice(0, 12).join(', ');
  return values.length > 12 ? `${shown} and ${values.length - 12} more` : shown;
}

/** A list of the models, of which one is chosen. @param {string} chosen @param {(reference: string) => void} onChoose @returns {Promise<any>} */
async function modelPicker(chosen, onChoose) {
  const { models } = may('models:read') ? await get('api/v1/models') : { models: [] };
  const known = models.map((/** @type {Json} */ model) => model.id);
  const list = [...new Set([...(chosen ? [chosen] : []), ...known])];
  const select = h(
    'select',
    { id: 'model', onchange: () => onChoose(select.value) },
    list.map((id) => h('option', { value: id, selected: id === chosen }, id)),
  );
  if (list.length > 0) return select;
  return h('input', {
    id: 'model',
    placeholder: 'model id',
    onchange: (/** @type {any} */ event) => onChoose(event.target.value),
  });
}

// Charts

/** @param {number} value @param {number[]} from @param {number[]} to */
const scale = (value, [a, b], [c, d]) => c + ((value - a) / (b - a || 1)) * (d - c);

/** The width that a chart gets in a part of the page: charts are drawn in pixels, so that their texts stay legible. @param {HTMLElement} node */
const roomOf = (node) => Math.max(240, Math.min(640, node.clientWidth || 360));

/** A histogram as bars of equal width. @param {string} label @param {number[]} counts @param {string[]} ends @param {number} width */
function histogram(label, counts, ends, width) {
  const most = Math.max(1, ...counts);
  const height = 180;
  const step = width / counts.length;
  const bars = counts.map((n, i) => {
    const tall = (n / most) * (height - 24);
    const place = { class: 'bar', x: i * step + 1, width: step - 2, y: height - tall, height: tall };
    return svg('rect', place, svg('title', {}, `${count(n)} rows`));
  });
  const anchor = (/** @type {number} */ i) => (i === 0 ? 'start' : i === ends.length - 1 ? 'end' : 'middle');
  const axis = [
    svg('line', { class: 'axis', x1: 0, x2: width, y1: height, y2: height }),
    ends.map((text, i) => {
      const x = scale(i, [0, ends.length - 1], [0, width]);
      return svg('text', { x, y: height + 18, 'text-anchor': anchor(i) }, text);
    }),
    svg('text', { x: 0, y: 12 }, `largest bar: ${count(most)} rows`),
  ];
  const frame = { class: 'chart', viewBox: `0 0 ${width} ${height + 24}`, role: 'img', 'aria-label': label };
  return svg('svg', frame, bars, axis);
}

const MOST_BARS = 10;

/** The columns with the largest effects, and the sum of the others. @param {Json[]} effects @returns {{ label: string, effect: number }[]} */
function stepsOf(effects) {
  const steps = effects
    .slice(0, MOST_BARS)
    .map(({ column, value, effect }) => ({ label: `${column} = ${shortValue(value)}`, effect }));
  const others = effects.slice(MOST_BARS);
  if (others.length === 0) return steps;
  return [...steps, { label: `${others.length} other columns`, effect: others.reduce((sum, e) => sum + e.effect, 0) }];
}

/** @param {unknown} value */
function shortValue(value) {
  if (value === null || value === undefined) return 'missing';
  return typeof value === 'number' ? decimal(value, 2) : String(value);
}

/** The effects as steps from the base value to the prediction. @param {Json} interpretation @param {number} width */
function waterfall({ base, effects, space }, width) {
  let at = base;
  /** @type {{ label: string, effect: number, from: number, to: number }[]} */
  const bars = [];
  for (const { label, effect } of stepsOf(effects)) {
    bars.push({ label, effect, from: at, to: at + effect });
    at += effect;
  }
  const ends = [base, at, ...bars.flatMap(({ from, to }) => [from, to])];
  // Where there is little room, a label is above its bar.
  const narrow = width < 480;
  const [row, left, right] = narrow ? [40, 6, width - 62] : [26, Math.round(width * 0.42), width - 62];
  const x = (/** @type {number} */ value) => scale(value, [Math.min(...ends), Math.max(...ends)], [left, right]);
  const label = (/** @type {string} */ text, /** @type {number} */ y) => {
    const place = narrow ? { x: 0, y: y + 14 } : { x: left - 8, y: y + 17, 'text-anchor': 'end' };
    return svg('text', place, cut(text, Math.floor((narrow ? width : left) / 7)), svg('title', {}, text));
  };
  const top = (/** @type {number} */ y) => (narrow ? y + 20 : y + 5);
  const value = (/** @type {string} */ text, /** @type {number} */ y) =>
    svg('text', { class: 'value', x: width, y: top(y) + 12, 'text-anchor': 'end' }, text);
  const mark = (/** @type {string} */ text, /** @type {number} */ sum, /** @type {number} */ y) =>
    svg(
      'g',
      { class: 'sum' },
      label(text, y),
      svg('circle', { cx: x(sum), cy: top(y) + 8, r: 5 }),
      value(decimal(sum, 3), y),
    );
  const drawn = bars.map(({ label: text, effect, from, to }, i) => {
    const y = (i + 1) * row;
    const wide = Math.max(1, Math.abs(x(to) - x(from)));
    const bar = {
      class: effect < 0 ? 'minus' : 'plus',
      x: Math.min(x(from), x(to)),
      y: top(y),
      width: wide,
      height: 16,
      rx: 2,
    };
    const link = { class: 'link', x1: x(to), x2: x(to), y1: top(y), y2: top(y) + row };
    return svg('g', {}, svg('line', link), svg('rect', bar), label(text, y), value(signed(effect), y));
  });
  const steps = bars.map((bar) => `${bar.label} ${signed(bar.effect)}`).join(', ');
  const summary = `Effects in ${space}: base ${decimal(base, 3)}, ${steps}, sum ${decimal(at, 3)}`;
  const height = (bars.length + 2) * row + 8;
  const frame = { class: 'chart waterfall', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': summary };
  return svg(
    'svg',
    frame,
    mark('average application', base, 0),
    drawn,
    mark('this application', at, (bars.length + 1) * row),
  );
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// Try one application

/** Values for the form that another view hands over. @type {Json | null} */
let handedOver = null;
const DEBOUNCE_MS = 250;
/** Longer lists of categories become text fields with suggestions. */
const MOST_OPTIONS = 60;

/** @param {string} reference */
function showTry(reference) {
  const box = h('div', {}, h('p', { class: 'empty' }, 'Loading …'));
  const picker = h('div', { class: 'field' }, h('label', { for: 'model' }, 'Model'));
  modelPicker(reference, (chosen) => {
    location.hash = `try/${ref(chosen)}`;
  })
    .then(async (select) => {
      picker.append(select);
      if (!select.value) return box.replaceChildren(h('p', { class: 'empty' }, 'Choose a model.'));
      box.replaceChildren(...flat([await tryForm(select.value)]));
    })
    .catch((error) => box.replaceChildren(problem(error)));
  return [h('div', { class: 'bar-of-fields' }, picker), box];
}

/** @param {string} reference */
async function tryForm(reference) {
  const model = await get(`api/v1/models/${ref(reference)}`);
  const given = handedOver;
  handedOver = null;
  const values = { ...model.sample, ...given };
  const result = h('div', { class: 'stack' }, h('p', { class: 'empty' }, 'Scoring …'));
  const fields = model.columns.map((/** @type {Json} */ column, /** @type {number} */ i) =>
    fieldOf(column, `f${i}`, values[column.name]),
  );
  const score = scorer(reference, fields, result);
  let timer = 0;
  const onInput = () => {
    clearTimeout(timer);
    timer = setTimeout(score, DEBOUNCE_MS);
  };
  score();
  const form = h(
    'form',
    { class: 'fields', oninput: onInput, onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    fields.map((/** @type {Json} */ f) => f.node),
  );
  const paste = pasteBox(fields, score);
  return h(
    'div',
    { class: 'split' },
    card('Application', { aside: given ? badge('from your file') : badge('sample') }, paste, form),
    card('Decision', { class: 'sticky', aside: grafana('predictions') }, result),
  );
}

/** @param {Json} column @param {string} id @param {unknown} value */
function fieldOf(column, id, value) {
  const { name, kind, values, range, required } = column;
  const text = value === null || value === undefined ? '' : String(value);
  const error = h('p', { class: 'field-error', id: `${id}-e` });
  let input;
  if (kind === 'boolean')
    input = h(
      'select',
      { id },
      ['', 'true', 'false'].map((v) =>
        h('option', { value: v, selected: v === text.toLowerCase() }, v === '' ? '(missing)' : v),
      ),
    );
  else if (values && values.length <= MOST_OPTIONS) {
    const known = values.includes(text) || text === '' ? values : [text, ...values];
    input = h(
      'select',
      { id },
      h('option', { value: '', selected: text === '' }, '(missing)'),
      known.map((/** @type {string} */ v) => h('option', { value: v, selected: v === text }, v)),
    );
  } else
    input = h('input', {
      id,
      value: text,
      inputmode: kind === 'number' && 'decimal',
      autocomplete: 'off',
      list: values && `${id}-l`,
    });
  input.setAttribute('aria-describedby', `${id}-e`);
  const hint = kind === 'number' ? (range ? `number, ${range[0]} to ${range[1]}` : 'number') : kind;
  const node = h(
    'div',
    { class: 'field' },
    h('label', { for: id }, name, h('span', { class: 'hint' }, ` ${hint}${required ? ', required' : ''}`)),
    input,
    values &&
      values.length > MOST_OPTIONS &&
      h(
        'datalist',
        { id: `${id}-l` },
        values.slice(0, 500).map((/** @type {string} */ v) => h('option', { value: v })),
      ),
    error,
  );
  return { name, kind, input, error, node };
}

/** An empty field is a missing value; numbers and booleans are sent as text, whose reading the service defines. @param {Json[]} fields */
const applicationOf = (fields) =>
  Object.fromEntries(fields.map(({ name, input }) => [name, input.value === '' ? null : input.value]));

/** @param {string} reference @param {Json[]} fields @param {any} result */
function scorer(reference, fields, result) {
  let last = new AbortController();
  const path = may('interpret') ? 'predict/interpretation' : 'predict';
  return async () => {
    last.abort();
    const own = new AbortController();
    last = own;
    for (const { input, error } of fields) {
      input.removeAttribute('aria-invalid');
      error.textContent = '';
    }
    try {
      const body = JSON.stringify([applicationOf(fields)]);
      const headers = { 'content-type': 'application/json' };
      const options = { method: 'POST', body, headers, signal: own.signal };
      const response = await call(`api/v1/scoring/${path}.json?modelId=${ref(reference)}`, options);
      const { predictions, modelId, modelVersion } = await response.json();
      // Only the decision is read aloud, not every effect.
      announce(spoken(predictions[0]));
      result.replaceChildren(...flat([decisionOf(predictions[0], `${modelId}:${modelVersion}`, roomOf(result))]));
    } catch (error) {
      if (!own.signal.aborted) result.replaceChildren(...flat([rejection(error, fields)]));
    }
  };
}

/** @param {unknown} error @param {Json[]} fields */
function rejection(error, fields) {
  const details = error instanceof ApiError ? (error.problem.errors ?? []) : [];
  const own = details.filter((/** @type {Json} */ d) => {
    const field = fields.find(({ name }) => name === d.column);
    field?.input.setAttribute('aria-invalid', 'true');
    if (field) field.error.textContent = d.message;
    return true;
  });
  return own.length === 0
    ? problem(error)
    : [
        h('p', {}, badge('rejected', 'bad')),
        h(
          'ul',
          {},
          own.map((/** @type {Json} */ d) =>
            h('li', {}, d.column ? h('b', {}, `${d.column}: `) : null, `${d.message} [${d.code}]`),
          ),
        ),
      ];
}

/** @param {Json} prediction @param {string} model @param {number} width */
function decisionOf(prediction, model, width) {
  const { decision, probability, points, value, interpretation } = prediction;
  const score =
    probability === undefined
      ? value === undefined
        ? String(prediction.prediction)
        : decimal(value)
      : percent4(probability);
  const head = h(
    'div',
    { class: 'decision' },
    decision ? h('strong', { class: 'verdict' }, decision) : null,
    h(
      'span',
      { class: 'figure' },
      score,
      h(
        'small',
        {},
        probability === undefined
          ? 'value'
          : `probability of ${typeof prediction.prediction === 'boolean' ? 'ok' : prediction.prediction}`,
      ),
    ),
    points === undefined ? null : h('span', { class: 'figure' }, count(points), h('small', {}, 'points')),
    h('span', { class: 'figure' }, model, h('small', {}, 'model')),
  );
  if (!interpretation)
    return [
      head,
      h(
        'p',
        { class: 'note' },
        'Effects are not available: the key lacks the scope interpret, or the model has no background sample.',
      ),
    ];
  const reasons = interpretation.reasons ?? [];
  return [
    head,
    h('h3', {}, reasons.length > 0 ? 'Reasons against the application' : 'No reasons'),
    reasons.length > 0
      ? h(
          'ol',
          { class: 'reasons' },
          reasons.map((/** @type {Json} */ { code, column, text }) =>
            h('li', {}, badge(code), ' ', text || column, h('span', { class: 'hint' }, ` ${column}`)),
          ),
        )
      : h('p', { class: 'note' }, 'No column lowers the score, or the package has no reason texts.'),
    h('h3', {}, `What each column adds (${interpretation.space.replace('_', ' ')})`),
    waterfall(interpretation, width),
    h(
      'details',
      {},
      h('summary', {}, 'As a table'),
      table(
        'Effects',
        ['Column', 'Value', 'Effect'],
        interpretation.effects.map((/** @type {Json} */ e) => [
          e.column,
          e.value === null ? 'missing' : String(e.value),
          signed(e.effect),
        ]),
      ),
    ),
  ];
}

/** @param {Json} prediction */
const spoken = ({ decision, probability, value, prediction }) =>
  [decision, probability === undefined ? (value ?? prediction) : `probability ${percent4(probability)}`]
    .filter((part) => part !== undefined)
    .join(', ');

/** @param {number} p */
const percent4 = (p) => `${(100 * p).toFixed(2)} %`;

/** Fills the form from a JSON object, or from a header line and a data line. @param {Json[]} fields @param {() => void} onFilled */
function pasteBox(fields, onFilled) {
  const area = h('textarea', { id: 'paste', rows: 3, spellcheck: 'false', 'aria-describedby': 'paste-note' });
  const note = h(
    'p',
    { class: 'note', id: 'paste-note' },
    'A JSON object, or the header line of a file and one of its lines.',
  );
  const fillForm = () => {
    const found = pastedValues(area.value);
    if (!found) {
      note.textContent = 'This is neither a JSON object nor two lines of a delimited file.';
      return;
    }
    let matched = 0;
    for (const field of fields) {
      if (!Object.hasOwn(found, field.name)) continue;
      matched++;
      setField(field, found[field.name]);
    }
    note.textContent = `${matched} of ${fields.length} columns were filled.`;
    onFilled();
  };
  return h(
    'details',
    { class: 'paste' },
    h('summary', {}, 'Paste an application'),
    h('label', { for: 'paste' }, 'Application'),
    area,
    note,
    h('button', { type: 'button', onclick: fillForm }, 'Fill the form'),
  );
}

/** @param {Json} field @param {unknown} value */
function setField({ input }, value) {
  const text = value === null || value === undefined ? '' : String(value);
  if (input instanceof HTMLSelectElement && ![...input.options].some((option) => option.value === text)) {
    const same = [...input.options].find((option) => option.value.toLowerCase() === text.toLowerCase());
    if (same) {
      input.value = same.value;
      return;
    }
    input.append(h('option', { value: text }, text));
  }
  input.value = text;
}

/** @param {string} text @returns {Json | null} */
function pastedValues(text) {
  try {
    const value = JSON.parse(text);
    const one = Array.isArray(value) ? value[0] : value;
    if (one && typeof one === 'object') return one;
  } catch {
    // Not JSON.
  }
  const [head, row] = text.trim().split(/\r?\n/);
  if (row === undefined) return null;
  const delimiter = delimiterOf(head, []);
  const names = parseLine(head, delimiter);
  const cells = parseLine(row, delimiter);
  return Object.fromEntries(names.map((name, i) => [name, cells[i] ?? '']));
}

// Score a file

/** @type {Record<string, string>} */
const DELIMITERS = { ',': 'comma', ';': 'semicolon', '\t': 'tab', '|': 'pipe' };
const HEAD_BYTES = 256 * 1024;
const CHECKED_ROWS = 200;
/** The first slice is small, so that its results appear at once. */
const FIRST_SLICE = 128 * 1024;
const LARGEST_SLICE = 2 * 1024 * 1024;
/** A longer line ends the work, because slices are held in memory. */
const LONGEST_RECORD = 64 * 1024 * 1024;
const AT_ONCE = 2;
const MOST_TRIES = 6;
const BARS = 20;
const LISTED_REJECTS = 200;
const LISTED_PREDICTIONS = 20;

/** The delimiter with which a header has the most columns of the model. @param {string} line @param {string[]} known */
function delimiterOf(line, known) {
  const matches = (/** @type {string} */ d) =>
    parseLine(line, d).reduce((n, name) => n + (known.includes(name) ? 1000 : 1), 0);
  return Object.keys(DELIMITERS).reduce((best, d) => (matches(d) > matches(best) ? d : best));
}

/** The cells of a line of delimited text. @param {string} line @param {string} delimiter */
const parseLine = (line, delimiter) => parseTable(line, delimiter)[0] ?? [''];

/** The rows of delimited text (RFC 4180). @param {string} text @param {string} delimiter @returns {string[][]} */
function parseTable(text, delimiter) {
  const rows = [];
  let row = [];
  let i = 0;
  while (i < text.length) {
    let cell = '';
    if (text[i] === '"') {
      i++;
      for (;;) {
        const end = text.indexOf('"', i);
        cell += text.slice(i, end < 0 ? undefined : end);
        i = end < 0 ? text.length : end + 1;
        if (text[i] !== '"') break;
        cell += '"';
        i++;
      }
    }
    const start = i;
    while (i < text.length && text[i] !== delimiter && text[i] !== '\n') i++;
    cell += text.slice(start, text[i - 1] === '\r' && text[i] !== delimiter ? Math.max(start, i - 1) : i);
    row.push(cell);
    if (i >= text.length || text[i] === '\n') {
      rows.push(row);
      row = [];
    } else if (i === text.length - 1) row.push('');
    i++;
  }
  if (row.length > 0) rows.push(row);
  return rows;
}

/** @param {string[]} cells @param {string} delimiter */
const lineOf = (cells, delimiter) =>
  `${cells.map((cell) => (/["\r\n]/.test(cell) || cell.includes(delimiter) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(delimiter)}\n`;

/** @param {Blob & { name: string }} file @returns {ReadableStream<Uint8Array>} */
const contentOf = (file) =>
  /\.gz$/i.test(file.name)
    ? file.stream().pipeThrough(/** @type {any} */ (new DecompressionStream('gzip')))
    : file.stream();

/** @param {Blob & { name: string }} file */
async function headOf(file) {
  const parts = [];
  let bytes = 0;
  const reader = contentOf(file).getReader();
  while (bytes < HEAD_BYTES) {
    const { value, done } = await reader.read();
    if (done) break;
    parts.push(value);
    bytes += value.length;
  }
  await reader.cancel();
  return joined(parts).subarray(0, HEAD_BYTES);
}

/** @param {Uint8Array[]} parts */
function joined(parts) {
  const all = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** What a file contains, by its name and its first bytes. @param {Blob & { name: string }} file @param {Json} model @returns {Promise<Json>} */
async function inspect(file, model) {
  const head = await headOf(file);
  const name = file.name.replace(/\.gz$/i, '').toLowerCase();
  const [a, b, c, d] = head;
  if (head.length === 0) return { problems: ['The file is empty.'] };
  const isParquet = a === 0x50 && b === 0x41 && c === 0x52 && d === 0x31;
  // An Arrow file begins with its name, an Arrow stream with the mark of a message.
  const isArrow = (a === 0x41 && b === 0x52 && c === 0x52 && d === 0x4f) || (a & b & c & d) === 0xff;
  if ((isParquet || isArrow) && name !== file.name.toLowerCase())
    return { problems: ['A table in a gzip file: decompress it first.'] };
  if (isParquet) return inspectParquet(file, model);
  if (isArrow)
    return { problems: [], notes: ['The service compares the columns.'], extra: [], format: 'table', title: 'Arrow' };
  if ((a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff))
    return { problems: ['The file is UTF-16. Save it as UTF-8.'] };
  if (a === 0x50 && b === 0x4b) return { problems: ['This is a workbook or ZIP archive. Save it as CSV.'] };
  const bom = a === 0xef && b === 0xbb && c === 0xbf ? 3 : 0;
  const text = new TextDecoder('utf-8').decode(head.subarray(bom), { stream: true });
  // A record that is not UTF-8 is rejected by itself; a header that is not makes every name wrong.
  if (text.split('\n', 1)[0].includes('\uFFFD'))
    return { problems: ['The header is not UTF-8 text. Save the file as UTF-8.'] };
  if (/\.(ndjson|jsonl)$/.test(name) || text.trimStart().startsWith('{')) return inspectLines(text, model, bom);
  if (text.trimStart().startsWith('['))
    return { problems: ['This is one JSON array. Write one application per line (NDJSON).'] };
  return inspectTable(text, model, bom);
}

/** @param {string} text @param {Json} model @param {number} bom */
function inspectTable(text, model, bom) {
  const known = model.columns.map((/** @type {Json} */ c) => c.name);
  const end = text.indexOf('\n');
  const line = (end < 0 ? text : text.slice(0, end)).replace(/\r$/, '');
  const delimiter = delimiterOf(line, known);
  const names = parseLine(line, delimiter);
  const header = new TextEncoder().encode(`${line}\n`);
  const whole = text.slice(0, text.lastIndexOf('\n') + 1);
  const rows = parseTable(whole, delimiter).slice(1, CHECKED_ROWS + 1);
  const found = judgeColumns(names, model);
  const odd = rows.filter((row) => row.some((cell) => cell.includes('\uFFFD'))).length;
  const encoding =
    odd === 0 ? [] : [`${count(odd)} of the first ${count(rows.length)} rows are not UTF-8 text and will be rejected.`];
  return {
    ...found,
    notes: [...found.notes, ...encoding, ...judgeCells(names, rows, model)],
    format: 'csv',
    delimiter,
    names,
    header,
    skip: bom + (end < 0 ? header.length - 1 : new TextEncoder().encode(text.slice(0, end + 1)).length),
  };
}

/** @param {string} text @param {Json} model @param {number} bom */
function inspectLines(text, model, bom) {
  const [line] = text.trimStart().split('\n');
  try {
    const names = Object.keys(JSON.parse(line));
    return { ...judgeColumns(names, model), format: 'ndjson', names, header: new Uint8Array(0), skip: bom };
  } catch {
    return { problems: ['The first line is not a JSON object.'] };
  }
}

/** Reads values of the compact protocol of Thrift, in which Parquet describes itself. */
class ThriftReader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  #byte() {
    if (this.at >= this.bytes.length) throw new Error('The file ends too early.');
    return this.bytes[this.at++];
  }

  #unsigned() {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }

  #signed() {
    const n = this.#unsigned();
    return n % 2 === 1 ? -(n + 1) / 2 : n / 2;
  }

  /** @param {number} length */
  #skip(length) {
    const from = this.at;
    this.at += length;
    return this.bytes.subarray(from, this.at);
  }

  /** @param {number} type @returns {any} */
  #value(type) {
    if (type <= 2) return type === 1;
    if (type === 3) return this.#byte();
    if (type <= 6) return this.#signed();
    if (type === 7) return this.#skip(8);
    if (type === 8) return this.#skip(this.#unsigned());
    if (type === 12) return this.struct();
    if (type !== 9 && type !== 10) throw new Error('The metadata of the file is damaged.');
    const head = this.#byte();
    const length = head >> 4 === 15 ? this.#unsigned() : head >> 4;
    if (length > this.bytes.length) throw new Error('The metadata of the file is damaged.');
    const of = head & 15;
    return Array.from({ length }, () => (of <= 2 ? this.#byte() === 1 : this.#value(of)));
  }

  /** Values by field number. @param {number} [last] the last field to read @returns {Record<number, any>} */
  struct(last = 1000) {
    /** @type {Record<number, any>} */
    const fields = {};
    for (let id = 0; id < last; ) {
      const head = this.#byte();
      if (head === 0) break;
      id = head >> 4 === 0 ? this.#signed() : id + (head >> 4);
      fields[id] = this.#value(head & 15);
    }
    return fields;
  }
}

const LARGEST_FOOTER = 16 * 1024 * 1024;

/** The columns of a Parquet file, from the description at its end. @param {Blob} file */
async function parquetColumns(file) {
  const end = new DataView(await file.slice(-8).arrayBuffer());
  const length = end.byteLength === 8 && end.getUint32(4, true) === 0x31524150 ? end.getUint32(0, true) : 0;
  if (length === 0 || length > Math.min(LARGEST_FOOTER, file.size - 12)) throw new Error('The file is incomplete.');
  const footer = new Uint8Array(await file.slice(-8 - length, -8).arrayBuffer());
  const { 2: schema, 3: rows } = new ThriftReader(footer).struct(3);
  const columns = [];
  for (let i = 1; i < schema.length; i++) {
    const element = schema[i];
    columns.push({ name: new TextDecoder().decode(element[4]), kind: parquetKind(element) });
    // The fields within a column follow it.
    for (let inner = element[5] ?? 0; inner > 0 && i < schema.length; inner--) inner += schema[++i]?.[5] ?? 0;
  }
  return { columns, rows };
}

/** A JSON type, or a word for another one. @param {Record<number, any>} element */
function parquetKind({ 1: type, 5: children, 6: converted, 10: logical = {} }) {
  if (children > 0) return 'nested values';
  if (type === 0) return 'boolean';
  if (converted === 5 || logical[5]) return 'number';
  if ((converted >= 6 && converted <= 10) || logical[6] || logical[7] || logical[8] || type === 3) return 'times';
  return type >= 6 ? 'string' : 'number';
}

/** @type {Record<string, string>} */
const KINDS = { string: 'text', number: 'numbers', boolean: 'booleans' };

/** @param {Blob} file @param {Json} model @returns {Promise<Json>} */
async function inspectParquet(file, model) {
  let found;
  try {
    found = await parquetColumns(file);
  } catch (error) {
    return { problems: [`This Parquet file cannot be read. ${/** @type {Error} */ (error).message}`] };
  }
  const names = found.columns.map(({ name }) => name);
  const judged = judgeColumns(names, model);
  for (const { name, accepts } of model.columns) {
    const { kind } = found.columns[names.indexOf(name)] ?? {};
    if (!kind || !accepts || accepts.includes(kind)) continue;
    const wanted = accepts.map((/** @type {string} */ one) => KINDS[one]).join(' or ');
    judged.problems.push(`The column ${name} has ${KINDS[kind] ?? kind}; the model takes ${wanted}.`);
  }
  return { ...judged, format: 'table', title: `Parquet, ${count(found.rows)} rows`, names, rows: found.rows };
}

/** Compares the columns of a file with those of the model. @param {string[]} names @param {Json} model */
function judgeColumns(names, model) {
  const known = model.columns.map((/** @type {Json} */ c) => c.name);
  const extra = names.filter((name) => !known.includes(name));
  const missing = known.filter((/** @type {string} */ name) => !names.includes(name));
  const problems = missing.map((/** @type {string} */ name) => {
    const near = extra.find((other) => plain(other) === plain(name));
    return `The column ${name} is missing${near === undefined ? '.' : `; the file has the similar column ${near}.`}`;
  });
  const twice = names.filter((name, i) => names.indexOf(name) !== i);
  if (twice.length > 0) problems.push(`Columns with the same name: ${[...new Set(twice)].join(', ')}.`);
  if (extra.includes('ok')) problems.push('The file contains the outcome column ok. Remove it.');
  const notes = extra.length === 0 ? [] : [`Not part of the model, copied to the predictions: ${extra.join(', ')}.`];
  return { problems, notes, extra, matched: known.length - missing.length, columns: known.length };
}

/** @param {string} name */
const plain = (name) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');

/** Warnings about the first rows; the service decides. @param {string[]} names @param {string[][]} rows @param {Json} model */
function judgeCells(names, rows, model) {
  const notes = [];
  for (const { name, kind, values } of model.columns) {
    const at = names.indexOf(name);
    if (at < 0) continue;
    const cells = rows.map((row) => row[at] ?? '').filter((cell) => cell !== '');
    const odd =
      kind === 'number'
        ? cells.filter((cell) => !Number.isFinite(Number(cell)))
        : values && kind === 'category'
          ? cells.filter((cell) => !values.includes(cell))
          : [];
    if (odd.length === 0) continue;
    notes.push(
      `${name}: ${count(odd.length)} of the first ${count(rows.length)} rows ${kind === 'number' ? 'are not numbers' : 'have a value that the model does not know'}.`,
    );
  }
  return notes;
}

/** Cuts a file into slices of whole records. @param {Blob & { name: string }} file @param {Json} form @returns {AsyncGenerator<{ bytes: Uint8Array, lines: number[], read: number }>} */
async function* slices(file, { format, delimiter, skip, header }) {
  const reader = contentOf(file).getReader();
  const longest = session?.caller.limits.row_bytes ?? LONGEST_RECORD;
  const scan = new RecordScan(format === 'csv' ? delimiter.charCodeAt(0) : -1, header.length > 0 ? 2 : 1, longest);
  let held = new Uint8Array(0);
  let target = FIRST_SLICE;
  let left = skip;
  let read = 0;
  try {
    for (;;) {
      const { value = new Uint8Array(0), done } = await reader.read();
      read += value.length;
      const dropped = Math.min(left, value.length);
      left -= dropped;
      const from = held.length;
      held = joined([held, value.subarray(dropped)]);
      scan.read(held, from, done);
      if (done) break;
      if (held.length - scan.end > LONGEST_RECORD)
        throw new Error(`Line ${scan.start} is longer than ${size(LONGEST_RECORD)}.`);
      const { end } = scan;
      if (end < target) continue;
      yield { bytes: held.subarray(0, end), lines: scan.take(end), read };
      held = held.slice(end);
      target = Math.min(LARGEST_SLICE, target * 4);
    }
    if (held.length > 0) yield { bytes: held, lines: scan.take(held.length), read };
  } finally {
    await reader.cancel().catch(() => {});
  }
}

const [FIELD_START, UNQUOTED, QUOTED, QUOTE_IN_QUOTED, BAD_LINE] = [0, 1, 2, 3, 4];

/**
 * Finds the ends of records in bytes that arrive in pieces, by the rules of the service: a line break within quotes does
 * not end a record, and a malformed record never affects more than its first line.
 */
class RecordScan {
  /** @param {number} delimiter byte; -1: lines without quotes @param {number} line number of the first line @param {number} longest */
  constructor(delimiter, line, longest) {
    this.delimiter = delimiter;
    this.longest = longest;
    this.line = line;
    /** Offset behind the last complete record. */
    this.end = 0;
    /** Line on which each complete record starts; blank lines are no records. @type {number[]} */
    this.starts = [];
    this.start = line;
    this.blank = true;
    this.state = FIELD_START;
    /** Offset behind the first line break within the current record; -1: none. */
    this.firstBreak = -1;
  }

  /** @param {Uint8Array} bytes @param {number} from @param {boolean} final */
  read(bytes, from, final) {
    let i = from;
    for (;;) {
      while (i < bytes.length)
        i = bytes[i] === 10 || bytes[i] === 13 ? this.#lineBreak(bytes, i) : this.#text(bytes[i], i);
      if (!final || this.state !== QUOTED || this.firstBreak < 0) return;
      i = this.#cut();
    }
  }

  /** @param {Uint8Array} bytes @param {number} i */
  #lineBreak(bytes, i) {
    if (bytes[i] === 10 && bytes[i - 1] === 13) {
      if (this.end === i) this.end = i + 1;
      return i + 1;
    }
    this.line++;
    if (this.state !== QUOTED) return this.#finish(i + 1);
    if (this.firstBreak < 0) this.firstBreak = i + 1;
    return i - this.end > this.longest ? this.#cut() : i + 1;
  }

  /** @param {number} byte @param {number} i */
  #text(byte, i) {
    this.blank = false;
    if (this.delimiter < 0 || this.state === BAD_LINE) return i + 1;
    if (this.state === QUOTED) {
      if (byte === 34) this.state = QUOTE_IN_QUOTED;
    } else if (byte === this.delimiter) this.state = FIELD_START;
    else if (this.state === QUOTE_IN_QUOTED) {
      if (byte === 34) this.state = QUOTED;
      else if (this.firstBreak >= 0) return this.#cut();
      else this.state = BAD_LINE;
    } else this.state = this.state === FIELD_START && byte === 34 ? QUOTED : UNQUOTED;
    return i + 1;
  }

  /** Ends a malformed record at its first line break; scanning continues there. */
  #cut() {
    this.line = this.start + 1;
    return this.#finish(this.firstBreak);
  }

  /** @param {number} end */
  #finish(end) {
    if (!this.blank) this.starts.push(this.start);
    this.end = end;
    this.start = this.line;
    this.blank = true;
    this.state = FIELD_START;
    this.firstBreak = -1;
    return end;
  }

  /** The lines of the records before `end`, which are removed. @param {number} end */
  take(end) {
    const lines = this.starts;
    if (end !== this.end && !this.blank) lines.push(this.start);
    this.starts = [];
    this.end = 0;
    if (this.firstBreak >= 0) this.firstBreak -= end;
    return lines;
  }
}

/** @param {string} reference */
function showFile(reference) {
  const state = { reference, file: /** @type {any} */ (null) };
  const outcome = h('div', { class: 'stack' });
  const input = h('input', {
    id: 'file',
    type: 'file',
    accept: '.csv,.tsv,.txt,.ndjson,.jsonl,.gz,.parquet,.arrow,.arrows,.feather',
    onchange: () => take(input.files?.[0]),
  });
  const zone = h(
    'div',
    { class: 'drop', id: 'drop' },
    h('label', { for: 'file' }, 'Drop a file here, or choose one'),
    input,
    h(
      'p',
      { class: 'note' },
      'CSV, TSV or NDJSON, also compressed with gzip; Parquet or Arrow. The file is sent to this service only, and is not stored.',
    ),
  );
  const take = (/** @type {any} */ file) => {
    if (!file) return;
    state.file = file;
    show();
  };
  const show = () => {
    if (state.file && state.reference)
      prepare(state.file, state.reference, outcome).catch((error) => outcome.replaceChildren(problem(error)));
  };
  zone.addEventListener('dragover', (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    zone.classList.add('over');
  });
  zone.addEventListener('dragleave', () => zone.classList.remove('over'));
  zone.addEventListener('drop', (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    zone.classList.remove('over');
    take(event.dataTransfer?.files[0]);
  });
  const picker = h('div', { class: 'field' }, h('label', { for: 'model' }, 'Model'));
  const onChoose = (/** @type {string} */ chosen) => {
    state.reference = chosen;
    show();
  };
  modelPicker(reference, onChoose).then(
    (select) => {
      picker.append(select);
      state.reference = select.value;
    },
    (error) => outcome.replaceChildren(problem(error)),
  );
  return [h('div', { class: 'bar-of-fields' }, picker), zone, outcome];
}

/** Compares the file with the model before anything is sent. @param {any} file @param {string} reference @param {any} outcome */
async function prepare(file, reference, outcome) {
  for (const end of onLeave.splice(0)) end();
  outcome.replaceChildren(h('p', { class: 'empty' }, 'Reading the header …'));
  const model = await get(`api/v1/models/${ref(reference)}`);
  const form = await inspect(file, model);
  const fits = form.problems.length === 0;
  const results = h('div', { class: 'stack' });
  const start = h(
    'button',
    {
      type: 'button',
      class: 'primary',
      disabled: !fits,
      onclick: () => scoreFile({ file, form, model, start, results }),
    },
    'Score the file',
  );
  outcome.replaceChildren(
    card(
      'Does the file fit?',
      { aside: badge(fits ? 'fits' : 'does not fit', fits ? 'good' : 'bad') },
      facts([
        ['File', `${file.name}, ${size(file.size)}`],
        ['Model', `${model.id}:${model.version}`],
        [
          'Format',
          form.title ??
            (form.format && (form.format === 'csv' ? `delimited by ${DELIMITERS[form.delimiter]}` : 'NDJSON')),
        ],
        ['Columns', form.columns && `${form.matched} of ${form.columns} columns of the model found`],
      ]),
      [
        ...form.problems.map((/** @type {string} */ text) => h('p', { class: 'alert' }, text)),
        ...(form.notes ?? []).map((/** @type {string} */ text) => h('p', { class: 'note' }, text)),
      ],
      h('div', { class: 'actions' }, start),
    ),
    results,
  );
  announce(fits ? 'The file fits the model.' : form.problems.join(' '));
}

/** @param {Json} task */
async function scoreFile({ file, form, model, start, results }) {
  start.disabled = true;
  const control = new AbortController();
  onLeave.push(() => control.abort());
  const tally = new Tally(model, form);
  const page = new ResultsPage({ file, form, model, tally, stop: () => control.abort() });
  results.replaceChildren(page.node);
  const { signal } = control;
  try {
    if (form.format === 'table') await scoreTable({ file, form, model, signal, tally, page });
    else await scoreSlices({ file, form, model, signal, tally, page });
    page.end('done', 'good');
  } catch (error) {
    if (control.signal.aborted) page.end('cancelled', 'warn');
    else page.end('failed', 'bad', error);
  }
  start.disabled = false;
}

/** @param {Json} task */
async function scoreSlices({ file, form, model, signal, tally, page }) {
  const waiting = [];
  for await (const slice of slices(file, form)) {
    waiting.push({ slice, answer: sendSlice(slice, { form, model, signal }) });
    waiting.at(-1)?.answer.catch(() => {});
    if (waiting.length >= AT_ONCE) await settle(/** @type {any} */ (waiting.shift()), tally, page);
  }
  while (waiting.length > 0) await settle(/** @type {any} */ (waiting.shift()), tally, page);
}

/** Sends a Parquet or Arrow file as one request, because it cannot be cut; its predictions arrive as lines. @param {Json} task */
async function scoreTable({ file, form, model, signal, tally, page }) {
  const query = new URLSearchParams({ modelId: `${model.id}:${model.version}`, passthrough: '*' });
  const address = `api/v1/scoring/predict/table.ndjson?${query}`;
  const headers = { 'content-type': 'application/octet-stream' };
  page.send();
  const response = await patiently(() => call(address, { method: 'POST', body: file, headers, signal }));
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read().catch((/** @type {unknown} */ error) => {
      if (signal.aborted) throw error;
      throw new ApiError(0, { detail: 'The service failed after these rows and ended the response.' });
    });
    rest += decoder.decode(value, { stream: !done });
    const end = done ? rest.length : rest.lastIndexOf('\n') + 1;
    tally.add({ text: rest.slice(0, end) }, { whole: true, lines: [], bytes: value });
    rest = rest.slice(end);
    page.update(tally.rows, form.rows);
    if (done) return;
    // Lets the browser draw.
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/** Repeats a request while the service is overloaded. @template T @param {() => Promise<T>} task @returns {Promise<T>} */
async function patiently(task) {
  for (let tries = 1; ; tries++) {
    try {
      return await task();
    } catch (error) {
      if (!(error instanceof ApiError) || !error.waits || tries >= MOST_TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, tries * 1000));
    }
  }
}

/** @param {{ slice: any, answer: Promise<any> }} sent @param {Tally} tally @param {ResultsPage} page */
async function settle({ slice, answer }, tally, page) {
  const found = await answer;
  tally.add(found, slice);
  page.update(slice.read, /\.gz$/i.test(page.file.name) ? undefined : page.file.size);
  // Lets the browser draw.
  await new Promise((resolve) => setTimeout(resolve));
}

/** Sends a slice; waits and repeats while the service is overloaded. @param {any} slice @param {Json} how @returns {Promise<{ text: string } | { nothing: Json }>} */
async function sendSlice(slice, { form, model, signal }) {
  const query = new URLSearchParams({ modelId: `${model.id}:${model.version}` });
  if (form.format === 'csv') query.set('delimiter', DELIMITERS[form.delimiter]);
  if (form.extra.length > 0) query.set('passthrough', '*');
  const options = { method: 'POST', body: new Blob([form.header, slice.bytes]), signal };
  try {
    const response = await patiently(() => call(`api/v1/scoring/predict.${form.format}?${query}`, options));
    return { text: await response.text() };
  } catch (error) {
    if (error instanceof ApiError && error.code === 'nothing_scored') return { nothing: error.problem };
    throw error;
  }
}

/** Counts of a file, from the answers to its slices. */
class Tally {
  /** @param {Json} model @param {Json} form */
  constructor(model, form) {
    this.model = model;
    this.form = form;
    this.rows = 0;
    this.scored = 0;
    this.rejected = 0;
    /** @type {Map<string, { rows: number, message: string, column: string, lines: number[] }>} */
    this.codes = new Map();
    /** @type {Json[]} */
    this.rejects = [];
    /** @type {Json[]} */
    this.first = [];
    /** @type {Map<string, number>} */
    this.decisions = new Map();
    this.bars = new Array(BARS).fill(0);
    /** @type {number[] | null} */
    this.range = model.task === 'regression' || model.task === 'score' ? null : [0, 1];
    /** @type {Blob[]} */
    this.predictionParts = [];
    /** @type {Blob[]} */
    this.rejectParts = [];
  }

  /** @param {any} answer @param {Json} slice `whole`: its rows have the numbers of the file */
  add(answer, slice) {
    const before = this.rows;
    /** @type {string[]} */
    const out = [];
    /** @type {string[]} */
    const rejected = [];
    if ('nothing' in answer) this.#addNothing(answer.nothing, slice, rejected);
    else if (this.form.format === 'csv') this.#addTable(answer.text, slice, out, rejected);
    else this.#addLines(answer.text, slice, out, rejected);
    if (before === 0 && this.rejectParts.length === 0)
      this.rejectParts.push(new Blob(['row,line,code,column,message\n']));
    if (out.length > 0) this.predictionParts.push(new Blob([out.join('')]));
    if (rejected.length > 0) this.rejectParts.push(new Blob([rejected.join('')]));
  }

  /** @param {string} text @param {any} slice @param {string[]} out @param {string[]} rejected */
  #addTable(text, slice, out, rejected) {
    const { delimiter } = this.form;
    const [head, ...rows] = parseTable(text, delimiter);
    const at = (/** @type {string} */ name) => head.lastIndexOf(name);
    const [row, code, column, message, decision] = [
      at('row'),
      at('error_code'),
      at('error_column'),
      at('error_message'),
      at('decision'),
    ];
    const score = Math.max(at('probability'), this.range?.[1] === 1 && at('probability') >= 0 ? -1 : at('value'));
    if (this.predictionParts.length === 0 && out.length === 0) out.push(lineOf(head, delimiter));
    const before = this.rows;
    for (const cells of rows) {
      const own = Number(cells[row]);
      cells[row] = String(before + own);
      out.push(lineOf(cells, delimiter));
      if (cells[code] !== '')
        this.#reject(
          {
            row: before + own,
            line: slice.lines[own - 1] ?? null,
            code: cells[code],
            column: cells[column],
            message: cells[message],
          },
          rejected,
        );
      else
        this.#score(Number(cells[score]), decision < 0 ? null : cells[decision], {
          row: before + own,
          id: cells.slice(0, row),
        });
    }
  }

  /** @param {string} text @param {any} slice @param {string[]} out @param {string[]} rejected */
  #addLines(text, slice, out, rejected) {
    const before = slice.whole ? 0 : this.rows;
    for (const line of text.split('\n')) {
      if (line === '') continue;
      const answer = JSON.parse(line);
      const own = answer.row;
      out.push(`${renumbered(line, own, before + own)}\n`);
      if (answer.error)
        this.#reject({ row: before + own, line: slice.lines[own - 1] ?? null, column: '', ...answer.error }, rejected);
      else
        this.#score(answer.probability ?? answer.value, answer.decision ?? null, {
          row: before + own,
          id: this.form.extra.map((/** @type {string} */ name) => answer[name]),
        });
    }
  }

  /** A slice without any scored row. @param {Json} found @param {any} slice @param {string[]} rejected */
  #addNothing(found, slice, rejected) {
    const before = this.rows;
    const details = new Map((found.errors ?? []).map((/** @type {Json} */ d) => [d.row, d]));
    const codes = [...String(found.detail).matchAll(/([a-z_]+) (\d+)/g)];
    for (const [i, line] of slice.lines.entries()) {
      const { code = codes[0]?.[1] ?? 'nothing_scored', column = '', message = 'rejected' } = details.get(i + 1) ?? {};
      this.#reject({ row: before + i + 1, line, code, column, message }, rejected);
    }
  }

  /** @param {Json} reject @param {string[]} rejected */
  #reject(reject, rejected) {
    this.rows++;
    this.rejected++;
    /** @type {{ rows: number, message: string, column: string, lines: number[] }} */
    const known = this.codes.get(reject.code) ?? { rows: 0, message: reject.message, column: reject.column, lines: [] };
    known.rows++;
    if (known.lines.length < 8) known.lines.push(reject.line ?? reject.row);
    this.codes.set(reject.code, known);
    if (this.rejects.length < LISTED_REJECTS) this.rejects.push(reject);
    rejected.push(lineOf([reject.row, reject.line ?? '', reject.code, reject.column, reject.message].map(String), ','));
  }

  /** @param {number} score @param {string | null} decision @param {Json} one */
  #score(score, decision, one) {
    this.rows++;
    this.scored++;
    if (decision) this.decisions.set(decision, (this.decisions.get(decision) ?? 0) + 1);
    if (this.first.length < LISTED_PREDICTIONS) this.first.push({ ...one, score, decision });
    if (!Number.isFinite(score)) return;
    // The first value sets the scale of scores without bounds.
    this.range ??= score === 0 ? [-1, 1] : [Math.min(0, 3 * score), Math.max(0, 3 * score)];
    const bar = Math.floor(scale(score, this.range, [0, BARS]));
    this.bars[Math.min(BARS - 1, Math.max(0, bar))]++;
  }
}

/** Replaces the row number of a JSON line, but no member of that name within a nested value. @param {string} line @param {number} from @param {number} to */
function renumbered(line, from, to) {
  const key = `"row":${from}`;
  let depth = 0;
  for (let i = 0; i < line.length; i++) {
    if (line[i] === '"') {
      if (depth === 1 && line.startsWith(key, i) && /[,}]/.test(line[i + key.length] ?? ''))
        return `${line.slice(0, i)}"row":${to}${line.slice(i + key.length)}`;
      for (i++; i < line.length && line[i] !== '"'; i++) if (line[i] === '\\') i++;
    } else if (line[i] === '{' || line[i] === '[') depth++;
    else if (line[i] === '}' || line[i] === ']') depth--;
  }
  return line;
}

/** The results of a file while it is scored. */
class ResultsPage {
  /** @param {{ file: any, form: Json, model: Json, tally: Tally, stop: () => void }} options */
  constructor({ file, form, model, tally, stop }) {
    this.tally = tally;
    this.file = file;
    this.form = form;
    this.model = model;
    this.began = performance.now();
    this.bar = h('progress', { max: 1, value: 0, 'aria-label': 'Progress' });
    this.cancel = h('button', { type: 'button', onclick: stop }, 'Cancel');
    this.state = h('span', {}, badge('scoring …'));
    this.figures = h('div', { class: 'figures' });
    this.rejects = h('div', {});
    this.chart = h('div', {});
    this.files = h('div', { class: 'actions' });
    this.explain = h('div', { class: 'wide' });
    const progress = card(
      'Progress',
      { aside: this.state },
      this.bar,
      this.figures,
      h('div', { class: 'actions' }, this.cancel),
      this.files,
    );
    this.node = h(
      'div',
      { class: 'grid' },
      progress,
      card('Scores', {}, this.chart),
      card('Rejected rows', { class: 'wide' }, this.rejects),
      this.explain,
    );
    this.draw();
  }

  /** A table is sent completely before its first prediction arrives. */
  send() {
    this.bar.removeAttribute('value');
    this.state.replaceChildren(badge('sending …'));
  }

  /** @param {number} done @param {number | undefined} all unknown: for Arrow, and for the content of a compressed file */
  update(done, all) {
    this.state.replaceChildren(badge('scoring …'));
    if (all === undefined) this.bar.removeAttribute('value');
    else this.bar.value = Math.min(1, done / Math.max(1, all));
    this.draw();
  }

  draw() {
    const { rows, scored, rejected, bars, range, decisions } = this.tally;
    const seconds = (performance.now() - this.began) / 1000;
    const figure = (/** @type {string} */ value, /** @type {string} */ name) =>
      h('span', { class: 'figure' }, value, h('small', {}, name));
    this.figures.replaceChildren(
      figure(count(rows), 'rows'),
      figure(count(scored), 'scored'),
      figure(count(rejected), 'rejected'),
      figure(`${decimal(seconds, 1)} s`, 'time'),
      ...[...decisions].map(([decision, n]) => figure(percent(n / scored), decision)),
    );
    const [low, high] = range ?? [0, 1];
    const middle = (low + high) / 2;
    this.chart.replaceChildren(
      histogram(
        `Distribution of ${count(scored)} scores`,
        bars,
        [low, middle, high].map((n) => decimal(n, 2)),
        roomOf(this.chart),
      ),
    );
    this.rejects.replaceChildren(this.rejectTable());
  }

  rejectTable() {
    const { codes, rejects, rejected } = this.tally;
    if (rejected === 0) return h('p', { class: 'empty' }, 'No row was rejected so far.');
    const rows = [...codes].map(([code, { rows, message, column, lines }]) => [
      code,
      count(rows),
      `${column === '' ? '' : `${column}: `}${message}`,
      `${lines.join(', ')}${rows > lines.length ? ' …' : ''}`,
    ]);
    const lines = this.form.format === 'table' ? 'Row numbers' : 'Lines';
    const isOpen = this.rejects.querySelector('details')?.open;
    return h(
      'div',
      {},
      table('Rejected rows by reason', ['Reason', 'Rows', 'For example', lines], rows),
      h(
        'details',
        { open: isOpen },
        h(
          'summary',
          {},
          rejected > rejects.length ? `The first ${count(rejects.length)} rejected rows` : 'All rejected rows',
        ),
        table(
          'Rejected rows',
          ['Line', 'Row', 'Reason', 'Column', 'Message'],
          rejects.map((r) => [
            r.line === null ? '–' : String(r.line),
            count(r.row),
            r.code,
            r.column || '–',
            r.message,
          ]),
        ),
      ),
    );
  }

  /** @param {string} text @param {'good' | 'bad' | 'warn'} tone @param {unknown} [error] */
  end(text, tone, error) {
    const { rows, scored, rejected, predictionParts, rejectParts } = this.tally;
    this.cancel.remove();
    this.draw();
    this.state.replaceChildren(badge(text, tone));
    if (tone === 'good') this.bar.value = 1;
    const ending = this.form.format === 'csv' ? 'csv' : 'ndjson';
    const base = this.file.name.replace(/\.gz$/i, '').replace(/\.[^.]*$/, '');
    // A part of the predictions must not be taken for all of them.
    const partial = tone === 'good' ? '' : '.incomplete';
    this.files.replaceChildren(
      ...flat([
        error ? problem(error) : null,
        error instanceof ApiError &&
          h(
            'ul',
            { class: 'note' },
            messagesOf(error).map((text) => h('li', {}, text)),
          ),
        scored > 0 &&
          h(
            'button',
            { type: 'button', onclick: () => save(predictionParts, `${base}.scored${partial}.${ending}`) },
            'Download predictions',
          ),
        rejected > 0 &&
          h(
            'button',
            { type: 'button', onclick: () => save(rejectParts, `${base}.rejects${partial}.csv`) },
            'Download rejected rows',
          ),
      ]),
    );
    // The browser reads no rows of a table.
    if (this.form.format !== 'table') this.explain.replaceChildren(explainBox(this));
    announce(`${text}: ${count(rows)} rows, ${count(scored)} scored, ${count(rejected)} rejected.`);
  }
}

/** What the service found in columns and rows. @param {ApiError} error @returns {string[]} */
const messagesOf = ({ problem: { errors = [] } }) =>
  errors
    .slice(0, 20)
    .map((/** @type {Json} */ { row, message }) => (row === undefined ? message : `row ${row}: ${message}`));

/** @param {Blob[]} parts @param {string} name */
function save(parts, name) {
  const address = URL.createObjectURL(new Blob(parts, { type: 'application/octet-stream' }));
  h('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** The first predictions, and a way to explain any row. @param {ResultsPage} page */
function explainBox({ file, form, model, tally }) {
  const field = h('input', { id: 'which', autocomplete: 'off', required: true });
  const failure = h('div', {});
  const open = async (/** @type {string} */ which) => {
    const found = await findRow(file, form, which);
    if (!found) return failure.replaceChildren(problem(new Error('The file has no such row or value.')));
    handedOver = found;
    location.hash = `try/${ref(`${model.id}:${model.version}`)}`;
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    open(field.value.trim()).catch((error) => failure.replaceChildren(problem(error)));
  };
  const label =
    form.extra.length === 0 ? 'Row number' : `Row number, or a value of ${form.extra.slice(0, 3).join(', ')}`;
  const rows = tally.first.map(({ row, id, score, decision }) => [
    count(row),
    ...(form.extra.length > 0 ? [String(id[0] ?? '')] : []),
    decimal(score),
    decision ?? '–',
    h(
      'button',
      { type: 'button', class: 'small', onclick: () => open(`row ${row}`), 'aria-label': `Explain row ${row}` },
      'Explain',
    ),
  ]);
  const head = ['Row', ...(form.extra.length > 0 ? [form.extra[0]] : []), 'Score', 'Decision', 'Why?'];
  return card(
    'Why this decision?',
    { class: 'wide' },
    h(
      'form',
      { class: 'inline', onsubmit: submit },
      h('label', { for: 'which' }, label),
      field,
      h('button', {}, 'Explain'),
    ),
    failure,
    h(
      'details',
      { open: innerWidth > 640 },
      h('summary', {}, `The first ${count(rows.length)} predictions`),
      table('First predictions', head, rows),
    ),
  );
}

/** The values of a row, found by its number, or by a value outside the model. @param {any} file @param {Json} form @param {string} which @returns {Promise<Json | null>} */
async function findRow(file, form, which) {
  const number = /^(?:row )?(\d+)$/.exec(which)?.[1];
  const byNumber = (/** @type {Json} */ _values, /** @type {number} */ row) => row === Number(number);
  const byValue = (/** @type {Json} */ values) =>
    form.extra.some((/** @type {string} */ name) => String(values[name]) === which);
  // A number may be the value of an id column, which takes precedence.
  for (const matches of which.startsWith('row ') ? [byNumber] : [byValue, byNumber]) {
    let row = 0;
    for await (const { bytes } of slices(file, form)) {
      for (const values of recordsOf(new TextDecoder().decode(bytes), form)) if (matches(values, ++row)) return values;
    }
  }
  return null;
}

/** @param {string} text @param {Json} form @returns {Generator<Json>} */
function* recordsOf(text, { format, delimiter, names }) {
  if (format === 'ndjson') {
    for (const line of text.split('\n')) if (line.trim() !== '') yield safeJson(line);
    return;
  }
  for (const cells of parseTable(text, delimiter)) {
    if (cells.length === 1 && cells[0] === '') continue;
    yield Object.fromEntries(
      names.map((/** @type {string} */ name, /** @type {number} */ i) => [name, cells[i] ?? '']),
    );
  }
}

/** @param {string} line @returns {Json} */
function safeJson(line) {
  try {
    return JSON.parse(line);
  } catch {
    return {};
  }
}

// Drift

const WINDOWS = [
  ['hour', 'the last hour'],
  ['day', 'the last day'],
  ['start', 'since the service started'],
];
const WORST = 5;

/** @param {string} argument id, and after a comma the window */
function showDrift(argument) {
  const [id = '', span = 'day'] = argument.split(',');
  const box = h('div', { class: 'grid' });
  const go = (/** @type {string} */ model, /** @type {string} */ window) => {
    location.hash = `drift/${ref(`${model},${window}`)}`;
  };
  const windows = h(
    'select',
    { id: 'window' },
    WINDOWS.map(([value, text]) => h('option', { value, selected: value === span }, text)),
  );
  const picker = h('div', { class: 'field' }, h('label', { for: 'model' }, 'Model'));
  modelPicker(id, (chosen) => go(chosen, windows.value)).then(
    (select) => {
      picker.append(select);
      windows.addEventListener('change', () => go(select.value, windows.value));
      if (select.value) box.append(...flat(driftCards(select.value, span)));
    },
    (error) => box.replaceChildren(problem(error)),
  );
  return [
    h(
      'div',
      { class: 'bar-of-fields' },
      picker,
      h('div', { class: 'field' }, h('label', { for: 'window' }, 'Scored by this service in'), windows),
    ),
    box,
  ];
}

/** @param {string} id @param {string} span */
const driftCards = (id, span) => [
  card(
    'Scored by this service',
    { class: 'wide', aside: grafana('drift') },
    live(() => get(`api/v1/models/${ref(id)}/drift?window=${span}`), showDriftReport, 30_000),
  ),
  card(
    'Recorded runs',
    { class: 'wide' },
    live(
      () => get('api/v1/runs?limit=100'),
      ({ runs }) => showDriftOfRuns(runs.filter((/** @type {Json} */ run) => run.model.id === id)),
    ),
  ),
];

/** @param {Json} report */
function showDriftReport(report) {
  if (!report.baseline)
    return h('p', { class: 'empty' }, 'The package has no baseline: register the model with its training data.');
  if (report.rows === 0) return h('p', { class: 'empty' }, 'This service scored no rows of the model in this time.');
  const worst = [...report.columns].sort((a, b) => (b.psi ?? 0) - (a.psi ?? 0)).slice(0, WORST);
  const [first] = worst;
  const verdict = !report.enough
    ? `${count(report.rows)} rows are too few to compare; 1,000 are needed.`
    : (first?.psi ?? 0) >= DRIFTED_PSI
      ? `${worst
          .filter((c) => c.psi >= DRIFTED_PSI)
          .map((c) => c.column)
          .join(
            ', ',
          )} ${worst.filter((c) => c.psi >= DRIFTED_PSI).length === 1 ? 'differs' : 'differ'} from the training data (PSI of ${DRIFTED_PSI} or more).`
      : `No column differs from the training data (all PSI below ${DRIFTED_PSI}).`;
  return [
    h('p', { class: 'lead' }, verdict),
    h(
      'p',
      { class: 'note' },
      `${count(report.rows)} rows. PSI of the score: ${report.score?.psi === null || !report.score ? 'not available' : decimal(report.score.psi, 3)}.`,
    ),
    h(
      'ul',
      { class: 'legend', 'aria-label': 'Legend' },
      h('li', {}, h('span', { class: 'swatch now' }), 'now'),
      h('li', {}, h('span', { class: 'swatch training' }), 'training data'),
    ),
    h(
      'div',
      { class: 'small-charts' },
      worst.map((column) => driftChart(column)),
    ),
    driftTable(
      worst.map((c) => ({
        column: c.column,
        psi: c.psi,
        missing: c.now?.missing ?? 0,
        missingInTraining: c.training.missing,
        unseen: c.now?.unseen ?? 0,
      })),
    ),
  ];
}

/** Shares by bin, beside those of the training data. @param {Json} column */
function driftChart({ column, psi, now, training }) {
  const series = [...(now?.bins ?? []), ...training.bins];
  const most = Math.max(0.01, ...series);
  const [width, height] = [300, 110];
  const step = width / Math.max(1, training.bins.length);
  const bar = (
    /** @type {string} */ name,
    /** @type {number} */ share,
    /** @type {number} */ i,
    /** @type {number} */ offset,
  ) =>
    svg(
      'rect',
      {
        class: name,
        x: i * step + offset * step * 0.42 + step * 0.08,
        width: step * 0.42,
        y: height - (share / most) * height,
        height: (share / most) * height,
      },
      svg('title', {}, `bin ${i + 1}, ${name}: ${percent(share)}`),
    );
  const bars = training.bins.flatMap((/** @type {number} */ share, /** @type {number} */ i) => [
    bar('now', now?.bins[i] ?? 0, i, 0),
    bar('training', share, i, 1),
  ]);
  const label = `${column}: shares of ${training.bins.length} bins now and in the training data${psi === null ? '' : `, PSI ${decimal(psi, 3)}`}`;
  return h(
    'figure',
    {},
    h('figcaption', {}, h('span', {}, column), psiBadge(psi)),
    svg(
      'svg',
      { class: 'chart', viewBox: `0 0 ${width} ${height + 1}`, role: 'img', 'aria-label': label },
      bars,
      svg('line', { class: 'axis', x1: 0, x2: width, y1: height, y2: height }),
    ),
  );
}

/** @param {Json[]} runs */
const showDriftOfRuns = (runs) =>
  table(
    'Drift of recorded runs',
    ['Began', 'Run', 'Rows', 'PSI of the score', 'Columns that differ most'],
    runs
      .filter(({ drift }) => drift)
      .slice(0, 20)
      .map(({ id, began, name, drift }) => [
        h('a', { href: `#run/${ref(id)}` }, time(began)),
        name,
        count(drift.rows),
        drift.scorePsi === null ? 'too few rows' : psiBadge(drift.scorePsi),
        byPsi(drift.columns)
          .slice(0, 3)
          .map((/** @type {Json} */ c) => h('div', {}, c.column, ' ', psiBadge(c.psi))),
      ]),
    'No recorded run of this model measured drift.',
  );

// Start

addEventListener('hashchange', render);
// A file dropped beside the drop area must not replace the page.
for (const name of ['dragover', 'drop']) addEventListener(name, (event) => event.preventDefault());
render();
returnFromLogin().catch((error) => byId('main').replaceChildren(showLogin(error.message)));
