// SPDX-License-Identifier: Apache-2.0

// What the modules of the console share: elements, requests, and dialogs. What comes from the server is
// shown as text only (textContent).

const kTimeoutMs = 15000;

// Who signs in: the value of the header Authorization. Kept in memory only, so that it is gone with the
// page.
let authorization = '';

export const find = (id) => document.getElementById(id);
export const isSignedIn = () => authorization !== '';
export function signInAs(value) {
  authorization = value;
}

export function element(tag, text, className = '') {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

export function button(text, label, act) {
  const made = element('button', text);
  made.type = 'button';
  if (label) made.setAttribute('aria-label', label);
  made.addEventListener('click', act);
  return made;
}

// Sets a text that a screen reader announces again only if it has changed.
export function setText(id, text) {
  if (find(id).textContent !== text) find(id).textContent = text;
}

// Replaces the rows of a table, and leaves the focus where it was: at the button of the row with the same
// key.
export function replaceRows(body, rows) {
  const focused = body.contains(document.activeElement) ?
      document.activeElement.closest('tr')?.dataset.key : undefined;
  for (const row of rows) row.dataset.table = body.id;
  body.replaceChildren(...rows);
  if (focused === undefined) return;
  rows.find((row) => row.dataset.key === focused)?.querySelector('button')?.focus();
}

async function send(path, options) {
  const response = await fetch(path, {
    ...options, credentials: 'same-origin', cache: 'no-store', signal: AbortSignal.timeout(kTimeoutMs)});
  const fields = await response.json().catch(() => ({error: `the server answers ${response.status}`}));
  if (!response.ok) throw new Error(fields.error);
  return fields;
}

export function get(name, parameters = {}) {
  const headers = authorization ? {Authorization: authorization} : {};
  return send(`/console/api/${name}?${new URLSearchParams(parameters)}`, {headers});
}

// Makes a change. The token shows that this page, and none of another site, asks for it.
export async function post(name, fields) {
  const {token} = await get('overview');
  const headers = {'Content-Type': 'application/json', 'X-Quorate-Page': token};
  if (authorization) headers.Authorization = authorization;
  return send(`/console/api/${name}`, {method: 'POST', headers, body: JSON.stringify(fields)});
}

// Asks for a confirmation. `act` makes the change; its error is shown in the dialog, which stays open, so that
// nothing that was typed is lost. Escape and Cancel leave everything as it is, and the focus goes back.
export function confirmWith(title, text, actName, act, fields = []) {
  const dialog = find('dialog');
  find('dialog-title').textContent = title;
  find('dialog-text').textContent = text;
  find('dialog-error').textContent = '';
  find('dialog-fields').replaceChildren(...fields);
  find('dialog-act').textContent = actName;
  find('dialog-act').disabled = false;
  find('dialog-form').onsubmit = async (event) => {
    event.preventDefault();
    find('dialog-error').textContent = '';
    find('dialog-act').disabled = true;  // a second click would make the change twice
    try {
      await act();
      dialog.close();
    } catch (error) {
      find('dialog-error').textContent = error.message;
    } finally {
      find('dialog-act').disabled = false;
    }
  };
  const opener = document.activeElement;
  const row = opener.closest('tr');
  dialog.onclose = () => {
    if (opener.isConnected || row === null) return;
    // The table was read again meanwhile; its row of the same key has another button.
    find(row.dataset.table)?.querySelector(`tr[data-key="${CSS.escape(row.dataset.key)}"] button`)?.focus();
  };
  dialog.showModal();
  // What does nothing has the focus, unless there is something to type.
  (fields.length > 0 ? find('dialog-fields').querySelector('input, textarea') : find('dialog-cancel')).focus();
}

find('dialog-cancel').addEventListener('click', () => find('dialog').close());
