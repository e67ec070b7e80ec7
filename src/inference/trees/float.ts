// Floating-point details that bit-identical scores depend on: neighbours of a number, and the functions expf and logf
// of the C library.

const buffer = new DataView(new ArrayBuffer(8));

/** The next smaller number of the type. Returns -Infinity and NaN unchanged. */
export function below(x: number, double: boolean): number {
  if (x === -Infinity || Number.isNaN(x)) return x;
  if (x === 0) return double ? -Number.MIN_VALUE : -1.401298464324817e-45;
  if (double) {
    buffer.setFloat64(0, x);
    buffer.setBigInt64(0, buffer.getBigInt64(0) + (x > 0 ? -1n : 1n));
    return buffer.getFloat64(0);
  }
  buffer.setFloat32(0, x);
  buffer.setInt32(0, buffer.getInt32(0) + (x > 0 ? -1 : 1));
  return buffer.getFloat32(0);
}

/** The next larger number of the type. */
export const above = (x: number, double: boolean): number => -below(-x, double);

/** 2^(i/32), correctly rounded. */
const POWERS = Float64Array.of(
  1.0, 1.0218971486541166, 1.0442737824274138, 1.0671404006768237, 1.0905077326652577, 1.1143867425958924,
  1.1387886347566916, 1.1637248587775775, 1.189207115002721, 1.215247359980469, 1.241857812073484, 1.2690509571917332,
  1.2968395546510096, 1.3252366431597413, 1.3542555469368927, 1.383909881963832, Math.SQRT2, 1.4451808069770467,
  1.4768261459394993, 1.5091644275934228, 1.5422108254079407, 1.5759808451078865, 1.6104903319492543, 1.645755478153965,
  1.681792830507429, 1.718619298122478, 1.7562521603732995, 1.7947090750031072, 1.8340080864093424, 1.8741676341103,
  1.9152065613971474, 1.9571441241754002,
); // biome-ignore format: the table reads better packed

const powerValue = new Float64Array(1);
/**
 * The two halves of the double. The second half contains the exponent, because all machines that run WebAssembly SIMD
 * are little-endian.
 */
const power = new Int32Array(powerValue.buffer);
const EXPONENT_BIAS = 1023;
const EXPONENT_AT = 20;

const INVERSE = 46.16624130844683;
const SHIFT = 6_755_399_441_055_744;
const [C0, C1, C2] = [1.6938359250920212e-6, 0.00023459809789509004, 0.021660849396613134];

/**
 * expf as computed by glibc, which ONNX Runtime calls on Linux. The algorithm is that of Arm's optimized routines: a
 * table of 32 powers and a cubic polynomial, in double precision. `x` is a float32. A correctly rounded exp would
 * differ in the last bit for about one in some hundred numbers.
 */
export function expf(x: number): number {
  if (!(x < 88.72283172607422)) return Number.isNaN(x) ? x : Infinity;
  if (x < -103.97207641601562) return 0;
  const z = INVERSE * x;
  const k = z + SHIFT - SHIFT;
  const r = z - k;
  // 2^(k/32): the fraction comes from the table, the integer part is the exponent of a double.
  power[1] = ((k >> 5) + EXPONENT_BIAS) << EXPONENT_AT;
  return Math.fround(((C0 * r + C1) * (r * r) + (C2 * r + 1)) * (POWERS[k & 31]! * powerValue[0]!));
}

/** 1 / c and log(c), for 16 numbers c around 1. */
const LOG_TABLE = Float64Array.of(
  1.398907162146528, -0.33569133332882284, 1.3403141896637998, -0.2929040563774074, 1.286432210124115, -0.2518726580937369,
  1.2367150214269895, -0.21245868807117255, 1.1906977166711752, -0.17453945183745634, 1.1479821020556429, -0.1380057072319758,
  1.1082251448272158, -0.10275976698545139, 1.0711297413057381, -0.06871392447020525, 1.036437278977283, -0.0357891387398228,
  1, 0, 0.9492859795739057, 0.05204517742929496, 0.8951049428609004, 0.11081431298787942, 0.8476821620351103, 0.1652495223695143,
  0.8050314851692001, 0.21687389031699977, 0.7664671008843108, 0.2659635028121397, 0.731428603316328, 0.3127556664073557,
); // biome-ignore format: the table reads better packed
const [L0, L1, L2] = [-0.25089342214237154, 0.333456765744066, -0.4999997485802103];
/** Lower end of the interval to which `logf` reduces numbers, as the bits of a float32. */
const LOG_FROM = 0x3f330000;
const MANTISSA_BITS = 23;

/**
 * logf as computed by glibc. The algorithm is that of Arm's optimized routines: a table of 16 logarithms and a
 * polynomial, in double precision. `x` is a positive normal float32. A correctly rounded logarithm would occasionally
 * differ in the last bit.
 */
export function logf(x: number): number {
  if (x === 1) return 0;
  buffer.setFloat32(0, x);
  const shifted = buffer.getInt32(0) - LOG_FROM;
  const exponent = shifted >> MANTISSA_BITS;
  const entry = ((shifted >> (MANTISSA_BITS - 4)) & 15) * 2;
  buffer.setInt32(0, buffer.getInt32(0) - (exponent << MANTISSA_BITS));
  const r = buffer.getFloat32(0) * LOG_TABLE[entry]! - 1;
  const y = L0 * (r * r) + (L1 * r + L2);
  return Math.fround(y * (r * r) + (LOG_TABLE[entry + 1]! + exponent * Math.LN2 + r));
}

/** 1 / (1 + e^-|x|) in float32, with the same steps as ONNX Runtime's tree ensembles. */
export const logisticOfMagnitude = (x: number): number => Math.fround(1 / Math.fround(1 + expf(-Math.abs(x))));

/** 1 / (1 + e^-x) in float32, with the same steps as ONNX Runtime's tree ensembles. */
export function logistic(x: number): number {
  const v = logisticOfMagnitude(x);
  return x < 0 ? Math.fround(1 - v) : v;
}

/**
 * √2 · erf⁻¹(2x - 1) by Winitzki's approximation, with the same steps as ONNX Runtime (logf may differ in the last
 * bit).
 */
export function probit(x: number): number {
  const f = Math.fround;
  const a = f(f(2 * x) - 1);
  const log = f(Math.log(f(f(1 - a) * f(1 + a))));
  const v = f(f(2 / f(f(Math.PI) * f(0.147))) + f(0.5 * log));
  const v2 = f(f(1 / f(0.147)) * log);
  const v3 = f(-v + f(Math.sqrt(f(f(v * v) - v2))));
  return f(f(Math.SQRT2) * f((a < 0 ? -1 : 1) * f(Math.sqrt(v3))));
}
