// The newest state of a stream, where manifest.json is not all: what 7.1 and 7.2 of the page "Reading" and the page
// "Stores" of the format describe. reader.mjs reads what comes back as it reads a manifest. Runs are left out.
import fs from 'node:fs';
import path from 'node:path';
import { canonical, exact, hashOf, plain } from './hash.mjs';
import {
  check, checkState, filesFrom, folderOf, get, isCount, isPath, isText, isWeb, toSegment, urlOf,
} from './reader.mjs';

const LAG = 10_000; // milliseconds
const DECISION = /^\d{8}T\d{6}\.\d{6}Z-[0-9a-v]{16}$/;

/** `manifest` is manifest.json as it is stored, or null. */
export async function newest(root, tap, stream, manifest) {
  const state = await follow(root, tap, stream, manifest)
    ?? await (await import('./rebuild.mjs')).rebuild(root, tap, stream);
  return { ...state, schemas: plain(state.schemas) };
}

export async function namesIn(root, folder) {
  try { return await fs.promises.readdir(path.join(root, folder)); } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(error.code)) return [];
    throw error;
  }
}
export async function getJson(root, key) {
  const stored = await get(root, key);
  return stored && exact(stored);
}
const byId = (items) => new Map(items.map((item) => [item.id, item]));

// ---- 7.1, 7.2 Following a log: the state at its end; null where there is none, or the stream goes on in no log
async function follow(root, tap, stream, manifest) {
  const folder = folderOf(tap, stream);
  const floorOf = async () => await getJson(root, `${folder}/_log/floor.json`) ?? { floor: -1 };
  for (let stored = manifest; ; stored = await get(root, `${folder}/manifest.json`)) {
    const { floor, snapshot } = await floorOf();
    check(floor === -1 || (isCount(floor) && isPath(snapshot)), 'floor.json is not valid');
    let state = stored && exact(stored);
    if (!(state?.transaction?.number >= floor)) state = floor < 0 ? null : await getJson(root, `${folder}/${snapshot}`);
    const begin = Math.max(floor, state?.transaction?.number ?? -1);
    let failure;
    try {
      state = state && checkState(state, tap, stream);
      const records = await recordsAbove(root, `${folder}/_log`, begin);
      const closed = records.length ? closedBy(records.at(-1)) : state?.closed;
      if (!stored && closed != null && !['log', 'merge'].includes(closed)) return null;
      state = await applyAll(root, state, records, tap, stream);
    } catch (error) { failure = error; }
    if ((await floorOf()).floor > begin) continue; // records that were wanted may be trimmed
    if (failure) throw failure;
    return state && settleLast(root, state);
  }
}

/** As far as they can be trusted; over HTTP, where nothing lists, as far as they follow each other. */
async function recordsAbove(root, log, number) {
  const keyOf = (each) => `${log}/${String(each).padStart(20, '0')}.json`;
  const records = [];
  const take = async (each) => {
    const record = await getJson(root, keyOf(each));
    if (!record || (record.unguarded && !(await ageOf(root, keyOf(each)) >= LAG))) return false;
    check(record.number === each, `${keyOf(each)} has another number`);
    return records.push({ ...record, key: keyOf(each) });
  };
  if (isWeb(root)) {
    for (let next = number + 1; await take(next);) next += 1;
  } else {
    const names = (await namesIn(root, log)).filter((name) => /^\d{20}\.json$/.test(name)).sort();
    for (const next of names.map((name) => parseInt(name, 10))) if (next > number && !await take(next)) break;
  }
  return records;
}

const transactionsOf = ({ entries, transaction }) => (entries ?? [{ transaction }]);
function closedBy(record) {
  return transactionsOf(record).map((each) => each.transaction.change).find(({ kind }) => kind === 'close')?.successor;
}

async function applyAll(root, begun, records, tap, stream) {
  const isBirth = ({ after, transaction }) => after === null && transaction?.change.kind === 'rebase';
  const birth = records.findLastIndex(isBirth);
  let state = begun;
  if (birth >= 0) {
    const { number, transaction: { id, change } } = records[birth];
    state = checkState({ ...change.manifest, transaction: { number, id } }, tap, stream);
  }
  const rest = records.slice(birth + 1);
  if (!state || !rest.length) return state;
  state = await withAllFiles(root, state);
  for (const record of rest) {
    if (state.closed != null) break;
    const { number, id } = state.transaction;
    check(record.number === number + 1 && record.after === id, `${record.key} does not follow ${number}`);
    for (const { transaction, after } of transactionsOf(record)) {
      const { change } = transaction;
      if (change.kind === 'rebase') {
        change.manifest = await withAllFiles(root, checkState(change.manifest, tap, stream));
      }
      try {
        conflictUnless(after == null || after === state.transaction.id, 'it follows another state');
        state = apply(state, transaction);
      } catch (error) {
        if (!(record.entries && error instanceof Conflict)) throw error;
      }
    }
    state.transaction = { number: record.number, id: record.id ?? record.transaction.id };
  }
  return checkState(withFeatures(state), tap, stream);
}

/** With the files of its segments. */
async function withAllFiles(root, state) {
  const files = [];
  for await (const file of filesFrom(root, state, 0)) files.push(file);
  return { ...state, files, segments: undefined };
}

function withFeatures(state) {
  const { files, next_offset: end, retired = [], settled, prepared } = state;
  const has = {
    atomic: settled != null || prepared != null,
    attached: files.some((file) => file.attached?.length) || retired.some((entry) => entry.path.startsWith('_files/')),
    erased: files.some((file) => file.erased),
    expired: (files[0]?.offset ?? end) > 0,
  };
  return { ...state, features: Object.keys(has).filter((name) => has[name]) };
}

/** How long ago an object was written, by the clock of its storage, in milliseconds. */
async function ageOf(root, key) {
  if (!isWeb(root)) return Date.now() - (await fs.promises.stat(path.join(root, key))).mtimeMs;
  const { headers } = await fetch(urlOf(root, key), { method: 'HEAD' });
  return Date.parse(headers.get('date')) - Date.parse(headers.get('last-modified'));
}

/** 7.2, 11.6: with what an atomic run prepared last, if that was decided. */
async function settleLast(root, begun) {
  if (begun.prepared == null) return begun;
  const { prepared, ...state } = await withAllFiles(root, begun);
  const { commit } = prepared;
  check(isText(commit) && DECISION.test(commit), 'prepared is not valid');
  const decision = await getJson(root, `raw/${toSegment(state.tap)}/_commits/${commit}.json`);
  if (!decision) return checkState(withFeatures(state), state.tap, state.stream);
  check(decision.format === 1 && typeof decision.committed === 'boolean', `the decision about ${commit} is not known`);
  const change = { kind: 'settle', commit, committed: decision.committed };
  const settled = apply({ ...state, prepared }, { id: `${commit}-settled`, at: decision.at, change });
  return checkState(withFeatures(settled), state.tap, state.stream);
}

// ---- 11.1 Transactions
export class Conflict extends Error {}
function conflictUnless(holds, message) { if (!holds) throw new Conflict(message); }

/** The state after a transaction. Throws Conflict. */
export function apply(state, { id, at, change }) {
  const { kind } = change;
  check(Object.hasOwn(CHANGES, kind), `a transaction of the kind ${kind} is not known`);
  conflictUnless(state.closed == null, 'the stream goes on in another store');
  conflictUnless(state.prepared == null || kind === 'settle', 'what a run prepared is not settled');
  const number = state.transaction.number + 1;
  return { ...CHANGES[kind](state, change, at), transaction: { number, id } };
}

const CHANGES = {
  add_files: add,
  attach_files: add,
  add_together: (state, { parts }, at) => {
    conflictUnless(parts.length, 'there is no part');
    conflictUnlessOnce(parts.flatMap(({ files }) => idsOf(files)));
    return parts.reduce((before, part) => {
      check(['add_files', 'attach_files'].includes(part.kind), `a part of the kind ${part.kind} is not known`);
      const { listed, retired } = lookUp(before);
      const isKnown = ({ id, sha256 }) => (listed.get(id)?.sha256 ?? sha256) === sha256
        && (listed.has(id) || retired.get(id)?.by != null);
      return part.files.length && part.files.every(isKnown) ? before : add(before, part, at);
    }, state);
  },
  replace_files: replace,
  erase_files: replace,
  expire_files: (state, { before, lineage }, at) => {
    conflictUnless(lineage === state.lineage && before <= state.next_offset, 'other messages were to expire');
    const files = state.files.filter((file) => file.offset + file.messages > before);
    const expired = state.files.slice(0, state.files.length - files.length);
    return withFiles(state, files, expired.map((file) => entryOf(file.id, file.path, at)), at);
  },
  retire_files: (state, { files }, at) => {
    const { listed, retired, paths, objects } = lookUp(state);
    conflictUnlessOnce(files.map(([id]) => id));
    conflictUnless(!files.some(([id, key]) => listed.has(id) || paths.has(key) || objects.has(id)), 'a file is listed');
    const more = files.filter(([id]) => !retired.has(id)).map(([id, key]) => entryOf(id, key, at));
    return { ...state, retired: [...retired.values(), ...more] };
  },
  collect_files: (state, { shown = [], deleted = [], forgotten = [], since = {} }, at) => {
    const { listed, retired, paths } = lookUp(state);
    const every = [...shown, ...deleted, ...forgotten];
    conflictUnlessOnce(every);
    conflictUnless(!every.some((id) => listed.has(id)), 'a file is listed');
    const isMeant = (entry) => entry && (since[entry.id] ?? entry.since) === entry.since;
    const of = (ids) => ids.map((id) => retired.get(id)).filter(isMeant);
    for (const entry of of(shown)) retired.set(entry.id, { ...entry, shown: entry.shown ?? at });
    for (const entry of of(deleted)) {
      conflictUnless(entry.shown && !paths.has(entry.path), `${entry.id} cannot be deleted yet`);
      retired.set(entry.id, { ...entry, deleted: entry.deleted ?? at });
    }
    for (const entry of of(forgotten)) {
      conflictUnless(entry.deleted, `${entry.id} cannot be forgotten yet`);
      retired.delete(entry.id);
    }
    return { ...state, retired: [...retired.values()] };
  },
  prepare_files: (state, change, at) => {
    add(state, change, at); // would apply
    conflictUnless(!(state.settled >= change.commit), 'a later run was settled');
    return { ...state, prepared: change };
  },
  settle: ({ prepared, ...state }, { commit, committed }, at) => {
    conflictUnless(prepared?.commit === commit, 'another run was prepared');
    return committed ? { ...add(state, prepared, at), settled: commit } : state;
  },
  record_run: (state) => state,
  rebase: (state, { manifest }) => {
    const { objects } = lookUp(manifest);
    const { retired } = lookUp(state);
    const listed = [...idsOf(manifest.files), ...objects];
    if (manifest.lineage === state.lineage) {
      conflictUnless(manifest.next_offset >= state.next_offset, 'messages would be lost');
      conflictUnless(!listed.some((id) => retired.get(id)?.deleted), 'a listed file was deleted');
    }
    const settled = [state.settled, manifest.settled].filter((name) => name != null).sort().at(-1);
    const left = (manifest.retired ?? []).filter(({ id }) => !objects.has(id));
    const { store, closed, lake_id: lake } = state;
    return { ...manifest, settled, retired: left, store, closed, lake_id: manifest.lake_id ?? lake };
  },
  close: (state, { successor }) => ({ ...state, closed: successor }),
};

const idsOf = (files) => files.map(({ id }) => id);
function conflictUnlessOnce(ids) { conflictUnless(new Set(ids).size === ids.length, 'a file is named twice'); }
/** Names of the objects of attached files. */
function objectsOf(files) {
  const rows = files.flatMap(({ attached = [] }) => attached).filter(([, , , sha256]) => sha256 !== null);
  return new Set(rows.map(([, , , sha256, , , copy]) => (copy === 1 ? sha256 : `${sha256}.${copy}`)));
}
function lookUp({ files, retired = [] }) {
  const paths = new Set(files.map((file) => file.path));
  return { listed: byId(files), retired: byId(retired), paths, objects: objectsOf(files) };
}
const entryOf = (id, key, at, by = null) => ({ id, path: key, by, since: at });

/** The state with other files. Objects that none of them has a row of any more are retired, too. */
function withFiles(state, files, entries, at) {
  const [before, after] = [objectsOf(state.files), objectsOf(files)];
  const objects = [...before].filter((name) => !after.has(name));
  const more = objects.map((name) => entryOf(name, `_files/${name.slice(0, 2)}/${name}`, at));
  return { ...state, files, retired: [...state.retired ?? [], ...entries, ...more] };
}

function add(state, { files, schemas: said = {} }, at) {
  const { listed, retired } = lookUp(state);
  conflictUnlessOnce(idsOf(files));
  for (const { id, sha256 } of files) {
    conflictUnless(retired.get(id)?.by !== null, `${id} is retired`);
    conflictUnless((listed.get(id)?.sha256 ?? sha256) === sha256, `${id} is another file`);
  }
  const fresh = files.filter(({ id }) => !listed.has(id) && !retired.has(id));
  const objects = objectsOf(fresh);
  conflictUnless(![...objects].some((name) => retired.get(name)?.deleted), 'an attached file is being deleted');
  const [versions, schemas] = [{ ...state.versions }, { ...state.schemas }];
  let offset = state.next_offset;
  const placed = fresh.map((file) => {
    const schema = said[file.version];
    const version = schema ? versionOf(schemas, file.version, schema.schema) : file.version;
    conflictUnless(schema ?? schemas[version], `the version ${version} has no schema`);
    versions[version] ??= `v${Object.keys(versions).length + 1}`;
    schemas[version] = { first_offset: offset, first_seen: at, ...schemas[version], ...schema };
    offset += file.messages;
    return { ...file, version, offset: offset - file.messages };
  });
  const left = [...retired.values()].filter(({ id }) => !objects.has(id));
  return { ...state, files: [...state.files, ...placed], versions, schemas, next_offset: offset, retired: left };
}

/** 3: all ten characters, where another schema has the seven. */
function versionOf(schemas, version, schema) {
  const known = schemas[version];
  if (!known || JSON.stringify(known.schema) === JSON.stringify(schema)) return version;
  return canonical(known.schema).equals(canonical(schema)) ? version : hashOf(canonical(schema));
}

function replace(state, { kind, old, new: files }, at) {
  const { listed, retired } = lookUp(state);
  conflictUnlessOnce([...old, ...idsOf(files)]);
  if (files.length && files.every(({ id }) => listed.has(id) || retired.get(id)?.by != null)) return state;
  conflictUnless(!files.some(({ id }) => listed.has(id) || retired.has(id)), 'a new file is known');
  const first = state.files.findIndex(({ id }) => id === old[0]);
  const gone = state.files.slice(first, first + old.length);
  const isListed = files.length && first >= 0 && idsOf(gone).join() === old.join();
  conflictUnless(isListed, 'old files are not listed as neighbours');
  conflictUnless([...gone, ...files].every(({ version }) => version === gone[0].version), 'of several versions');
  const count = (name) => [gone, files].map((each) => each.reduce((total, file) => total + (file[name] ?? 0), 0));
  const [[messages, now], [records, left], [erased, holes]] = ['messages', 'records', 'erased'].map(count);
  const [rows, rest] = [rowsOf(files), rowsOf(gone)];
  const isThere = rows.every((row) => rest.splice(0, rest.indexOf(row) + 1 || rest.length).at(-1) === row);
  conflictUnless(now === messages && isThere, 'new files hold something else');
  const isSame = holes === erased && rows.length === rowsOf(gone).length;
  const isErased = holes >= erased && left <= records && left + holes >= records + erased && left + holes <= messages;
  conflictUnless(kind === 'erase_files' ? isErased : isSame, 'new files hold less');
  let offset = gone[0].offset;
  const placed = files.map((file) => {
    offset += file.messages;
    return { ...file, offset: offset - file.messages };
  });
  const holder = (file) => placed.findLast((each) => each.offset <= file.offset).id;
  const entries = gone.map((file) => entryOf(file.id, file.path, at, holder(file)));
  return withFiles(state, state.files.toSpliced(first, gone.length, ...placed), entries, at);
}

/** Rows as texts, whose messages count from the first file on. */
function rowsOf(files) {
  let before = 0;
  return files.flatMap(({ messages, attached = [] }) => {
    before += messages;
    return attached.map(([message, ...rest]) => JSON.stringify([before - messages + message, ...rest.slice(0, 6)]));
  });
}
