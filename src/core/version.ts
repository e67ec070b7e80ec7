// The version of Sluice (a test compares it with package.json).

export const VERSION = '0.3.0';

/** The oldest version of Node.js that runs the build (a test compares it with `engines` of the package). */
export const OLDEST_NODE = '22.12.0';

/** The version of ONNX Runtime that is used for scoring and comparisons (a test compares it with package.json). */
export const ONNXRUNTIME_VERSION = '1.30.0';
