// Imported first: modules that decode in this process do it with csv-parse and JSON.parse.
process.env.SLUICE_DECODER = 'reference';
