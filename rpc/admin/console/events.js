// SPDX-License-Identifier: Apache-2.0

// The changes at and below a znode, as they happen. The page keeps the last ones only.

import {element, find, get, setText} from '/console/page.js';
import {open, shownPath} from '/console/tree.js';

const kKept = 200;
const kRefreshMs = 1000;

let following = null;  // {path, after}; null: nothing is followed
let count = 0;

function row(event) {
  const made = document.createElement('tr');
  const end = document.createElement('td');
  const link = element('button', event.path);
  link.type = 'button';
  link.addEventListener('click', () => open(event.path, '').then(() => find('node-heading').focus()));
  end.append(link);
  made.append(element('td', event.zxid), element('td', event.type), end);
  return made;
}

async function refresh() {
  const asked = following;
  try {
    const answer = await get('events', {path: asked.path, after: asked.after});
    if (asked !== following) return;
    asked.after = answer.next;
    count += answer.events.length;
    const list = find('events');
    if (answer.events.length > 0) list.prepend(...answer.events.reverse().map(row));
    while (list.childElementCount > kKept) list.lastElementChild.remove();
    asked.hasLost ||= answer.lost;
    setText('events-message', `Changes at and below ${asked.path}: ${count} seen, the newest first.` +
        (asked.hasLost ? ' There were more than could be shown.' : ''));
  } catch (error) {
    if (asked === following) setText('events-message', `The changes cannot be read: ${error.message}`);
  }
}

async function refreshForEver() {
  if (following !== null && !document.hidden) await refresh();
  setTimeout(refreshForEver, kRefreshMs);
}

find('follow').addEventListener('click', async () => {
  const begins = following === null;
  following = begins ? {path: shownPath(), after: '', hasLost: false} : null;
  count = 0;
  find('follow').textContent = begins ? 'Stop following' : 'Follow changes';
  if (begins) {
    find('events').replaceChildren();
    await refresh();
  } else {
    setText('events-message', '');
  }
  find('events-table').hidden = !begins;
});

refreshForEver();
