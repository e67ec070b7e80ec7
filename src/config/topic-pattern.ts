// The pattern of topics in a pipeline file: the one regular expression that is no literal, *because* whoever runs a pipeline says it. It
// sees names of topics only, of at most 249 characters.

/** Matches whole names. @throws SyntaxError */
export const topicPattern = (pattern: string): RegExp => new RegExp(`^(?:${pattern})$`, 'u');
