// The error for models that native evaluation does not support, so that ONNX Runtime evaluates them.
/** Thrown for a model that native evaluation does not support. The message is the reason why ONNX Runtime is used. */
export class Unsupported extends Error {}
