// What the install script of onnxruntime-node calls before it does anything else. That script fetches binaries for GPUs, which
// Sluice never uses, from a host that most machines in a bank cannot reach; then the whole installation fails. Ended here, it has
// done what a CPU needs, which is nothing. npm 11.19 and newer are told by `allowScripts` not to run it at all; those before it
// have no such word, and warn about the one that onnxruntime-node understands in an .npmrc.
exports.bootstrap = () => process.exit(0);
