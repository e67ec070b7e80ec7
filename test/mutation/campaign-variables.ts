// Environment variables that a campaign passes to the Vitest process of a mutant.

/** Comma-separated test files in their order. */
export const FILES_VARIABLE = 'MUTATION_FILES';
/** The path of the file that gets a line of JSON for each test file. */
export const RESULTS_VARIABLE = 'MUTATION_RESULTS';
/** Folder of the coverage of all test files, while it is measured. */
export const COVERAGE_VARIABLE = 'MUTATION_COVERAGE';
/** The table of CPU seconds of the last check. */
export const CPU_TABLE_VARIABLE = 'MUTATION_CPU_TABLE';
