// What the address of a registry says before anything is loaded for it.

/** true: not a folder but a server, such as `s3://bucket/prefix` or `mlflow+https://host`. */
export const isRemote = (address: string): boolean => /^[a-z][a-z0-9+.-]+:\/\//i.test(address);
