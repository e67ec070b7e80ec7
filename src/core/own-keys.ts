// Access to keys that come from files, such as names of columns and categories. An assignment does not create the key
// __proto__, and a read finds keys such as constructor in every object.

/** The value of an object's own key; undefined if it has none. */
export const ownValue = <T>(record: Readonly<Record<string, T>> | undefined, key: string): T | undefined =>
  record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined;

/** Sets an own key of an object. */
export function setOwn<T>(record: Record<string, T>, key: string, value: T): void {
  Object.defineProperty(record, key, { value, writable: true, enumerable: true, configurable: true });
}
