// Reads a stream of a Singerlake, in a folder or at a URL, as the page "Reading" of the format describes it:
//     node reader.mjs LAKE TAP STREAM [--from OFFSET | --version LABEL]
// prints messages as they are stored, one a line. Where manifest.json is not all, newest.mjs beside it does the rest.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';

const FEATURES = ['atomic', 'attached', 'erased', 'expired', 'segments'];

const goneError = (key) => Object.assign(new Error(`${key} is listed, but there is no such object`), { gone: key });
export const sumOf = (bytes) => createHash('sha256').update(bytes).digest('hex');
export function check(holds, message) { if (!holds) throw new Error(message); }
function unzip(bytes, key) {
  try { return gunzipSync(bytes); } catch (error) { throw new Error(`${key}: ${error.message}`); }
}

// ---- 2.1 Path segments
export function toSegment(name) {
  const escape = (character) => {
    const code = character.codePointAt(0);
    const lone = code >= 0xd800 && code <= 0xdfff; // a surrogate
    const bytes = Buffer.from(lone ? [0xe0 | code >> 12, 0x80 | code >> 6 & 0x3f, 0x80 | code & 0x3f] : character);
    return bytes.toString('hex').toUpperCase().replace(/../g, '%$&');
  };
  const segment = name.replace(/[^A-Za-z0-9_.-]|^[_.-]/gu, escape);
  return /^(catalogue|singerlake)\.json$/.test(segment) ? segment.replace('.', '%2E') : segment;
}

/** The name; null where this is not the segment of a name. */
export function fromSegment(segment) {
  const surrogate = (_, a, b) => String.fromCharCode(0xd000 | (parseInt(a, 16) & 0x3f) << 6 | parseInt(b, 16) & 0x3f);
  try {
    const name = decodeURIComponent(segment.replace(/%ED%([AB][0-9A-F])%([89AB][0-9A-F])/g, surrogate));
    return toSegment(name) === segment ? name : null;
  } catch { return null; }
}

// ---- Where a lake is: the bytes of a key from `start` on, or null where there is no such key
export const isWeb = (root) => /^https?:/i.test(root);
export const get = (root, key, start = 0) => (isWeb(root) ? getUrl : getFile)(root, key, start);
async function getFile(root, key, start) {
  try {
    const file = await fs.promises.open(path.join(root, key));
    return await buffer(file.createReadStream({ start }));
  } catch (error) { if (error.code === 'ENOENT') return null; throw error; }
}

export function urlOf(root, key) {
  const url = new URL(root); // its query stays, such as a token
  url.pathname = url.pathname.replace(/\/?$/, '/') + key.split('/').map(encodeURIComponent).join('/');
  return url;
}
async function getUrl(root, key, start) {
  const url = urlOf(root, key);
  const headers = { 'Accept-Encoding': 'identity', ...(start && { Range: `bytes=${start}-` }) };
  const [response] = await once((url.protocol === 'https:' ? https : http).get(url, { headers }), 'response');
  const { statusCode: status, headers: { 'content-range': range } } = response;
  const bytes = await buffer(response);
  if (status === 404 || status === 410) return null;
  if (status === 200) return bytes.subarray(start); // all of it, from a server that knows no ranges
  check(status === 206 && range?.startsWith(`bytes ${start}-`), `${key}: HTTP ${status}`);
  return bytes;
}

// ---- The state: The rules, 4.1, 5, 5.3, 5.5
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?Infinity|NaN|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** JSON, with what `spell` makes of each number. NaN and Infinity become null. */
export function parse(bytes, spell = (number) => (/\d/.test(number) ? number : 'null')) {
  return JSON.parse(bytes.toString().replace(TOKENS, (token) => (token[0] === '"' ? token : spell(token))));
}
/** For states, where 7.0 and 7e0, which JSON.parse takes for 7, become null, too. */
const integer = (number) => (/^-?\d+$/.test(number) ? number : 'null');

export const isText = (value) => typeof value === 'string';
export const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isSum = (value) => isText(value) && /^[0-9a-f]{64}$/.test(value);
const maybe = (is) => (value) => value === undefined || is(value);
export const listOf = (is) => (value) => Array.isArray(value) && value.every(is);
const mapOf = (is) => (value) => isObject(value) && Object.values(value).every(is);
const isMember = (value) => listOf(isCount)(value) && value.length === 2;
const isSchema = (value) => isObject(value) && 'schema' in value && isCount(value.first_offset);
export const isPath = (value) => isText(value) && value.split('/').every((name) => !['', '.', '..'].includes(name));
const isName = (value) => isText(value) && /^[0-9]{20}-[0-9a-v]{16}$/.test(value);
export function isRow(row) {
  const [message, property, source, sha256, bytes, type, copy] = Array.isArray(row) ? row : [];
  const object = isSum(sha256) && isCount(bytes) && isText(type) && isCount(copy) && copy >= 1 && copy <= 999_999_999;
  const none = sha256 === null && bytes === null && type === null && copy === 1;
  return isCount(message) && isText(property) && (source === null || isText(source)) && (object || none);
}
const STATE = {
  tap: isText, stream: isText, store: isText, lineage: isText, next_offset: isCount, versions: mapOf(isText),
  schemas: mapOf(isSchema), features: maybe(listOf(isText)), files: listOf(isObject), segments: maybe(listOf(isObject)),
  transaction: (value) => isCount(value?.number),
};
const SEGMENT = { name: isName, sha256: isSum, offset: isCount, end: isCount };
const FILE = {
  path: isPath, version: isText, offset: isCount, messages: isCount, bytes: isCount, sha256: isSum,
  members: listOf(isMember), attached: maybe(listOf(isRow)), erased: maybe(isCount),
};
const checkFields = (value, fields, what) => Object.entries(fields)
  .forEach(([name, is]) => check(is(value[name]), `${what}: ${name} is missing or not valid`));

/** Checks files, the first of which begins at `offset`; gives the offset behind the last. */
function checkFiles(files, offset, features) {
  for (const file of files) {
    checkFields(file, FILE, `file ${file.path}`);
    const { members } = file;
    check(file.offset === offset, `${file.path} begins at ${file.offset} and not at ${offset}`);
    check(members.reduce((sum, member) => sum + member[1], 0) === file.messages, `${file.path}: members do not add up`);
    check(members.every(([at], i) => at < (members[i + 1]?.[0] ?? file.bytes)), `${file.path}: members are not valid`);
    check(!file.attached?.some(([message]) => message >= file.messages), `${file.path}: attached is beyond its messages`);
    checkFeatures(features, { erased: file.erased, attached: file.attached?.length });
    offset += file.messages;
  }
  return offset;
}
function checkFeatures(features, found) {
  const more = Object.keys(found).filter((name) => found[name] && !features.includes(name));
  check(!more.length, `there is something of the feature ${more}, and "features" does not name it`);
}

export const folderOf = (tap, stream) => `raw/${toSegment(tap)}/${toSegment(stream)}`;
/** Gives a state, as it was parsed, with `folder` and `floor`. */
export function checkState(state, tap, stream) {
  check(state?.format === 1, `format ${state?.format} is not known`);
  checkFields(state, STATE, 'manifest.json');
  const { files, features = [], segments = [], settled, prepared, retired } = state;
  for (const name of features) check(FEATURES.includes(name), `the feature ${name} is not known`);
  check(state.tap === tap && state.stream === stream, `manifest.json is of the stream ${state.stream} of ${state.tap}`);
  const floor = (segments[0] ?? files[0])?.offset ?? state.next_offset;
  const attached = retired?.some((entry) => entry.path.startsWith('_files/'));
  checkFeatures(features, { attached, expired: floor, segments: state.segments, atomic: settled ?? prepared });
  let offset = floor;
  for (const segment of segments) {
    checkFields(segment, SEGMENT, 'segment');
    check(segment.offset === offset && segment.end > offset, `segment ${segment.name} does not begin at ${offset}`);
    offset = segment.end;
  }
  check(checkFiles(files, offset, features) === state.next_offset, `the files do not end at ${state.next_offset}`);
  return { ...state, folder: folderOf(tap, stream), floor, features, segments };
}

/** The newest state of a stream. By 7.1 and 7.2 a log may be ahead of manifest.json, or all that there is. */
export async function load(root, tap, stream) {
  const stored = await get(root, `${folderOf(tap, stream)}/manifest.json`);
  const state = stored && checkState(parse(stored, integer), tap, stream);
  if (state && !['log', 'merge'].includes(state.store)) return { ...state, schemas: parse(stored).schemas };
  return (await import('./newest.mjs')).newest(root, tap, stream, stored);
}

/** The files with messages from an offset on. A segment is read when its turn comes. */
export async function* filesFrom(root, state, from) {
  for (const segment of state.segments.filter(({ end }) => end > from)) {
    const key = `${state.folder}/_segments/${segment.name}.json.gz`;
    const stored = await get(root, key);
    if (!stored) throw goneError(key);
    const text = unzip(stored, key);
    check(sumOf(text) === segment.sha256, `${key}: the checksum is not that of the manifest`);
    const files = parse(text, integer);
    check(checkFiles(files, segment.offset, state.features) === segment.end, `${key} does not end at ${segment.end}`);
    yield* files.filter((file) => file.offset + file.messages > from);
  }
  yield* state.files.filter((file) => file.offset + file.messages > from);
}

// ---- 4 Data files
export function isSchemaMessage(line) {
  try { return line.includes('"SCHEMA"') && parse(line)?.type === 'SCHEMA'; } catch { return false; }
}
/** The lines of whole members, as Buffers and without SCHEMA messages. */
function linesOf(text, key) {
  const lines = [];
  let at = 0;
  for (let end; (end = text.indexOf('\n', at)) >= 0; at = end + 1) lines.push(text.subarray(at, end));
  check(at === text.length, `${key}: the last line has no end`);
  return lines.filter((line) => !isSchemaMessage(line));
}

/** The messages of a file from an offset on, { offset, line } each. */
async function* messagesOf(root, state, file, from) {
  const key = `${state.folder}/${file.path}`;
  let { offset, members } = file;
  if (from <= offset && members[0]?.[0] !== 0) members = [[0, 0], ...members]; // the SCHEMA message has its own member
  for (; from > file.offset && offset + members[0][1] <= from; members = members.slice(1)) offset += members[0][1];
  const start = members[0][0];
  const stored = await get(root, key, start);
  if (!stored) throw goneError(key);
  check(start + stored.length === file.bytes, `${key} has ${start + stored.length} bytes and not ${file.bytes}`);
  check(start || sumOf(stored) === file.sha256, `${key}: the checksum is not that of the manifest`);
  for (const [i, [at, messages]] of members.entries()) {
    const end = members[i + 1]?.[0] ?? file.bytes;
    const lines = linesOf(unzip(stored.subarray(at - start, end - start), key), key);
    check(lines.length === messages, `${key} has ${lines.length} messages from byte ${at} on and not ${messages}`);
    for (const line of lines) {
      if (offset >= from && !(file.erased && line.toString() === '{"type":"ERASED"}')) yield { offset, line };
      offset += 1;
    }
  }
}

// ---- 7 Reading, step by step
/** Messages, { offset, line } each, `line` a Buffer: from the floor, an offset, or a version's label on. */
export async function* read(root, tap, stream, { from, version } = {}) {
  let state = await load(root, tap, stream);
  const hash = Object.keys(state.versions).find((key) => state.versions[key] === version);
  check(version === undefined || hash, `there is no version ${version}`);
  let next = from ?? Math.max(state.schemas[hash]?.first_offset ?? 0, state.floor);
  for (let gone; ;) {
    check(next >= state.floor, `the messages at ${next} expired: it begins at ${state.floor}`);
    try {
      for await (const file of filesFrom(root, state, next)) {
        for await (const message of messagesOf(root, state, file, next)) {
          next = message.offset + 1;
          yield message;
        }
      }
      return;
    } catch (error) {
      if (!error.gone || error.gone === gone) throw error;
      gone = error.gone;
    }
    const { lineage } = state;
    state = await load(root, tap, stream);
    check(lineage !== null && state.lineage === lineage, 'the stream was replaced by another one while it was read');
  }
}

async function main() {
  const [from, version] = [{ type: 'string' }, { type: 'string' }];
  const { values, positionals } = parseArgs({ options: { from, version }, allowPositionals: true });
  check(positionals.length === 3, 'usage: node reader.mjs LAKE TAP STREAM [--from OFFSET | --version LABEL]');
  check(/^\d+$/.test(values.from ?? 0), `${values.from} is not a valid offset`);
  for await (const { line } of read(...positionals, { ...values, from: values.from && Number(values.from) })) {
    if (!process.stdout.write(Buffer.concat([line, Buffer.from('\n')]))) await once(process.stdout, 'drain');
  }
}

const isProgram = process.argv[1] && import.meta.url === pathToFileURL(fs.realpathSync(process.argv[1])).href;
if (isProgram) main().catch((error) => { console.error(error.message); process.exitCode = 1; });
