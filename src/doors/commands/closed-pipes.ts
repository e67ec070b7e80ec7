// A reader of standard output or standard error that goes away (`sluice model list | head -1`) is no fault of the command.

/**
 * Words nobody reads any more are dropped, and the command goes on to its end with the exit code it would have had: ending
 * it there, as SIGPIPE does, could leave half a run behind. Where standard output is the sink of predictions or of a
 * portfolio, the sink hears of it too (`openStreamSink`): such a run has failed, with `output_closed` and exit code 1.
 */
export function outliveReaders(streams: readonly NodeJS.WritableStream[]): void {
  for (const stream of streams) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
    });
  }
}
