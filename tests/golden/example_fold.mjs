// Applies transactions for test_example_fold.py: one history a line, each with one line of states.
import { createInterface } from 'node:readline';
import { exact, plain } from '../../examples/hash.mjs';
import { Conflict, apply } from '../../examples/newest.mjs';
import { checkState } from '../../examples/reader.mjs';

const open = ({ change }) => {
  if (change.kind === 'rebase') change.manifest = checkState(change.manifest, change.manifest.tap, change.manifest.stream);
};

for await (const line of createInterface({ input: process.stdin })) {
  const { state: begun, transactions } = exact(line);
  let state = checkState(begun, begun.tap, begun.stream);
  const states = transactions.map((transaction) => {
    open(transaction);
    try { state = apply(state, transaction); } catch (error) {
      if (!(error instanceof Conflict)) throw error;
      return null;
    }
    return state;
  });
  console.log(JSON.stringify(plain(states)));
}
