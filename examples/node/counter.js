// SPDX-License-Identifier: Apache-2.0

// Counts to N in a znode, one write each, while servers may fail: each write is made exactly once, so that the version
// of the znode is N at the end.
//
//   node counter.js SERVER,SERVER,... [N]
'use strict';

const { Failed, Session } = require('./quorate_session');

const PATH = '/examples-counter';

async function main() {
  const count = Number(process.argv[3] || 10);
  const session = new Session(process.argv[2].split(','));
  try {
    await session.write({ delete: { path: PATH } });
  } catch (error) {
    if (!(error instanceof Failed)) throw error; // there was none
  }
  await session.write({ create: { path: PATH, data: Buffer.from('0') } });
  for (let i = 1; i <= count; i += 1) {
    // With the version, a write that was made twice would fail.
    await session.write({ set: { path: PATH, data: Buffer.from(String(i)), version: i - 1 } });
    console.log(`wrote ${i}`);
  }
  const { data, stat } = await session.get(PATH, true);
  console.log(`read ${data} version ${stat.version}, over ${session.streams} streams`);
  await session.close();
}

main();
