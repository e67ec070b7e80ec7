// Faults as people make them between decoder and sinks, each one a change of one place. The combinations have to find them.

export interface Fault {
  name: string;
  file: string;
  /** Text that is in the file once, and what stands there instead. */
  find: string;
  put: string;
  /** The script of this folder that has to find it; default: first-difference.ts. */
  script?: string;
}

const inFile = (file: string, faults: readonly (readonly [name: string, find: string, put: string])[]): Fault[] =>
  faults.map(([name, find, put]) => ({ name, file, find, put }));

export const FAULTS: readonly Fault[] = [
  ...inFile('src/formats/delimited/header.ts', [
    ['passthrough columns in the order of the file', 'const passthrough = [...new Set(passed)];', 'const passthrough = [...new Set(passed)].sort((a, b) => at.get(a)! - at.get(b)!);'],
    ['a passthrough column takes the field of its neighbour', 'passthrough: passthrough.map((n) => at.get(n)!),', 'passthrough: passthrough.map((n) => Math.max(0, at.get(n)! - 1)),'],
    ['the first two columns of the model are swapped', 'columns: wanted.map((n) => at.get(n)!),', 'columns: wanted.map((_, i) => at.get(wanted[i < 2 ? 1 - i : i]!)!),'],
    ['names are not trimmed', 'this.#trim = declared?.texts?.trim === true;', 'this.#trim = false;'],
  ]),
  ...inFile('src/formats/decode/input-names.ts', [
    ['rename is ignored where a column is looked up', "return Object.hasOwn(this.#rename, name) ? this.#rename[name]! : name;", 'return name;'],
    ['an ignored name is read', 'if (this.#ignored.has(name)) return null;', ''],
  ]),
  ...inFile('src/inference/encode/column-reader.ts', [
    ['numbers stand for categories', 'if (!this.takesNumbers) return this.#faults.notText;', ''],
    ['booleans stand for categories', 'if (!this.takesBooleans) return this.#faults.notText;', ''],
    ['a missing number is 0', "if (this.kind === 'number') out.numbers[i] = NaN;", "if (this.kind === 'number') out.numbers[i] = 0;"],
    ['words for missing values that are declared are forgotten', "new Set([...(spec.missing?.values ?? ['']), ...(rules?.nullValues ?? [])])", "new Set(spec.missing?.values ?? [''])"],
    ['another spelling of a category is unseen', "this.#respells = (this.kind === 'category' || this.kind === 'boolean') && this.takesNumbers;", 'this.#respells = false;'],
    ['a number that means missing is a number', 'if (this.nullNumbers.size > 0 && this.nullNumbers.has(value)) return this.readMissing(out, i);', ''],
    ['the upper end of a range is open', 'this.max = Math.min(range.max ?? Infinity, limit);', 'this.max = limit;'],
    ['true and false are swapped', "...(spec.false_values ?? DEFAULT_FALSE).map((v): [string, number] => [v, 0]),", "...(spec.false_values ?? DEFAULT_FALSE).map((v): [string, number] => [v, 1]),"],
    ['an unseen category is a missing one', 'out.codes[i] = UNSEEN;', 'out.codes[i] = MISSING;'],
    ['the notation of numbers is ignored', "const plain = isPlain ? text : plainNumber(text, notation);", 'const plain = text;'],
  ]),
  ...inFile('src/formats/decode/cells.ts', [
    ['a word of JSON is the other boolean', 'codes[first + r] = type === TRUE ? 1 : 0;', 'codes[first + r] = type === TRUE ? 0 : 1;'],
    ['numbers of a column stand one row later', 'numbers[first + r] = value;', 'numbers[Math.min(numbers.length - 1, first + r + 1)] = value;'],
  ]),
  ...inFile('src/formats/delimited/delimited-decoder.ts', [
    ['the passthrough text of the row before', 'texts[first + r] = table.text(r * table.width + field);', 'texts[first + r] = table.text(Math.max(0, r - 1) * table.width + field);'],
    ['a row of another length is read', 'if (table.states[r] === VALID && fields !== this.#layout.fields) {', 'if (table.states[r] === VALID && fields < this.#layout.fields) {'],
    ['a doubled quote loses the second half of a field', 'bytes[e++] = QUOTE;', ''],
  ]),
  ...inFile('src/formats/json/json-bytes-decoder.ts', [
    ['a key may be there twice', 'if (field < 0 || seen[field] === record) return false;', 'if (field < 0) return false;'],
    ['a string that is passed through loses its quotes', 'const quotes = types[cell] === TEXT ? 1 : 0;', 'const quotes = 0;'],
  ]),
  ...inFile('src/formats/json/json-decoder.ts', [
    ['the outcome is read as any other key', 'if (meant === outcome) {', 'if (meant === null) {'],
    ['rejected rows lose what identifies them', "wrong === null || this.#layout.passthrough !== '*' ? this.#echo(members, row, batch) : null;", 'wrong === null ? this.#echo(members, row, batch) : null;'],
  ]),
  ...inFile('src/formats/columns/columns-decoder.ts', [
    ['the words of another list', 'if (this.#words?.id !== words.id) this.#words = new WordMeanings(this.#reader, words);', 'this.#words ??= new WordMeanings(this.#reader, words);'],
    ['passthrough words of the list before', 'if (cells.kind === \'coded\' && cells.words.id !== this.#list) {', "if (cells.kind === 'coded' && this.#list < 0) {"],
    ['columns are found by their place', 'const model = this.#readers.map((reader) => names.indexOf(meant.inInput(reader.name)));', 'const model = this.#readers.map((reader, i) => (names.includes(meant.inInput(reader.name)) ? i : -1));'],
    ['a number of a column is read as the nearest whole one', 'numbers[row] = value;', 'numbers[row] = Math.round(value);'],
  ]),
  ...inFile('src/formats/arrow/arrow-column.ts', [
    ['a null is 0', 'if ((validity[row >> 3]! & (1 << (row & 7))) === 0) values[i] = Number.NaN;\n    }\n  }\n  return forModel', 'if ((validity[row >> 3]! & (1 << (row & 7))) === 0) values[i] = 0;\n    }\n  }\n  return forModel'],
    ['digits beyond 2^53 are lost', 'if (value > Number.MAX_SAFE_INTEGER || value < -Number.MAX_SAFE_INTEGER) return false;', ''],
  ]),
  ...inFile('src/formats/parquet/parquet-column.ts', [
    ['nulls move the values of a column', 'codes[i] = level[i] === 1 ? found[next++]! : none;', 'codes[i] = level[i] === 1 ? found[i]! : none;'],
  ]),
  ...inFile('src/formats/delimited/column-types.ts', [
    ['types of columns are not looked at', 'if (kind === undefined || takes(reader, kind)) return [];', 'return [];'],
    ['a column to pass through that is not there is nothing', "passthrough: passthrough === '*' ? others : passthrough,", "passthrough: passthrough === '*' ? others : passthrough.filter((name) => names.includes(name)),"],
  ]),
  ...inFile('src/inference/encode/encoder.ts', [
    ['a missing number is not replaced', 'out[o] = Number.isNaN(x) ? missingNumber : x;', 'out[o] = x;'],
    ['codes are read one further', 'out[o] = lookup[codes[r]! - UNSEEN]!;', 'out[o] = lookup[Math.min(lookup.length - 1, codes[r]! - UNSEEN + 1)]!;'],
  ]),
  ...inFile('src/formats/columns/columns-formatter.ts', [
    ['errors of the first rejected row for all', 'rejections[next++]![part]', 'rejections[0]![part]'],
    ['rows are numbered from the first of the micro-batch', 'this.#rows[r] = firstRow + r;', 'this.#rows[r] = 1 + r;'],
    ['effects of the next column', 'x.effects[this.#outputs[r]! * columns + c]! + 0', 'x.effects[this.#outputs[r]! * columns + ((c + 1) % columns)]! + 0'],
  ]),
  ...inFile('src/formats/json/json-formatter.ts', [
    ['an absent key is null', 'if (given === null && isJson) continue;', ''],
  ]),
  ...inFile('src/formats/write/prediction-fields.ts', [
    ['a null is the word for it', "if (token === null || token === 'null') return null;", 'if (token === null) return null;'],
    ['numbers are written as JavaScript does', "if (!token.startsWith('\"')) return token;", "if (!token.startsWith('\"')) return String(JSON.parse(token));"],
  ]),
  ...inFile('src/engine/job-run.ts', [
    ['a micro-batch begins with the last row of the one before', 'this.#from = this.#to;', 'this.#from = Math.max(0, this.#to - 1);'],
    ['rejects are numbered from the micro-batch', 'const i = this.#from + r.index;', 'const i = r.index;'],
  ]),
  ...inFile('src/io/source/table-blocks.ts', [
    ['blocks of a table forget the rows before', 'this.#before += rows;', ''],
  ]),
]; // biome-ignore format: a table
