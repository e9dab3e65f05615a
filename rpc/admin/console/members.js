// SPDX-License-Identifier: Apache-2.0

// Changes of the members: adding, removing, giving and taking votes, and leadership.

import {button, confirmWith, element, find, post, setText} from '/console/page.js';

const kNumberMax = 254;

// Changes the members that the page has shown when the dialog was opened, and no others.
async function change(view, kind, member, line, refresh) {
  await post('change-members', {change: kind, member, line, membership: view.membership_index});
  await refresh();
}

function changeButton(member, view, refresh, kind, text, label, question, warning) {
  return button(text, label, () => confirmWith(
      question, warning, text, () => change(view, kind, member.id, '', refresh)));
}

function leadButton(member, refresh) {
  return button('Make leader', `Make member ${member.id} the leader`, () => confirmWith(
      `Make member ${member.id} the leader?`,
      'Writes wait for a moment while leadership moves. A member that is behind does not become the leader.',
      'Transfer leadership', async () => {
        await post('transfer-leadership', {member: member.id});
        await refresh();
      }));
}

// Returns the buttons of a member's row. Only the leader changes members, and one change at a time.
export function memberButtons(member, view, refresh) {
  const buttons = [];
  if (!view.is_leader || !view.sees_all || member.id === view.leader) return buttons;
  const name = `member ${member.id}`;
  if (member.role === 'follower' && member.reachable) buttons.push(leadButton(member, refresh));
  if (view.changing || view.standalone) return buttons;
  if (member.role === 'observer') {
    buttons.push(changeButton(
        member, view, refresh, 'promote', 'Give a vote', `Give ${name} a vote`, `Give ${name} a vote?`,
        'It then counts in majorities. A member that has not caught up is refused.'));
  } else {
    buttons.push(changeButton(
        member, view, refresh, 'demote', 'Take its vote', `Take the vote of ${name}`, `Take the vote of ${name}?`,
        'It stays as an observer, which serves clients and counts in no majority.'));
  }
  buttons.push(changeButton(
      member, view, refresh, 'remove', 'Remove', `Remove ${name}`, `Remove ${name} from the cluster?`,
      'Its clients have to reconnect to others. Stop its server afterwards; its data can then be deleted.'));
  return buttons;
}

function labelled(text, input) {
  const label = element('label', text);
  label.append(input);
  return label;
}

function addMember(view, refresh) {
  const number = document.createElement('input');
  number.type = 'number';
  number.min = 1;
  number.max = kNumberMax;
  number.required = true;
  const line = document.createElement('input');
  line.required = true;
  line.placeholder = 'host:2888:3888;2181';
  confirmWith(
      'Add a member',
      'Start its server first, with an empty data directory and the server.N lines of all members and its own. It is ' +
          'added as an observer, and receives its data. Give it a vote when it has caught up.',
      'Add', () => change(view, 'add', number.valueAsNumber, line.value.trim(), refresh),
      [labelled('Number, as in its file myid ', number), labelled('Addresses, as in its server.N line ', line)]);
}

// Shows what is under way, and who may change members where.
export function showMembersState(view, refresh) {
  const mayAdd = view.is_leader && view.sees_all && !view.standalone;
  const behind = view.members.filter((member) => member.role === 'observer' && member.in_sync === false);
  const texts = [];
  if (view.changing) {
    texts.push('A change of members is under way. The next one can be made when the cluster has confirmed it.');
  }
  for (const member of behind) {
    texts.push(`Member ${member.id} is an observer and ${member.lag} entries behind` +
               `${member.reachable ? '' : ', and cannot be reached'}.`);
  }
  if (view.sees_all && !view.is_leader && view.leader) {
    texts.push(`Members are changed at the leader, member ${view.leader}.`);
  }
  setText('members-message', texts.join(' '));
  const add = find('add-member');
  add.hidden = !mayAdd;
  add.disabled = view.changing;
  add.onclick = () => addMember(view, refresh);
}
