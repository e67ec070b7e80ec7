// Handles write errors of standard output and standard error, such as a closed pipe or a full disk.
import { EXIT } from './exit-codes.ts';

/**
 * Output to a closed pipe (`sluice model list | head -1`) is discarded, and the command continues with its usual exit
 * code. Exiting immediately, like other programs on SIGPIPE, could leave a run half finished. Other write errors are
 * reported and set the exit code to 1. Predictions or portfolios on standard output are an exception: the sink
 * (`openStreamSink`) reports the error, and the run fails with exit code 1.
 */
export function watchStreams(streams: readonly NodeJS.WritableStream[]): void {
  for (const stream of streams) {
    const onError = (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE' || stream.listeners('error').some((listener) => listener !== onError)) return;
      process.stderr.write(
        `sluice: standard output cannot be written: ${error.code ?? error.message} [output_failed]\n`,
      );
      process.on('exit', () => {
        if (!process.exitCode) process.exitCode = EXIT.failed;
      });
    };
    stream.on('error', onError);
  }
}
