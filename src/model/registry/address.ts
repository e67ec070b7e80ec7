// Addresses of registries: remote ones are told from folders by their address alone, before anything is loaded.

/** true: not a folder but a server, such as `s3://bucket/prefix` or `mlflow+https://host`. */
export const isRemote = (address: string): boolean => /^[a-z][a-z0-9+.-]+:\/\//i.test(address);

/** A path without the slashes it begins and ends with. */
export function withoutSlashes(path: string): string {
  let [start, end] = [0, path.length];
  while (path[start] === '/') start++;
  while (end > start && path[end - 1] === '/') end--;
  return path.slice(start, end);
}
