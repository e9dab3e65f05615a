// SPDX-License-Identifier: Apache-2.0

// The page of the web console. What comes from the server is shown as text only (textContent).

const kRefreshMs = 2000;
const kTimeoutMs = 10000;
const kHexBytesMax = 4096;

let authorization = '';  // kept in memory only, so that it is gone with the page
let shown = {path: '/', prefix: '', next: null, data: null};
let opened = 0;  // counts Open, so that a late answer to an earlier one is dropped

const find = (id) => document.getElementById(id);

function element(tag, text, className = '') {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function get(name, parameters = {}) {
  const headers = authorization ? {Authorization: authorization} : {};
  const response = await fetch(`/console/api/${name}?${new URLSearchParams(parameters)}`, {
    headers, credentials: 'same-origin', cache: 'no-store', signal: AbortSignal.timeout(kTimeoutMs)});
  const fields = await response.json().catch(() => ({error: `the server answers ${response.status}`}));
  if (!response.ok) throw new Error(fields.error);
  return fields;
}

// A password is sent only where the browser knows that nobody on the network can read it: over HTTPS, or to
// the machine itself.
function allowSignIn(allowed) {
  const isAllowed = allowed && window.isSecureContext;
  for (const field of find('sign-in').elements) field.disabled = !isAllowed;
  find('sign-out').disabled = !isAllowed || !authorization;
}

// --- Overview ------------------------------------------------------------------------------------

function memberRow(member, self) {
  const row = document.createElement('tr');
  const state = !member.reachable ? 'unreachable' : member.in_sync === false ? 'behind' : 'reachable';
  const name = element('th', `${member.id}${member.id === self ? ' (this server)' : ''}`);
  name.scope = 'row';
  row.append(name, element('td', member.role),
             element('td', state, state === 'reachable' ? '' : 'bad'),
             element('td', member.lag ?? 'known at the leader'),
             element('td', member.address ?? 'for administrators'));
  return row;
}

function showOverview(view) {
  const leader = view.leader ? `leader: member ${view.leader}` : 'no leader';
  const text = view.standalone ? 'one server, without others' : leader;
  const summary = `${text}; version ${view.version}; cluster version ${view.cluster_version}; term ` +
      `${view.term}; ${view.changing ? 'members are being changed' : 'members do not change'}`;
  // A screen reader announces the text again only if it has changed.
  if (find('summary').textContent !== summary) find('summary').textContent = summary;
  find('members').replaceChildren(...view.members.map((member) => memberRow(member, view.self)));
  find('problems').replaceChildren(
      ...view.problems.map((problem) => element('li', `${problem.what}. ${problem.remedy}`)));
  find('identity').textContent = view.takes_credentials ?
      `You are: ${['world:anyone', ...view.identities].join(', ')}. The console only reads.` :
      'Sign in over HTTPS or from the server\'s own machine: a password would be readable on the ' +
          'network. You see what everyone may read.';
  allowSignIn(view.takes_credentials);
}

// --- Slow requests -------------------------------------------------------------------------------

const msText = (us) => (us / 1000).toFixed(1);

function slowRow(request) {
  const row = document.createElement('tr');
  const stages = Object.entries(request.stages_us).map(([stage, us]) => `${stage} ${msText(us)}`);
  row.append(element('td', new Date(request.answered_ms).toISOString()), element('td', request.operation),
             element('td', request.path), element('td', msText(request.us)),
             element('td', request.longest_stage), element('td', stages.join(', ')),
             element('td', request.client), element('td', request.session));
  return row;
}

async function refreshSlow(isAllowed) {
  let text = 'Shown to administrators and to the super user.';
  let requests = [];
  try {
    const slow = isAllowed ? await get('slow') : null;
    if (slow !== null) {
      requests = slow.requests.reverse();
      const count = Object.values(slow.counts).reduce((sum, one) => sum + one, 0);
      text = slow.threshold_ms === 0 ? 'Not recorded: slowRequestThresholdMs is 0.' :
          `${count} request${count === 1 ? '' : 's'} took ${slow.threshold_ms} ms or longer since the start of this server.`;
    }
  } catch (error) {
    text = `They cannot be read: ${error.message}`;
  }
  if (find('slow-message').textContent !== text) find('slow-message').textContent = text;
  find('slow').hidden = requests.length === 0;
  find('slow-requests').replaceChildren(...requests.map(slowRow));
}

async function refresh() {
  try {
    const view = await get('overview');
    showOverview(view);
    await refreshSlow(view.sees_all);
  } catch (error) {
    find('summary').textContent = `The overview cannot be read: ${error.message}`;
  }
}

// One request at a time; none while the page is hidden.
async function refreshForEver() {
  if (!document.hidden) await refresh();
  setTimeout(refreshForEver, kRefreshMs);
}

// --- Tree ----------------------------------------------------------------------------------------

const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

function hexText(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, kHexBytesMax); at += 16) {
    const row = [...bytes.slice(at, at + 16)];
    lines.push(`${at.toString(16).padStart(6, '0')}  ` +
               row.map((byte) => byte.toString(16).padStart(2, '0')).join(' '));
  }
  if (bytes.length > kHexBytesMax) lines.push(`(the first ${kHexBytesMax} bytes)`);
  return lines.join('\n');
}

function showData() {
  const node = shown.data;
  if (node === null) {
    find('data').textContent = '';
    return;
  }
  if (node.data === null) {
    find('data').textContent = '(no data)';
    return;
  }
  const bytes = bytesOf(node.data);
  let text = '';
  if (find('form').value === 'hex') {
    text = hexText(bytes);
  } else {
    text = new TextDecoder().decode(bytes);
    if (find('form').value === 'JSON') {
      try {
        text = JSON.stringify(JSON.parse(text), null, 2);
      } catch {
        text = `(not JSON, shown as text)\n${text}`;
      }
    }
  }
  find('data').textContent = node.truncated ?
      `${text}\n(the first ${bytes.length} of ${node.stat.data_length} bytes)` : text;
}

function showNode(node) {
  shown.data = node;
  showData();
  const facts = {...node.stat, acl: node.acl.join(', ')};
  for (const key of ['ctime_ms', 'mtime_ms']) facts[key] = new Date(node.stat[key]).toISOString();
  if (node.owner) {
    facts.owner = `session ${node.owner.session}` +
        (node.owner.server ? ` at server ${node.owner.server}` : '');
  }
  find('stat').replaceChildren(
      ...Object.entries(facts).flatMap(([key, value]) => [element('dt', key), element('dd', value)]));
}

const childPath = (name) => (shown.path === '/' ? `/${name}` : `${shown.path}/${name}`);

function childItem(child) {
  const item = document.createElement('li');
  const more = child.num_children ? ` (${child.num_children})` : '';
  const button = element('button', `${child.name}${more}${child.ephemeral ? ' [ephemeral]' : ''}`);
  button.type = 'button';
  const path = childPath(child.name);
  button.addEventListener('click', () => open(path, '').then(() => find('parent').focus()));
  item.append(button);
  return item;
}

async function addChildren(number) {
  const page = await get('children', {path: shown.path, prefix: shown.prefix, after: shown.next ?? ''});
  if (number !== opened) return;
  const items = page.children.map(childItem);
  find('children').append(...items);
  shown.next = page.next;
  find('more').hidden = page.next === null;
  const count = find('children').childElementCount;
  find('tree-message').textContent = `${count} of ${page.num_children} children are shown.`;
  return items;
}

async function open(path, prefix) {
  const number = ++opened;
  shown = {path, prefix, next: null, data: null};
  find('path').value = path;
  find('prefix').value = prefix;
  find('node-heading').textContent = path;
  find('children').replaceChildren();
  find('stat').replaceChildren();
  find('more').hidden = true;
  find('parent').disabled = path === '/';
  showData();
  try {
    const node = await get('node', {path});
    if (number !== opened) return;
    showNode(node);
    await addChildren(number);
  } catch (error) {
    if (number === opened) find('tree-message').textContent = error.message;
  }
}

find('open').addEventListener('submit', (event) => {
  event.preventDefault();
  open(find('path').value, find('prefix').value);
});
find('parent').addEventListener('click', () => {
  open(shown.path.slice(0, shown.path.lastIndexOf('/')) || '/', '');
});
find('more').addEventListener('click', async () => {
  find('more').disabled = true;  // a second click would ask for the same children again
  try {
    const items = await addChildren(opened);
    items?.[0]?.firstChild.focus();
  } catch (error) {
    find('tree-message').textContent = error.message;
  } finally {
    find('more').disabled = false;
  }
});
find('form').addEventListener('change', showData);
find('sign-in').addEventListener('submit', (event) => {
  event.preventDefault();
  if (!window.isSecureContext) return;
  const bytes = new TextEncoder().encode(`${find('user').value}:${find('password').value}`);
  authorization = `Basic ${btoa(String.fromCharCode(...bytes))}`;
  find('password').value = '';
  refresh().then(() => open(shown.path, shown.prefix));
});
find('sign-out').addEventListener('click', () => {
  authorization = '';
  refresh().then(() => open(shown.path, shown.prefix));
});

allowSignIn(true);
refreshForEver();
open('/', '');
