// Where the modules are that worker threads and child processes start with: in the sources or in the built program.
let folder = new URL('..', import.meta.url);
let extension = import.meta.url.slice(import.meta.url.lastIndexOf('.'));

/** `name`: path below `src` without extension, such as `engine/worker-entry`. */
export function entryFile(name: string): URL {
  return new URL(`${name}${extension}`, folder);
}

/** Makes threads and processes of this process run the built program in `built`. Tests that run the sources use it. */
export function useEntriesOf(built: URL): void {
  folder = built;
  extension = '.js';
}
