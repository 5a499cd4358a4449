// Answers questions of test_example_reader.py to examples/reader.mjs: one a line, each with one line.
import { createInterface } from 'node:readline';
import { canonical, exact, fingerprint, hashOf } from '../../examples/hash.mjs';
import { fromSegment, load, read, toSegment } from '../../examples/reader.mjs';

function hashes(text) {
  const bytes = canonical(exact(text));
  return [bytes.toString('base64'), fingerprint(bytes).toString(), hashOf(bytes)];
}

async function answer({ names, segments, schemas, state, root, tap, stream, ...options }) {
  if (names) return { segments: names.map(toSegment), names: segments.map(fromSegment) };
  if (schemas) return { hashes: schemas.map(hashes) };
  const given = { messages: [], error: null };
  try {
    if (state) given.state = await load(root, tap, stream);
    for await (const { offset, line } of read(root, tap, stream, options)) {
      given.messages.push([offset, line.toString('base64')]);
    }
  } catch (error) {
    given.error = error.message;
  }
  return given;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}
