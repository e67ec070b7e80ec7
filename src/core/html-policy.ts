// The content security policy of the HTML pages that Sluice writes: no resources are loaded, no script runs, and only the page's own style
// applies.
import { createHash } from 'node:crypto';

/** `style`: the exact text of the page's only style element. */
export const contentPolicy = (style: string): string =>
  `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; base-uri 'none'; form-action 'none'`;

/** The style of a page, and a policy that permits only this style. Must come first in the head. */
export const styledHead = (style: string): string =>
  `<meta http-equiv="Content-Security-Policy" content="${contentPolicy(style)}"><style>${style}</style>`;
