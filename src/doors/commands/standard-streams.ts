// Standard output and standard error that can be written no longer: a reader that went away, a disk that is full.
import { EXIT } from './exit-codes.ts';

/**
 * Output to a closed pipe (`sluice model list | head -1`) is dropped, and the command continues to its end with the exit
 * code it would have had: ending it there, as SIGPIPE does, could leave half a run behind. Words that could not be written
 * for another reason are reported, and the exit code is 1. If standard output is the sink of predictions or of a portfolio,
 * the sink (`openStreamSink`) reports it: such a run fails with exit code 1.
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
