// SPDX-License-Identifier: Apache-2.0

// Sessions, and the connections that send most requests.

import {button, confirmWith, element, find, get, post, replaceRows, setText} from '/console/page.js';

const kForAdministrators = 'Shown to administrators and to the super user.';
const kSessionsPerPage = 50;

// The pages before the one that is shown, as the session after which each begins; the last is that of this page.
let starts = [''];
let next = null;
let before = new Map();  // the requests of each connection when it was read last, with the time

const seconds = (ms) => `${Math.round(ms / 1000)} s`;

function closeButton(session, where) {
  return button('Close', `Close session ${session}`, () => confirmWith(
      `Close session ${session}?`,
      `${where} Its ephemeral znodes are deleted, and its client has to begin a new session.`, 'Close the session',
      async () => {
        await post('close-session', {session});
        await refreshClients(true);
        find('sessions-heading').focus();
      }));
}

function sessionRow(session) {
  const row = document.createElement('tr');
  row.dataset.key = session.session;
  const name = element('th', session.session);
  name.scope = 'row';
  const client = session.client;
  const end = document.createElement('td');
  end.append(closeButton(session.session, client ? `Its client is ${client.address}.` :
                                                   `Its client is at server ${session.server}.`));
  row.append(name, element('td', session.server), element('td', client?.address ?? 'known at its server'),
             element('td', client?.protocol ?? ''), element('td', client?.identities.join(', ') ?? ''),
             element('td', client ? seconds(client.attached_ms) : ''), element('td', client?.watches ?? ''),
             element('td', session.ephemerals), element('td', seconds(session.timeout_ms)), end);
  return row;
}

async function refreshSessions() {
  let page = await get('sessions', {after: starts.at(-1), limit: kSessionsPerPage});
  // Sessions may have ended meanwhile.
  if (page.sessions.length === 0 && starts.length > 1) {
    starts = [''];
    page = await get('sessions', {limit: kSessionsPerPage});
  }
  next = page.next;
  replaceRows(find('sessions'), page.sessions.map(sessionRow));
  find('sessions-next').disabled = next === null;
  find('sessions-first').disabled = starts.length === 1;
  setText('sessions-message', `Page ${starts.length}: ${page.sessions.length} of ${page.count} sessions of the cluster.`);
}

function connectionRow(connection, rate) {
  const row = document.createElement('tr');
  row.dataset.key = connection.peer;
  const name = element('th', connection.peer);
  name.scope = 'row';
  const end = document.createElement('td');
  // 0 is no session.
  if (connection.session !== '0x0') end.append(closeButton(connection.session, `Its client is ${connection.peer}.`));
  row.append(name, element('td', connection.session), element('td', rate === null ? '-' : Math.round(rate)),
             element('td', connection.received), element('td', connection.outstanding),
             element('td', connection.average_ms), element('td', connection.longest_ms), end);
  return row;
}

async function refreshConnections() {
  const answer = await get('clients');
  const now = performance.now();
  const seen = new Map();
  const rows = answer.connections.map((connection) => {
    const key = `${connection.peer} ${connection.established_ms}`;
    seen.set(key, {received: connection.received, now});
    const last = before.get(key);
    const rate = last ? Math.max(0, (connection.received - last.received) * 1000 / (now - last.now)) : null;
    return {connection, rate};
  });
  before = seen;
  rows.sort((a, b) => (b.rate ?? -1) - (a.rate ?? -1) || b.connection.received - a.connection.received);
  replaceRows(find('connections'), rows.map(({connection, rate}) => connectionRow(connection, rate)));
  setText('connections-message',
          `${answer.connections.length} of ${answer.count} connections of ZooKeeper clients to this server, those with most requests.`);
}

export async function refreshClients(isAllowed) {
  find('clients').hidden = !isAllowed;
  if (!isAllowed) {
    find('sessions').replaceChildren();
    find('connections').replaceChildren();
    setText('clients-message', kForAdministrators);
    return;
  }
  try {
    await refreshSessions();
    await refreshConnections();
    setText('clients-message', '');
  } catch (error) {
    setText('clients-message', `They cannot be read: ${error.message}`);
  }
}

find('sessions-next').addEventListener('click', async () => {
  if (next === null) return;
  starts.push(next);
  await refreshClients(true);
});
find('sessions-first').addEventListener('click', async () => {
  starts = [''];
  await refreshClients(true);
});
