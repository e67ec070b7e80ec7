// Loads the program into this process. A file of its own, because a Node older than 12 cannot parse `import()`.
'use strict';

const { pathToFileURL } = require('node:url');

module.exports = (main) => {
  // SQLite is used as it is in Node 22, too; that it may still change there is our business and not that of whoever scores.
  const emitWarning = process.emitWarning;
  process.emitWarning = (warning, ...rest) => {
    if (rest[0] !== 'ExperimentalWarning') emitWarning.call(process, warning, ...rest);
  };
  import(pathToFileURL(main).href);
};
