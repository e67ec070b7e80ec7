// The page /docs: starts Swagger UI with the document of this service. Keys are held in memory only.

/** @typedef {Record<string, any>} Json */

/** Defined by swagger-ui-bundle.js, which has no types. @type {any} */
const { SwaggerUIBundle } = globalThis;

/** Swagger UI prints the command with the key of the caller; a screenshot must not reveal it. @param {any} Curl @param {Json} system */
const curlWithoutKey = (Curl, { React }) =>
  /** @param {Json} props */
  function CurlWithoutKey(props) {
    const request = props.request.hasIn(['headers', 'Authorization'])
      ? props.request.setIn(['headers', 'Authorization'], 'API-Key YOUR_KEY')
      : props.request;
    return React.createElement(Curl, { ...props, request });
  };

/** Swagger UI takes NDJSON for JSON, and would send its lines as one text in quotes. @param {Json} system */
function keepLines({ fn }) {
  const schemas = fn.jsonSchema202012;
  const sample = schemas.getJsonSampleSchema;
  /** @param {any} schema @param {Json} config @param {string} contentType @param {unknown} example */
  schemas.getJsonSampleSchema = (schema, config, contentType, example) =>
    contentType === 'application/x-ndjson' && typeof example === 'string'
      ? example
      : sample(schema, config, contentType, example);
}

/** A link within the button of an operation would be a control within a control. @param {any} _Link @param {Json} system */
const textOfLink =
  (_Link, { React }) =>
  /** @param {Json} props */
  ({ text }) =>
    React.createElement('span', null, text);

/**
 * Attributes that Swagger UI sets wrongly for screen readers and keyboards, by selector. null removes an attribute; a
 * function gets the element.
 * @type {[selector: string, attributes: Record<string, string | null | ((node: Element) => string)>][]}
 */
const CORRECTIONS = [
  ['.information-container', { role: 'region', 'aria-label': 'About' }],
  ['.scheme-container', { role: 'region', 'aria-label': 'Authorization' }],
  ['.opblock-tag, .modal-ux-header h3, section.models > h4', { 'aria-level': '2', role: 'heading' }],
  ['.opblock-section-header h4, .modal-ux-content h4', { 'aria-level': '3' }],
  ['.modal-ux-content h6', { 'aria-level': '4' }],
  ['.responses-inner h4, .responses-inner h5', { 'aria-level': '4' }],
  ['.auth-container input', { type: 'password', autocomplete: 'off', spellcheck: 'false' }],
  ['.close-modal', { 'aria-label': 'Close' }],
  ['.modal-btn', { 'aria-label': null }],
  ['.parameters select, .parameters input', { 'aria-label': parameterOf }],
  ['.body-param__text', { 'aria-label': 'Request body' }],
  ['pre.microlight, pre.curl, .highlight-code > *', { tabindex: '0' }],
];

/** @param {Element} node */
function parameterOf(node) {
  return node.closest('[data-param-name]')?.getAttribute('data-param-name') ?? 'value';
}

function correct() {
  for (const [selector, attributes] of CORRECTIONS) {
    for (const node of document.querySelectorAll(selector)) {
      for (const [name, value] of Object.entries(attributes)) {
        if (value === null) node.removeAttribute(name);
        else {
          const text = typeof value === 'string' ? value : value(node);
          if (node.getAttribute(name) !== text) node.setAttribute(name, text);
        }
      }
    }
  }
}
new MutationObserver(correct).observe(document.body, { childList: true, subtree: true });

const dark = matchMedia('(prefers-color-scheme: dark)');
const applyColors = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', applyColors);
applyColors();

SwaggerUIBundle({
  domNode: document.getElementById('reference'),
  url: '/openapi.json',
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [() => ({ wrapComponents: { curl: curlWithoutKey, DeepLink: textOfLink }, afterLoad: keepLines })],
  layout: 'BaseLayout',
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  queryConfigEnabled: false,
  validatorUrl: null,
  // Colors every token of a response: slow for many predictions, and too little contrast.
  syntaxHighlight: false,
  requestInterceptor: (/** @type {Json} */ request) => ({ ...request, credentials: 'omit' }),
});
