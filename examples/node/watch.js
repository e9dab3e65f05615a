// SPDX-License-Identifier: Apache-2.0

// Prints each change of a znode once and in order, also when its server fails, until its data are "end".
//
//   node watch.js SERVER,SERVER,... PATH
'use strict';

const { Failed, Session, SessionEnded } = require('./quorate_session');

async function main() {
  const path = process.argv[3];
  const session = new Session(process.argv[2].split(','));
  await session.watch(path, async (event) => {
    console.log(event ? `event ${event.type} ${event.zxid}` : 'events may be missing');
    try {
      if (String((await session.get(path)).data) === 'end') await session.close();
    } catch (error) {
      // It was deleted, or an earlier event has closed the session.
      if (!(error instanceof Failed || error instanceof SessionEnded)) throw error;
    }
  });
  console.log(`watching ${path}`);
}

main();
