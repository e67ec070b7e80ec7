// The version of Sluice, as in package.json (a test compares them).

export const VERSION = '0.3.0';

/** The oldest Node that runs the build; equal to `engines` of the package (a test compares them). */
export const OLDEST_NODE = '22.12.0';

/** The version of ONNX Runtime that is used for scoring and comparisons (a test compares it with package.json). */
export const ONNXRUNTIME_VERSION = '1.30.0';
