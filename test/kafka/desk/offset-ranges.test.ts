// A set of offsets against a plain one.
import { expect, test } from 'vitest';
import { OffsetRanges } from '../../../src/kafka/desk/offset-ranges.ts';
import { randomIn } from '../../support/trials.ts';
