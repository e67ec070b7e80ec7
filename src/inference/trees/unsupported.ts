// What native evaluation leaves to ONNX Runtime.
/** Thrown where our evaluators do not follow; its message is the reason why ONNX Runtime is used. */
export class Unsupported extends Error {}
