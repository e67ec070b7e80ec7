// The page size of WebAssembly memory.

/** A page of WebAssembly memory, bytes: memories grow by whole ones (WebAssembly core specification, 4.2.8). */
export const PAGE = 65_536;
