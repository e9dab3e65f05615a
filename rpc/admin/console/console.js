// SPDX-License-Identifier: Apache-2.0

// The page of the web console: the overview, slow requests, and signing in. Its other parts are modules of
// their own.

import {refreshCharts} from '/console/charts.js';
import {refreshClients} from '/console/clients.js';
import {memberButtons, showMembersState} from '/console/members.js';
import {element, find, get, isSignedIn, replaceRows, setText, signInAs} from '/console/page.js';
import '/console/events.js';
import {open, setMay, shownPath} from '/console/tree.js';

const kRefreshMs = 2000;

// A password is sent only where the browser knows that nobody on the network can read it: over HTTPS, or to
// the machine itself.
function allowSignIn(allowed) {
  const isAllowed = allowed && window.isSecureContext;
  for (const field of find('sign-in').elements) field.disabled = !isAllowed;
  find('sign-out').disabled = !isAllowed || !isSignedIn();
}

// --- Overview ------------------------------------------------------------------------------------

function memberRow(member, view) {
  const row = document.createElement('tr');
  row.dataset.key = member.id;
  const state = !member.reachable ? 'unreachable' : member.in_sync === false ? 'behind' : 'reachable';
  const name = element('th', `${member.id}${member.id === view.self ? ' (this server)' : ''}`);
  name.scope = 'row';
  const stop = !view.is_leader && member.role !== 'observer' && !view.standalone ?
      'known at the leader' : member.safe_to_stop ? 'yes' : `no: ${member.not_to_stop}`;
  const end = document.createElement('td');
  for (const act of memberButtons(member, view, refresh)) end.append(act, ' ');
  row.append(name, element('td', member.role),
             element('td', state, state === 'reachable' ? '' : 'bad'),
             element('td', member.lag ?? 'known at the leader'),
             element('td', stop),
             element('td', member.address ?? 'for administrators'), end);
  return row;
}

function showOverview(view) {
  const leader = view.leader ? `leader: member ${view.leader}` : 'no leader';
  const text = view.standalone ? 'one server, without others' : leader;
  setText('summary', `${text}; version ${view.version}; cluster version ${view.cluster_version}; term ` +
      `${view.term}; ${view.changing ? 'members are being changed' : 'members do not change'}`);
  replaceRows(find('members'), view.members.map((member) => memberRow(member, view)));
  showMembersState(view, refresh);
  find('problems').replaceChildren(
      ...view.problems.map((problem) => element('li', `${problem.what}. ${problem.remedy}`)));
  const rights = view.sees_all ? 'You are an administrator.' :
      view.may_change_tree ? 'You may change znodes, as their lists allow.' : 'You may only read.';
  find('identity').textContent = view.takes_credentials ?
      `You are: ${['world:anyone', ...view.identities].join(', ')}. ${rights}` :
      'Sign in over HTTPS or from the server\'s own machine: a password would be readable on the ' +
          'network. You see what everyone may read.';
  allowSignIn(view.takes_credentials);
  setMay(view.may_change_tree, view.sees_all);
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
  setText('slow-message', text);
  find('slow').hidden = requests.length === 0;
  find('slow-requests').replaceChildren(...requests.map(slowRow));
}

async function refresh() {
  try {
    const view = await get('overview');
    showOverview(view);
    await refreshClients(view.sees_all);
    await refreshSlow(view.sees_all);
    await refreshCharts();
  } catch (error) {
    find('summary').textContent = `The overview cannot be read: ${error.message}`;
  }
}

// One request at a time; none while the page is hidden.
async function refreshForEver() {
  if (!document.hidden) await refresh();
  setTimeout(refreshForEver, kRefreshMs);
}

// --- Signing in ----------------------------------------------------------------------------------

async function signIn() {
  const bytes = new TextEncoder().encode(`${find('user').value}:${find('password').value}`);
  // Without a user it is an administrator's token.
  signInAs(find('user').value ? `Basic ${btoa(String.fromCharCode(...bytes))}` : `Bearer ${find('password').value}`);
  find('password').value = '';
  try {
    await get('overview');
    find('sign-in-message').textContent = '';
  } catch (error) {
    signInAs('');  // else it would be sent, and counted as wrong, again and again
    find('sign-in-message').textContent = `You are not signed in: ${error.message}`;
  }
}

find('sign-in').addEventListener('submit', async (event) => {
  event.preventDefault();
  if (!window.isSecureContext) return;
  await signIn();
  await refresh();
  await open(shownPath(), '');
});
find('sign-out').addEventListener('click', async () => {
  signInAs('');
  await refresh();
  await open(shownPath(), '');
  find('user').focus();
});

allowSignIn(true);
refreshForEver();
open('/', '');
