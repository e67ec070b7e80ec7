// The content security policy of the HTML pages that Sluice writes: no resources, no scripts, and only their own style.
import { createHash } from 'node:crypto';

/** The policy of a page. `style`: the exact text of its only style element. */
export const contentPolicy = (style: string): string =>
  `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; base-uri 'none'; form-action 'none'`;

/** The style of a page, and a policy that permits only this style. Must come first in the head. */
export const styledHead = (style: string): string =>
  `<meta http-equiv="Content-Security-Policy" content="${contentPolicy(style)}"><style>${style}</style>`;
