// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/member_change.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace quorate::rpc {

using Kind = MemberChange::Kind;

namespace {

// Returns whether `wanted` has the addresses of `member`; their roles may differ.
bool HasAddressesOf(ServerLine wanted, const ServerLine& member) {
  wanted.observer = member.observer;
  return FormatServerLine(wanted) == FormatServerLine(member);
}

absl::Status NumberIsTaken(uint32_t id, const ServerLine& member) {
  return absl::AlreadyExistsError(absl::StrCat(
      "member ", id, " is at ", FormatServerLine(member),
      "; `quorate member move` changes its addresses, and a new member needs another number"));
}

// As NextStep, for kReplace. The role of the new member is in its line, so that it is known after the old
// one has left, too.
absl::StatusOr<ServerLines> NextReplaceStep(const MemberChange& change, const ServerLines& now) {
  const MemberChange add{Kind::kAdd, change.new_id, change.server_line};
  const auto old = now.find(change.id);
  const auto replacement = now.find(change.new_id);
  if (old == now.end()) {
    if (replacement != now.end()) return NextStep(add, now);
    return absl::NotFoundError(absl::StrCat("there is no member ", change.id));
  }
  const auto wanted = ParseServerLine(change.server_line);
  if (!wanted.ok()) return wanted.status();
  if (wanted->observer != old->second.observer) {
    return absl::InvalidArgumentError(
        wanted->observer
            ? absl::StrCat("member ", change.id,
                           " has a vote, which its replacement gets: leave out :observer")
            : absl::StrCat("member ", change.id,
                           " is an observer: write :observer behind its replacement's addresses"));
  }
  if (replacement == now.end()) return NextStep(add, now);
  if (!HasAddressesOf(*wanted, replacement->second)) {
    return NumberIsTaken(change.new_id, replacement->second);
  }
  if (!replacement->second.observer) {
    return absl::AlreadyExistsError(absl::StrCat(
        "member ", change.new_id, " has a vote of its own, so it replaces nobody; `quorate member ",
        "remove ", change.id, "` removes the other one"));
  }
  // The new member is an observer, and takes over the role of the old one, which leaves. The number of
  // voters stays.
  ServerLines next = now;
  next.at(change.new_id).observer = old->second.observer;
  next.erase(change.id);
  return next;
}

}  // namespace

absl::StatusOr<ServerLines> NextStep(const MemberChange& change, const ServerLines& now) {
  if (change.kind == Kind::kReplace) return NextReplaceStep(change, now);
  ServerLines next = now;
  const auto member = next.find(change.id);
  const bool is_new = member == next.end();
  if (change.kind == Kind::kRemove) {
    if (!is_new) next.erase(member);
    return next;
  }
  if (is_new && change.kind != Kind::kAdd) {
    return absl::NotFoundError(absl::StrCat("there is no member ", change.id));
  }
  if (change.kind == Kind::kPromote || change.kind == Kind::kDemote) {
    member->second.observer = change.kind == Kind::kDemote;
    return next;
  }
  auto wanted = ParseServerLine(change.server_line);
  if (!wanted.ok()) return wanted.status();
  if (is_new) {
    next[change.id] = *wanted;
    next[change.id].observer = true;
    return next;
  }
  const bool keeps_role = change.kind == Kind::kMove;
  if (keeps_role) wanted->observer = member->second.observer;
  const bool same_addresses = HasAddressesOf(*wanted, member->second);
  if (!same_addresses && !keeps_role) return NumberIsTaken(change.id, member->second);
  if (same_addresses && wanted->observer == member->second.observer) return next;
  if (wanted->observer) {
    return absl::AlreadyExistsError(absl::StrCat(
        "member ", change.id, " has a vote; `quorate member demote` makes it an observer"));
  }
  member->second = *std::move(wanted);
  return next;
}

absl::StatusOr<ServerLines> LinesOf(const ClusterView& view) {
  ServerLines lines;
  for (const ClusterView::Member& member : view.members) {
    if (!member.addresses.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the leader does not know the addresses of member ", member.id.value(),
                       "; add its server.N line to the leader's configuration"));
    }
    ServerLine& line = lines[member.id.value()];
    line = *member.addresses;
    line.observer = member.observer;
  }
  return lines;
}

std::string ReasonNotToChange(const ClusterView& view, const ServerLines& next) {
  const auto leader = next.find(view.self.value());
  if (leader == next.end() || leader->second.observer) {
    return absl::StrCat("member ", view.self.value(),
                        " leads; make another member the leader first");
  }
  size_t voters = 0;
  size_t ready = 0;
  for (const auto& [id, line] : next) {
    if (line.observer) continue;
    ++voters;
    const auto member = std::find_if(
        view.members.begin(), view.members.end(),
        [id = id](const ClusterView::Member& other) { return other.id.value() == id; });
    if (member == view.members.end()) continue;
    const bool has_all = (member->id == view.self || member->reachable) && member->in_sync;
    // Of a member that gets its vote by the change, the leader itself decides whether it has caught up.
    ready += has_all ? 1 : 0;
  }
  const size_t majority = voters / 2 + 1;
  if (ready >= majority) return "";
  return absl::StrCat("after the change, ", ready, " of ", voters,
                      " voters would be up to date, and ", majority,
                      " are needed; bring one back, or add one, first");
}

}  // namespace quorate::rpc
