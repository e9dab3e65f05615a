// SPDX-License-Identifier: Apache-2.0

// Waits for a lock, holds it until a line arrives on standard input, and releases it. Any number of these programs, of
// ../python/lock.py, and of programs in C++ and Java (Curator) wait for the lock in one queue.
//
//   node lock.js SERVER,SERVER,... PATH
'use strict';

const { Session } = require('./quorate_session');

async function main() {
  // A lock is lost some time after its holder failed: with a session of 4 s, after that time.
  const session = new Session(process.argv[2].split(','), 4);
  const lock = session.lock(process.argv[3]);
  let isReleased = false;
  lock.on('waiting', (ahead) => console.log(`waiting ${ahead}`));
  lock.on('lost', () => {
    if (isReleased) return;
    console.log('lost');
    process.exit(1);
  });
  console.log(`held ${await lock.acquire()}`);
  process.stdin.once('data', async () => {
    isReleased = true;
    await lock.release();
    console.log('released');
    await session.close();
    process.exit(0);
  });
}

main();
