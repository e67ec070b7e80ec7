// Switches off the telemetry of ONNX Runtime, which would send names and hashes of models to its manufacturer. Entry
// points and the module that imports onnxruntime-node import this module first.

// ONNX Runtime reads the environment of the process when it opens its first session. An assignment in a worker thread
// changes only a copy, so the main thread must have imported this module before it starts threads.
process.env.ORT_DISABLE_TELEMETRY = '1';
