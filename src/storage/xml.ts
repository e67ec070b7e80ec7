// A minimal XML reader for responses of object storage: finds elements by name, and does not support namespaces or attributes.

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** The contents of all elements with this name. */
export function* elements(xml: string, name: string): Generator<string, void, void> {
  const [open, close] = [`<${name}>`, `</${name}>`];
  for (let at = xml.indexOf(open); at >= 0; ) {
    const end = xml.indexOf(close, at);
    if (end < 0) return;
    yield xml.slice(at + open.length, end);
    at = xml.indexOf(open, end);
  }
}

/** The text of the first element with this name; empty if there is none. */
export function tag(xml: string, name: string): string {
  return unescaped(elements(xml, name).next().value ?? '');
}

const unescaped = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{1,8}));/gi, (whole, decimal, hex, word) =>
    decimal || hex
      ? String.fromCodePoint(Number.parseInt(decimal ?? hex, decimal ? 10 : 16))
      : (ENTITIES[word] ?? whole),
  );
