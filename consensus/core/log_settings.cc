// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/log_settings.h"

#include <algorithm>

#include "base/assert.h"
#include "base/seeded_bug.h"

namespace quorate::consensus {

LogSettings::LogSettings(const std::optional<SnapshotMeta>& checkpoint,
                         const Membership& configured, const std::vector<Entry>& control_entries)
    : memberships_(checkpoint ? checkpoint->index : Index{0},
                   checkpoint ? checkpoint->membership : configured),
      versions_(checkpoint ? checkpoint->index : Index{0},
                checkpoint ? checkpoint->version : kVersionBase) {
  if (checkpoint) configured_until_ = ConfiguredUntil(*checkpoint);
  const Index included = versions_.newest_index();
  for (const Entry& entry : control_entries) {
    if (entry.index > included) {
      Follow(entry);
    } else if (entry.kind == EntryKind::kMembership) {
      configured_until_ = Index{0};
    }
  }
}

Index LogSettings::ConfiguredUntil(const SnapshotMeta& meta) {
  // A joint membership never comes from the configuration.
  const bool in_log = meta.version >= kVersionMembershipInLog || meta.membership.joint();
  return in_log ? Index{0} : meta.index;
}

void LogSettings::Follow(const Entry& entry) {
  ASSERT(ValidateControl(entry).ok(), "a control entry is validated when it is received");
  if (entry.kind == EntryKind::kMembership) {
    memberships_.Append(entry.index, *DecodeMembership(entry.payload.view()));
    membership_changed_ = true;
  } else {
    const uint32_t version = *DecodeVersion(entry.payload.view());
    versions_.Append(entry.index, std::max(version, versions_.newest()));
  }
}

void LogSettings::TruncateAfter(Index index) {
  membership_changed_ |= memberships_.newest_index() > index;
  if (!SeededBug("membership stays after truncation")) memberships_.TruncateAfter(index);
  versions_.TruncateAfter(index);
}

void LogSettings::CompactTo(Index index) {
  memberships_.CompactTo(index);
  versions_.CompactTo(index);
}

void LogSettings::Reset(const SnapshotMeta& meta) {
  memberships_ = SettingHistory<Membership>(meta.index, meta.membership);
  versions_ = SettingHistory<uint32_t>(meta.index, meta.version);
  configured_until_ = ConfiguredUntil(meta);
  membership_changed_ = true;
}

bool LogSettings::IsVoterFrom(Index commit, MemberId member) const {
  const auto& settings = memberships_.settings();
  return std::any_of(settings.rbegin(), settings.rend(), [&](const auto& setting) {
    const bool in_force = &setting.second == &memberships_.At(commit) || setting.first > commit;
    return in_force && setting.second.IsVoter(member);
  });
}

bool LogSettings::IsRemoved(Index commit, MemberId member) const {
  const auto& settings = memberships_.settings();
  const auto committed = std::find_if(settings.rbegin(), settings.rend(),
                                      [commit](const auto& s) { return s.first <= commit; });
  ASSERT(committed != settings.rend());
  return committed->first > Index{0} && !committed->second.Contains(member);
}

Index LogSettings::LastUnderstoodBy(uint32_t version, Index last) const {
  for (const auto& [index, needed] : versions_.settings()) {
    if (needed > version) return index - std::min<uint64_t>(1, index.value());
  }
  return last;
}

bool LogSettings::RecordConfigured(MemberId member, const Membership& other) {
  ASSERT(MembershipIsConfigured());
  // Majorities of different sets of voters need not have a member in common.
  const bool differs = other.joint() || !membership().HasSameMembers(other);
  if (differs) {
    differing_[member] = other;
  } else {
    differing_.erase(member);
  }
  return differs;
}

const std::pair<const MemberId, Membership>* LogSettings::Differing() const {
  return differing_.empty() || !MembershipIsConfigured() ? nullptr : &*differing_.begin();
}

void LogSettings::CheckInvariants(Index commit, Index last) const {
  ASSERT(memberships_.settings().front().first <= commit);
  ASSERT(memberships_.newest_index() <= last);
  ASSERT(versions_.newest_index() <= last);
  ASSERT(ValidateMembership(membership()).ok());
}

}  // namespace quorate::consensus
