// Measures decoding and formatting of generated applications, ours against the references: node bench/decode.ts [rows]
import path from 'node:path';
import { parseArgs } from 'node:util';
import type { ColumnBatch } from '../src/core/batch.ts';
import { createDecoder, type DecoderChoice, type DecoderInput } from '../src/decode/create.ts';
import type { RecordSlice } from '../src/decode/decoder.ts';
import { splitHeader } from '../src/decode/header.ts';
import { generatePortfolio } from '../src/demo/generate.ts';
