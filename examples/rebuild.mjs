// The state of a stream, made anew from its data files: what the page "Rebuilding", and 4.2 to 4.4 of the page
// "Writing", of the format describe. Its lineage is null. What is damaged is left out and reported on standard error.
// crc32 is in Node from 20.15 on.
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { crc32, inflateRawSync } from 'node:zlib';
import { byCodePoint, canonical, exact, hashOf, levels } from './hash.mjs';
import { getJson, namesIn } from './newest.mjs';
import {
  check, checkState, folderOf, fromSegment, get, isObject, isRow, isSchemaMessage, isText, isWeb, listOf, parse, sumOf,
  toSegment,
} from './reader.mjs';

const MOST_LEVELS = 400;
const MOST_STEPS = 20_000; // of the search for an exact cover
const HOLE = '{"type":"ERASED"}';

export async function rebuild(root, tap, stream) {
  check(!isWeb(root), `there is no manifest of ${tap}, ${stream}, and over HTTP nothing lists its files`);
  const folder = folderOf(tap, stream);
  const { files, schemas, damaged } = await scanAll(root, folder, tap, stream);
  for (const message of damaged) console.error(`left out: ${message}`);
  const chosen = choose(withoutCopies(await withoutUndecided(root, tap, files)));
  check(chosen.length || schemas.length, `there is no stream ${stream} of ${tap}`);
  return list([...chosen, ...schemas], tap, stream);
}

// ---- 9.1 Read
async function scanAll(root, folder, tap, stream) {
  const [files, schemas, damaged] = [[], [], []];
  const attempt = (name, take) => {
    try { return take(); } catch (error) { damaged.push(`${name}: ${error.message}`); return null; }
  };
  for (const version of (await namesIn(root, folder)).filter((name) => fromSegment(name) !== null)) {
    for (const name of (await namesIn(root, `${folder}/${version}`)).sort(byCodePoint)) {
      const at = `${version}/${name}`;
      if (name === 'schema.json') {
        const stored = await get(root, `${folder}/${at}`);
        schemas.push(attempt(at, () => keptSchema(exact(stored), tap, stream)) ?? []);
      } else if (/^[^._].*\.singer\.gz$/s.test(name)) {
        const stored = await get(root, `${folder}/${at}`);
        const { mtime, mtimeNs } = await fs.promises.stat(path.join(root, folder, at), { bigint: true });
        const modified = spellMoment(mtime, String(mtimeNs / 1000n % 1_000_000n));
        const file = attempt(at, () => scan(stored, at, stream));
        if (file?.messages) files.push({ ...file, key: keyOf(file, modified) });
      }
    }
  }
  return { files, schemas: schemas.flat(), damaged };
}

/** 8.1: a version without a message. */
function keptSchema(kept, tap, stream) {
  check(kept.format === 1, `format ${kept.format} is not known`);
  check(kept.tap === tap && kept.stream === stream, 'it is of another stream');
  check('schema' in kept && isText(kept.created) && isText(kept.run), 'schema, created or run is missing');
  return { first: kept, messages: 0, key: [0, kept.created, kept.run, 0, 0] };
}

/** One member of gzip: its text, what its `SL` says, and where it ends. */
function memberAt(bytes, at) {
  const flags = bytes[at + 3];
  check(bytes.readUIntBE(at, 3) === 0x1f8b08 && !(flags & 0xe0), `there is no gzip at byte ${at}`);
  let next = at + 10;
  let said = null;
  if (flags & 4) {
    const end = next + 2 + bytes.readUInt16LE(next);
    for (let field = next + 2; field + 4 <= end && said === null;) {
      const value = bytes.subarray(field + 4, Math.min(end, field + 4 + bytes.readUInt16LE(field + 2)));
      if (bytes.toString('latin1', field, field + 2) === 'SL') said = value;
      field += 4 + value.length;
    }
    next = end;
  }
  for (const flag of [8, 16]) if (flags & flag) next = bytes.indexOf(0, next) + 1; // a name, a comment
  if (flags & 2) next += 2;
  const { buffer: text, engine } = inflateRawSync(bytes.subarray(next), { info: true });
  const end = next + engine.bytesWritten + 8;
  check(end <= bytes.length && bytes.readUInt32LE(end - 8) === crc32(text), `the gzip at byte ${at} is not whole`);
  check(bytes.readUInt32LE(end - 4) === text.length % 2 ** 32, `the gzip at byte ${at} has another length`);
  try { said = said && isUtf8(said) ? exact(said) : null; } catch { said = null; }
  return { text, end, said: isObject(said) ? said : {} };
}

const isInteger = Number.isSafeInteger;
const isTuple = (...kinds) => (value) => (
  Array.isArray(value) && value.length === kinds.length && value.every((each, i) => kinds[i](each)));
const isLake = (value) => value == null || isText(value);
const isHeader = ({ id, created, run, seq, lake_id: lake, atomic }) => (
  [id, created, run].every((text) => isText(text) && text) && isInteger(seq) && isLake(lake)
  && [true, false, undefined].includes(atomic));
const isJoin = (said) => {
  const { id, lineage, offset, replaces, through = [], erased = [], lake_id: lake } = said;
  const numbered = listOf(isTuple(isText, isInteger));
  return isText(id) && isText(lineage) && isInteger(offset) && numbered(replaces) && numbered(through) && isLake(lake)
    && listOf(isTuple(isText, isInteger, isText, isText))(erased) && !isHeader(said);
};
function counted(pairs) {
  return pairs.reduce((counts, [id, number]) => counts.set(id, (counts.get(id) ?? 0) + number), new Map());
}

/** A data file: an entry of a manifest, and what the choice needs. */
function scan(stored, at, stream) {
  const digest = createHash('sha256');
  const empty = { messages: 0, records: 0, members: [], ends: [], holes: [] };
  const file = { path: at, bytes: stored.length, sha256: sumOf(stored), ...empty };
  const [joins, headers, noted] = [[], [], []];
  let [tail, begin] = [Buffer.alloc(0), 0]; // a line may go on in the next member
  for (let start = 0; start < stored.length;) {
    const { text, end, said } = memberAt(stored, start);
    const before = file.messages;
    if (!tail.length) begin = start;
    if (isHeader(said)) headers.push({ ...said, before });
    else if (!text.length && !file.first && isJoin(said)) joins.push(said);
    else if (!text.length && listOf(isRow)(said.attached) && !isJoin(said) && headers.at(-1)?.before !== before) {
      noted.push({ before, rows: said.attached });
    }
    const lines = Buffer.concat([tail, text]);
    const whole = lines.lastIndexOf(10) + 1;
    tail = lines.subarray(whole);
    check(isUtf8(lines.subarray(0, whole)), 'a line is not UTF-8');
    for (const line of lines.toString('utf8', 0, whole).split('\n').slice(0, -1)) takeLine(file, line, stream);
    if (file.messages > before && file.members.at(-1)?.[0] === begin) file.members.at(-1)[1] += file.messages - before;
    else if (file.messages > before) file.members.push([begin, file.messages - before]);
    file.ends.push(digest.update(text).copy().digest('hex'));
    start = end;
  }
  check(!tail.length, 'the last line has no end');
  const [header, isJoined] = [headers[0], joins.length > 0];
  const [, named] = /-([0-9a-v]{16}|w[0-9a-v]{15})\.singer\.gz$/.exec(at) ?? [];
  file.id = joins[0]?.id ?? header?.id ?? named ?? idOfSum(file.sha256);
  file.parts = isJoined ? joins.flatMap(({ replaces }) => replaces) : [[file.id, file.messages]];
  check(file.parts.every(([, number]) => number >= 1) || !file.messages, '"replaces" has a number below 1');
  check(file.parts.reduce((sum, [, number]) => sum + number, 0) === file.messages, '"replaces" does not add up');
  const said = counted(joins.flatMap(({ erased = [] }) => erased));
  const found = counted(holesOf(file).map(([id]) => [id, 1]));
  const same = [...said.keys(), ...found.keys()].every((id) => (said.get(id) ?? 0) === (found.get(id) ?? 0));
  check(same, '"erased" says other holes');
  return { ...file, header, isJoined, erased: file.holes.length, attached: rowsOf(file, headers, noted) };
}

function takeLine(file, line, stream) {
  if (line === HOLE && file.first) file.holes.push(file.messages);
  else {
    const message = parse(line);
    if (!file.first) {
      file.first = exact(line);
      check(message?.type === 'SCHEMA' && 'schema' in message, 'the first line is not a SCHEMA message');
      check(levels(file.first.schema) <= MOST_LEVELS, 'the schema has too many levels');
    }
    check(message?.stream === stream, 'a line is of another stream');
    if (isSchemaMessage(line)) return;
    check(['RECORD', 'ACTIVATE_VERSION'].includes(message.type), 'a line is not a message');
    if (message.type === 'RECORD') file.records += 1;
  }
  file.messages += 1;
}

/** [original, number of the message in it] of each hole. */
function holesOf({ parts, holes }) {
  let [part, start] = [0, 0];
  return holes.map((hole) => {
    for (; hole >= start + parts[part][1]; part += 1) start += parts[part][1];
    return [parts[part][0], hole - start];
  });
}

/** 4.4: rows of attached files. */
function rowsOf({ parts }, headers, noted) {
  const starts = [0, ...headers.map(({ before }) => before)];
  parts.reduce((sum, [, number]) => starts.push(sum + number) && sum + number, 0);
  const rows = noted.flatMap(({ before, rows: said }) => {
    const start = Math.max(...starts.filter((each) => each < before));
    const counts = said.every(([message]) => start + message < before);
    return counts ? said.map(([message, ...rest]) => [start + message, ...rest.slice(0, 6)]) : [];
  });
  return rows.sort(([a], [b]) => a - b);
}

// ---- 9.2, 9.3 Names and copies
function idOfSum(sha256) { // ten bytes in base32hex
  const digits = BigInt(`0x${sha256.slice(0, 20)}`).toString(32);
  return digits.padStart(16, '0');
}

function withoutCopies(files) {
  const endsOnId = ({ path: at, id }) => at.endsWith(`-${id}.singer.gz`);
  const byRank = (a, b) => b.messages - a.messages || b.attached.length - a.attached.length || endsOnId(b) - endsOnId(a)
    || byCodePoint(a.path, b.path);
  const kept = new Map();
  for (const file of files.toSorted(byRank)) {
    const others = kept.get(file.id) ?? [];
    if (!others.some(({ ends }) => ends.includes(file.ends.at(-1)))) kept.set(file.id, [...others, file]);
  }
  return [...kept.values()].flatMap(([first, ...others]) => [first, ...others.map((file) => {
    const id = idOfSum(file.sha256);
    return { ...file, id, parts: [[id, file.messages]] };
  })]);
}

/** Without files of atomic runs that were not committed. */
async function withoutUndecided(root, tap, files) {
  if (!files.some(({ header }) => header?.atomic)) return files;
  const folder = `raw/${toSegment(tap)}/_commits`;
  const names = (await namesIn(root, folder)).filter((name) => name.endsWith('.json'));
  const decisions = await Promise.all(names.map((name) => getJson(root, `${folder}/${name}`)));
  for (const { format } of decisions) check(format === 1, `format ${format} of a decision is not known`);
  const runs = decisions.filter(({ committed }) => committed).map(({ run }) => run);
  if (!decisions.length) return files;
  return files.filter(({ isJoined, header }) => isJoined || !header?.atomic || runs.includes(header.run));
}

// ---- 9.4 Choose
function choose(files) {
  const [most, erased] = [new Map(), new Map()];
  for (const file of files) {
    for (const [id, number] of file.parts) most.set(id, Math.max(most.get(id) ?? 0, number));
    for (const [id, number] of holesOf(file)) erased.set(id, (erased.get(id) ?? new Set()).add(number));
  }
  const allowed = files.filter((file) => {
    const holes = new Set(holesOf(file).map((hole) => hole.join()));
    return file.parts.every(([id, number]) => (
      [...erased.get(id) ?? []].every((hole) => hole >= number || holes.has([id, hole].join()))));
  });
  const hasMost = ([id, number]) => number === most.get(id);
  const useful = allowed.map((file) => ({ ...file, gained: file.parts.filter(hasMost) }));
  const gained = new Set(useful.flatMap((file) => file.gained.map(([id]) => id)));
  for (const id of most.keys()) check(gained.has(id), `a file that still holds what was erased has the most of ${id}`);
  const whole = useful.filter((file) => file.gained.length === file.parts.length);
  const covered = idsIn(whole);
  const rest = [...gained].filter((id) => !covered.has(id));
  const chosen = grouped(whole).flatMap((group) => exactCover(group) ?? coverAll(idsIn(group), group));
  return [...chosen, ...coverAll(rest, useful)];
}

const idsOf = ({ parts }) => parts.map(([id]) => id);
const idsIn = (files) => new Set(files.flatMap(idsOf));

/** Files in groups that have no original in common. */
function grouped(files) {
  const groups = new Map();
  for (const file of files) {
    const others = new Set(idsOf(file).map((id) => groups.get(id)).filter(Boolean));
    const [largest = [], ...more] = [...others].sort((a, b) => b.length - a.length);
    largest.push(file, ...more.flat());
    for (const id of idsIn([file, ...more.flat()])) groups.set(id, largest);
  }
  return [...new Set(groups.values())];
}

/** Files that have each original once; null where there is no way, or none was found in so many steps. */
function exactCover(files) {
  let steps = 0;
  const search = (left, usable) => {
    if (!left.length) return [];
    steps += 1;
    for (const file of usable.filter((each) => idsOf(each).includes(left[0]))) {
      if (steps > MOST_STEPS) return null;
      const taken = new Set(idsOf(file));
      const isFree = (id) => !taken.has(id);
      const more = search(left.filter(isFree), usable.filter((each) => idsOf(each).every(isFree)));
      if (more) return [file, ...more];
    }
    return null;
  };
  const sorted = files.toSorted((a, b) => b.parts.length - a.parts.length || byCodePoint(a.id, b.id));
  return search([...idsIn(sorted)], sorted);
}

/** Files that have each of these originals once or more often: first those that bring most and repeat least. */
function coverAll(wanted, files) {
  const [left, taken] = [new Set(wanted), []];
  const count = ({ gained }, of) => gained.reduce((sum, [id, number]) => sum + (of(id) ? number : 0), 0);
  const more = (file) => count(file, (id) => left.has(id));
  const again = (file) => count(file, (id) => !left.has(id));
  while (left.size) {
    const best = files.reduce((a, b) => ((more(b) - more(a) || again(a) - again(b)) > 0 ? b : a));
    taken.push(best);
    for (const [id] of best.gained) left.delete(id);
  }
  return taken;
}

// ---- 9.5, 9.6 Order, and list
const CLOCK = '([01]\\d|2[0-3])(?::([0-5]\\d)(?::([0-5]\\d)(?:[.,](\\d+))?)?)?';
const OFFSET = '([+-])([01]\\d|2[0-3])(?::?([0-5]\\d))?';
const MOMENT = new RegExp(`^(\\d{4}-\\d\\d-\\d\\d)[Tt ]${CLOCK}(?:[Zz]|${OFFSET})?$`);
/** 5.1: a moment as text, to the microsecond; null where the text names none. */
export function moment(text) {
  const [, date, hour, minute = '00', second = '00', fraction = '', sign, ...offset] = MOMENT.exec(text) ?? [];
  const local = new Date(`${date}T${hour}:${minute}:${second}Z`);
  if (Number.isNaN(local.getTime()) || local.toISOString().slice(0, 10) !== date) return null; // such as 30 February
  const [hours, minutes] = offset.map((each) => Number(each ?? 0));
  const ahead = sign ? Number(`${sign}1`) * (hours * 60 + minutes) * 60_000 : 0;
  return spellMoment(new Date(local - ahead), fraction.slice(0, 6).padEnd(6, '0'));
}

function spellMoment(date, fraction) {
  const year = date.getUTCFullYear();
  if (year < 1) return '0001-01-01T00:00:00.000000Z';
  if (year > 9999) return '9999-12-31T23:59:59.999999Z';
  return `${date.toISOString().slice(0, 19)}.${fraction.padStart(6, '0')}Z`;
}

/** What files are sorted by, before their ids. */
function keyOf({ header }, modified) {
  return header ? [0, moment(header.created) ?? modified, header.run, header.seq, 1] : [1, modified, '', 0, 1];
}
function byKey(a, b) {
  for (const [i, value] of a.key.entries()) {
    const order = isText(value) ? byCodePoint(value, b.key[i]) : value - b.key[i];
    if (order) return order;
  }
  return a.id === undefined ? 0 : byCodePoint(a.id, b.id);
}

const namesOf = (value) => [value ?? []].flat().filter(isText);

function list(items, tap, stream) {
  const [names, versions, schemas, files] = [new Map(), {}, {}, []];
  let offset = 0;
  for (const { first, ...file } of items.toSorted(byKey)) {
    const { schema, key_properties: keys, bookmark_properties: bookmarks } = first;
    const text = canonical(schema);
    const hash = hashOf(text);
    const known = names.get(text.toString('latin1'));
    const version = known ?? (Object.hasOwn(versions, hash.slice(0, 7)) ? hash : hash.slice(0, 7));
    names.set(text.toString('latin1'), version);
    versions[version] ??= `v${names.size}`;
    const { first_offset = offset } = schemas[version] ?? {};
    schemas[version] = { schema, key_properties: namesOf(keys), bookmark_properties: namesOf(bookmarks), first_offset };
    if (!file.messages) continue;
    const { id, path: at, messages, records, bytes, sha256, members, erased, attached } = file;
    files.push({ id, path: at, version, offset, messages, records, bytes, sha256, members, erased, attached });
    offset += messages;
  }
  const has = { attached: files.some(({ attached }) => attached.length), erased: files.some(({ erased }) => erased) };
  const features = Object.keys(has).filter((name) => has[name]);
  const about = { format: 1, features, tap, stream, store: '', lineage: '', transaction: { number: 0, id: '' } };
  return { ...checkState({ ...about, next_offset: offset, versions, schemas, files }, tap, stream), lineage: null };
}
