// Tells remote registries from folders by their address alone, before anything is loaded.

/** true: not a folder but a server, such as `s3://bucket/prefix` or `mlflow+https://host`. */
export const isRemote = (address: string): boolean => /^[a-z][a-z0-9+.-]+:\/\//i.test(address);
