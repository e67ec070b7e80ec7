// The content security policy of the HTML pages that Sluice writes: nothing is loaded, no script runs, and only their own style applies.
import { createHash } from 'node:crypto';

/** `style`: the text of the one style element of the page, to the byte. */
export const contentPolicy = (style: string): string =>
  `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; base-uri 'none'; form-action 'none'`;

/** The style of a page and the policy that allows it and nothing else; comes first in the head. */
export const styledHead = (style: string): string =>
  `<meta http-equiv="Content-Security-Policy" content="${contentPolicy(style)}"><style>${style}</style>`;
