// Names a schema as the page "The hash of a schema" of the format describes it.
import { randomBytes } from 'node:crypto';
import { parse } from './reader.mjs';

// ---- JSON whose numbers keep their text: those that a double may change, NaN and Infinity are { [TEXT]: text }
const TEXT = `text-${randomBytes(16).toString('hex')}`;
const WRAPPED = new RegExp(`\\{"${TEXT}":"([^"]*)"\\}`, 'g');
export function exact(bytes) {
  return parse(bytes, (number) => (/^-?\d{1,15}$/.test(number) ? number : `{"${TEXT}":"${number}"}`));
}
/** The same as `parse` gives it. */
export const plain = (value) => parse(JSON.stringify(value).replaceAll(WRAPPED, '$1'));

const isOpen = (value) => typeof value === 'object' && value !== null && !(TEXT in value);
/** How many levels of objects and arrays there are. */
export function levels(value) {
  return isOpen(value) ? 1 + Object.values(value).reduce((most, each) => Math.max(most, levels(each)), 0) : 0;
}
/** UTF-8, with a lone surrogate as three bytes. */
function encode(text) {
  const surrogate = (unit) => [0xe0 | unit >> 12, 0x80 | unit >> 6 & 0x3f, 0x80 | unit & 0x3f];
  const parts = text.split(/(\p{Cs})/u);
  return Buffer.concat(parts.map((part, i) => Buffer.from(i % 2 ? surrogate(part.charCodeAt(0)) : part)));
}
/** For sort: by code point, where JavaScript compares UTF-16. */
export const byCodePoint = (a, b) => Buffer.compare(encode(a), encode(b));

// ---- Canonical JSON
function spellNumber(text, sorting) {
  if (/^-?\d+$/.test(text)) return text === '-0' ? '0' : text;
  const number = Number(text);
  if (!Number.isFinite(number)) return sorting ? String(number) : 'null';
  const [, sign, first, more = '', power] = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(number.toExponential());
  const [minus, exponent, digits] = [Object.is(number, -0) ? '-' : sign, Number(power), first + more];
  if (exponent < -4 || exponent > 15) {
    return `${minus}${first}${more && '.'}${more}e${power[0]}${power.slice(1).padStart(2, '0')}`;
  }
  if (exponent < 0) return `${minus}0.${'0'.repeat(-exponent - 1)}${digits}`;
  return `${minus}${digits.slice(0, exponent + 1).padEnd(exponent + 1, '0')}.${digits.slice(exponent + 1) || '0'}`;
}

const escape = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
/** JSON with sorted keys. Separators and texts are those of the hash, or those by which arrays are sorted. */
function spell(value, sorting) {
  if (typeof value === 'string') {
    const text = `"${value.replace(/["\\\u0000-\u001f]/g, (unit) => JSON.stringify(unit).slice(1, -1))}"`;
    return sorting ? text.replace(/[^ -~]/g, escape) : text;
  }
  if (typeof value === 'number') return spellNumber(Object.is(value, -0) ? '0' : String(value));
  if (!isOpen(value)) return value?.[TEXT] ? spellNumber(value[TEXT], sorting) : String(value);
  const [comma, colon] = sorting ? [', ', ': '] : [',', ':'];
  if (Array.isArray(value)) return `[${value.map((each) => spell(each, sorting)).join(comma)}]`;
  const keys = Object.keys(value).sort(byCodePoint);
  return `{${keys.map((key) => spell(key, sorting) + colon + spell(value[key], sorting)).join(comma)}}`;
}

const OF_NAMES = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'];
const OF_VALUES = ['const', 'default', 'enum', 'examples', 'example'];
/** A schema whose arrays under `type` and `required` are sorted. */
function sorted(schema, keysAreNames = false) {
  if (!isOpen(schema)) return schema;
  if (Array.isArray(schema)) return schema.map((each) => sorted(each));
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => {
    if (keysAreNames) return [key, sorted(value)];
    if (OF_VALUES.includes(key)) return [key, value];
    if (!['type', 'required'].includes(key) || !Array.isArray(value)) return [key, sorted(value, OF_NAMES.includes(key))];
    const keyed = sorted(value).map((each) => [spell(each, true), each]);
    return [key, keyed.sort(([a], [b]) => (a < b ? -1 : Number(a > b))).map(([, each]) => each)];
  }));
}

/** The bytes of canonical JSON: a schema as `exact` gives it. */
export const canonical = (schema) => encode(spell(sorted(schema)));

// ---- Fingerprint64 of FarmHash
const [K0, K1, K2] = [0xc3a5c85c97cb3127n, 0xb492b66fbe98f273n, 0x9ae16a3b2f90404fn];
const u64 = (value) => BigInt.asUintN(64, value);
const rotate = (value, by) => u64(value) >> by | u64(value << 64n - by);
const mix = (value) => u64(value) ^ u64(value) >> 47n;
const pair = (u, v, mul) => u64(mix(u64(mix(u64(u ^ v) * mul) ^ v) * mul) * mul);

export function fingerprint(bytes) {
  const { length } = bytes;
  const [n, mul] = [BigInt(length), K2 + BigInt(length) * 2n];
  const at = (i) => bytes.readBigUInt64LE(i);
  const end = (i) => at(length - i);
  if (length === 0) return K2;
  if (length < 4) {
    const [first, middle, last] = [bytes[0], bytes[length >> 1], bytes[length - 1]].map(BigInt);
    return u64(mix((first + (middle << 8n)) * K2 ^ (n + (last << 2n)) * K0) * K2);
  }
  if (length < 8) return pair(n + BigInt(bytes.readUInt32LE(0) * 8), BigInt(bytes.readUInt32LE(length - 4)), mul);
  if (length <= 16) {
    const [a, b] = [u64(at(0) + K2), end(8)];
    return pair(u64(rotate(b, 37n) * mul + a), u64((rotate(a, 25n) + b) * mul), mul);
  }
  if (length <= 64) {
    const [a, b, c, d] = [at(0) * (length <= 32 ? K1 : K2), at(8), end(8) * mul, end(16) * K2];
    const y = u64(rotate(a + b, 43n) + rotate(c, 30n) + d);
    const z = u64(a + rotate(b + K2, 18n) + c);
    if (length <= 32) return pair(y, z, mul);
    const [e, f, g, h] = [at(16) * mul, at(24), (y + end(32)) * mul, (pair(y, z, mul) + end(24)) * mul];
    return pair(u64(rotate(e + f, 43n) + rotate(g, 30n) + h), u64(e + rotate(f + a, 18n) + g), mul);
  }
  let [x, y, z, v, w] = [81n * K2 + at(0), 81n * K1 + 113n, 0n, [0n, 0n], [0n, 0n]];
  z = u64(mix(y * K2 + 113n) * K2);
  const weak = (i, first, second) => {
    const start = first + at(i);
    const sum = start + at(i + 8) + at(i + 16);
    return [u64(sum + at(i + 24)), u64(rotate(second + start + at(i + 24), 21n) + rotate(sum, 44n) + start)];
  };
  const round = (i, by, nine) => {
    x = u64(rotate(x + y + v[0] + at(i + 8), 37n) * by) ^ u64(w[1] * nine);
    y = u64(rotate(y + v[1] + at(i + 48), 42n) * by + v[0] * nine + at(i + 40));
    z = u64(rotate(z + w[0], 33n) * by);
    v = weak(i, v[1] * by, x + w[0]);
    w = weak(i + 32, z + w[1], y + at(i + 16));
    [x, z] = [z, x];
  };
  for (let i = 0; i < length - 64; i += 64) round(i, K1, 1n);
  const by = K1 + ((z & 0xffn) << 1n);
  w[0] = u64(w[0] + (n - 1n & 63n));
  v[0] = u64(v[0] + w[0]);
  w[0] = u64(w[0] + v[0]);
  round(length - 64, by, 9n);
  return pair(pair(v[0], w[0], by) + mix(y) * K0 + z, pair(v[1], w[1], by) + x, by);
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~';
/** All ten characters. */
export function hashOf(text) {
  const value = fingerprint(text);
  const digit = (number, power) => ALPHABET[Math.floor(number / 85 ** power) % 85];
  const half = (number) => [4, 3, 2, 1, 0].map((power) => digit(number, power)).join('');
  return half(Number(value >> 32n)) + half(Number(value & 0xffffffffn));
}
