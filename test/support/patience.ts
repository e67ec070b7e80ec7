// How long tests wait for what must come: so long that only something that hangs is ever ended by it.

/** A condition that has not come true by then never will, however busy the machine is. */
export const PATIENCE_MS = 180_000;
/** The same for a whole test; longer, so that the condition that did not come is what is told. */
export const TEST_TIMEOUT_MS = 600_000;
