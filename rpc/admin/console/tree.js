// SPDX-License-Identifier: Apache-2.0

// The browser of the tree, and the changes of znodes.

import {confirmWith, element, find, get, isSignedIn, post, setText} from '/console/page.js';

const kHexBytesMax = 4096;
const kWriteBytesMax = 40960;  // as the server
const kListedMax = 500;        // the children that the page keeps

let shown = {path: '/', prefix: '', next: null, data: null};
let opened = 0;  // counts open(), so that a late answer to an earlier one is dropped
let may = {change: false, seeAll: false};

export const shownPath = () => shown.path;

const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
const base64Of = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
const hexOf = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');

function hexText(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, kHexBytesMax); at += 16) {
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hexOf(bytes.slice(at, at + 16))}`);
  }
  if (bytes.length > kHexBytesMax) lines.push(`(the first ${kHexBytesMax} bytes)`);
  return lines.join('\n');
}

function showData() {
  const node = shown.data;
  if (node === null || node.data === null) {
    find('data').textContent = node === null ? '' : '(no data)';
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
  allowChanges();
}

// Who watches the znode, for those who see all.
async function showWatches(path, number) {
  if (!may.seeAll) return;
  const answer = await get('watches', {path});
  if (number !== opened || find('watchers') !== null) return;
  const watchers = answer.watches.map((watch) => `session ${watch.session} (${watch.of})`);
  if (answer.more) watchers.push('and others');
  const list = element('dd', watchers.join(', ') || 'no ZooKeeper client of this server');
  list.id = 'watchers';
  find('stat').append(element('dt', 'watched by'), list);
}

const childPath = (name) => (shown.path === '/' ? `/${name}` : `${shown.path}/${name}`);
const parentPath = (path) => path.slice(0, path.lastIndexOf('/')) || '/';

function childItem(child) {
  const item = document.createElement('li');
  const more = child.num_children ? ` (${child.num_children})` : '';
  const made = element('button', `${child.name}${more}${child.ephemeral ? ' [ephemeral]' : ''}`);
  made.type = 'button';
  const path = childPath(child.name);
  made.addEventListener('click', () => open(path, '').then(() => find('parent').focus()));
  item.append(made);
  return item;
}

async function addChildren(number) {
  const page = await get('children', {path: shown.path, prefix: shown.prefix, after: shown.next ?? ''});
  if (number !== opened) return [];
  const items = page.children.map(childItem);
  const list = find('children');
  list.append(...items);
  const isCut = list.childElementCount > kListedMax;
  while (list.childElementCount > kListedMax) list.firstElementChild.remove();
  shown.next = page.next;
  find('more').hidden = page.next === null;
  find('tree-message').textContent = `${list.childElementCount} of ${page.num_children} children are shown` +
      (isCut ? ', the last that were read.' : '.');
  return items;
}

export async function open(path, prefix) {
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
  allowChanges();
  try {
    const node = await get('node', {path});
    if (number !== opened) return;
    showNode(node);
    await addChildren(number);
    await showWatches(path, number);
  } catch (error) {
    if (number === opened) find('tree-message').textContent = error.message;
  }
}

// --- Changes -------------------------------------------------------------------------------------

// Takes from the overview what the user may do.
export function setMay(change, seeAll) {
  const isNew = may.change !== change || may.seeAll !== seeAll;
  may = {change, seeAll};
  if (!isNew) return;
  allowChanges();
  if (shown.data !== null) showWatches(shown.path, opened).catch((error) => setText('tree-message', error.message));
}

function allowChanges() {
  const node = shown.data;
  const isTooLong = node !== null && node.stat.data_length > kWriteBytesMax;
  find('edit').disabled = !may.change || node === null || isTooLong;
  find('create').disabled = !may.change || node === null;
  find('delete').disabled = !may.change || node === null || shown.path === '/';
  setText('changes-message', !may.change ?
      `Read-only: sign in as an administrator, or as a user whom admin.console.changes lets change znodes.` :
      isTooLong ? `More than ${kWriteBytesMax} bytes are not edited here.` : '');
}

function labelled(text, control) {
  const label = element('label', text);
  label.append(' ', control);
  return label;
}

function control(tag, id, value = '') {
  const made = document.createElement(tag);
  made.id = id;
  made.value = value;
  return made;
}

function select(id, options) {
  const made = document.createElement('select');
  made.id = id;
  made.append(...options.map(([value, text]) => {
    const option = element('option', text);
    option.value = value;
    return option;
  }));
  return made;
}

const dataForms = () => select('new-form', [['text', 'text'], ['hex', 'hex']]);

// Returns the bytes that were typed, as base64. Throws an error for the user.
function typedData() {
  const typed = find('new-data').value;
  let bytes = new TextEncoder().encode(typed);
  if (find('new-form').value === 'hex') {
    const digits = typed.replace(/\s/g, '');
    if (!/^([0-9a-fA-F]{2})*$/.test(digits)) throw new Error('hex needs pairs of the digits 0 to f');
    bytes = Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  }
  if (bytes.length > kWriteBytesMax) throw new Error(`the data has more than ${kWriteBytesMax} bytes`);
  return base64Of(bytes);
}

function editData() {
  const {path, data: node} = shown;
  const bytes = node.data === null ? new Uint8Array() : bytesOf(node.data);
  const area = control('textarea', 'new-data');
  const form = dataForms();
  area.rows = 12;
  try {
    area.value = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(bytes);
    // A text area makes one kind of the ends of lines: \r and \r\n would be written as \n.
    if (area.value !== new TextDecoder('utf-8', {ignoreBOM: true}).decode(bytes)) throw new Error();
  } catch {
    form.value = 'hex';
    area.value = hexOf(bytes);
  }
  confirmWith(`Edit the data of ${path}`,
              `It is written only if the version is still ${node.stat.version}.`, 'Write', async () => {
                await post('set', {path, data: typedData(), version: node.stat.version});
                await open(path, '');
              }, [labelled('Data is', form), labelled('Data', area)]);
}

function createChild() {
  const parent = shown.path;
  const name = control('input', 'new-name');
  name.required = true;
  const area = control('textarea', 'new-data');
  area.rows = 6;
  const lists = [['world', 'everyone may do everything']];
  if (isSignedIn()) {
    lists.push(['creator', 'only I may do anything'], ['readers', 'everyone reads, only I may do the rest']);
  }
  confirmWith(`Create a znode below ${parent}`, 'It is persistent.', 'Create', async () => {
    const path = parent === '/' ? `/${name.value}` : `${parent}/${name.value}`;
    const made = await post('create', {path, data: typedData(), acl: find('new-acl').value});
    await open(made.path, '');
  }, [labelled('Name', name), labelled('Access', select('new-acl', lists)), labelled('Data is', dataForms()),
      labelled('Data', area)]);
}

function deleteNode() {
  const {path, data: node} = shown;
  confirmWith(`Delete ${path}?`,
              `It is deleted only if the version is still ${node.stat.version} and it has no children. This ` +
                  'cannot be undone.',
              'Delete', async () => {
                await post('delete', {path, version: node.stat.version});
                await open(parentPath(path), '');
                find('parent').focus();
              });
}

find('edit').addEventListener('click', editData);
find('create').addEventListener('click', createChild);
find('delete').addEventListener('click', deleteNode);
find('open').addEventListener('submit', (event) => {
  event.preventDefault();
  open(find('path').value, find('prefix').value);
});
find('parent').addEventListener('click', () => open(parentPath(shown.path), ''));
find('more').addEventListener('click', async () => {
  find('more').disabled = true;  // a second click would ask for the same children again
  try {
    const items = await addChildren(opened);
    items[0]?.firstChild.focus();
  } catch (error) {
    find('tree-message').textContent = error.message;
  } finally {
    find('more').disabled = false;
  }
});
find('form').addEventListener('change', showData);
