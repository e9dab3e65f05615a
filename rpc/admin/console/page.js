// SPDX-License-Identifier: Apache-2.0

// What the modules of the console share: elements, requests, and dialogs. What comes from the server is
// shown as text only (textContent).

// Longer than a change waits in the server (kChangeWaitMax and ConsoleChanges::kWait together), so that none is
// made after its user was told that it failed.
const kTimeoutMs = 20000;
const kErrorLengthMax = 300;

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

// Returns the button of a row that does the same as `before`, or else its first one.
function sameButton(row, before) {
  const buttons = [...(row?.querySelectorAll('button') ?? [])];
  return buttons.find((one) => one.getAttribute('aria-label') === before.getAttribute('aria-label')) ?? buttons[0];
}

// Replaces the rows of a table, and leaves the focus where it was: at the button of the row with the same
// key.
export function replaceRows(body, rows) {
  const focused = body.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.closest('tr')?.dataset.key;
  for (const row of rows) row.dataset.table = body.id;
  body.replaceChildren(...rows);
  if (key === undefined) return;
  sameButton(rows.find((row) => row.dataset.key === key), focused)?.focus();
}

async function send(path, options) {
  const response = await fetch(path, {
    ...options, credentials: 'same-origin', cache: 'no-store', signal: AbortSignal.timeout(kTimeoutMs)});
  const text = await response.text();
  let fields;
  try {
    fields = JSON.parse(text);
  } catch {
    fields = {error: text.trim().slice(0, kErrorLengthMax) || `the server answers ${response.status}`};
  }
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

// The dialog: how many there have been, and whether the act of the present one is under way.
let dialogs = 0;
let isActing = false;

function setActing(acting) {
  isActing = acting;
  find('dialog-act').disabled = acting;  // a second click would make the change twice
  find('dialog-cancel').disabled = acting;
  setText('dialog-state', acting ? 'The change is under way. The dialog closes when it is made.' : '');
}

// Makes the change of a dialog. If the browser has closed it meanwhile, its outcome is shown in the page, and
// another dialog, which may be open by then, is left alone.
async function perform(act, title) {
  if (isActing) return;
  const number = dialogs;
  const isShown = () => number === dialogs && find('dialog').open;
  find('dialog-error').textContent = '';
  setText('outcome', '');
  setActing(true);
  let failure = '';
  try {
    await act();
  } catch (error) {
    failure = error.message;
  }
  if (number === dialogs) setActing(false);
  if (!isShown()) {
    setText('outcome', failure ? `"${title}" has failed: ${failure}` : `"${title}" is done.`);
  } else if (failure) {
    find('dialog-error').textContent = failure;
  } else {
    find('dialog').close();
  }
}

// Asks for a confirmation. `act` makes the change; its error is shown in the dialog, which stays open, so that
// nothing that was typed is lost. Escape and Cancel leave everything as it is, and the focus goes back; while
// the change is under way they do nothing.
export function confirmWith(title, text, actName, act, fields = []) {
  const dialog = find('dialog');
  ++dialogs;
  setActing(false);
  find('dialog-title').textContent = title;
  find('dialog-text').textContent = text;
  find('dialog-error').textContent = '';
  find('dialog-fields').replaceChildren(...fields);
  find('dialog-act').textContent = actName;
  find('dialog-form').onsubmit = (event) => {
    event.preventDefault();
    perform(act, title);
  };
  const opener = document.activeElement;
  const row = opener.closest('tr');
  dialog.onclose = () => {
    if (opener.isConnected || row === null) return;
    // The table was read again meanwhile; its row of the same key has another button.
    const again = find(row.dataset.table)?.querySelector(`tr[data-key="${CSS.escape(row.dataset.key)}"]`);
    sameButton(again, opener)?.focus();
  };
  dialog.showModal();
  // What does nothing has the focus, unless there is something to type.
  (fields.length > 0 ? find('dialog-fields').querySelector('input, textarea') : find('dialog-cancel')).focus();
}

find('dialog-cancel').addEventListener('click', () => find('dialog').close());
find('dialog').addEventListener('cancel', (event) => {
  if (isActing) event.preventDefault();
});
// A second Escape would close the dialog whatever the event above says.
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && isActing && find('dialog').open) event.preventDefault();
});
