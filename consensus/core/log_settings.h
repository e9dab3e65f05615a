// SPDX-License-Identifier: Apache-2.0

// The settings that entries of the log make, the membership and the cluster version, each with its
// history: an entry may be truncated, and then the setting before it is in effect again. Also
// whether the membership comes from the configuration of this member, and the members that were
// started with another one.
//
// Thread-safety: none; a value of Raft.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "consensus/core/membership.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class LogSettings {
 public:
  // The settings at the start. `configured` is the membership that the member is started with,
  // which is in effect if there is no checkpoint. `control_entries` are those of the log, ascending;
  // the checkpoint includes what the ones up to its index have set. REQUIRES: the payloads of the
  // entries are valid.
  LogSettings(const std::optional<SnapshotMeta>& checkpoint, const Membership& configured,
              const std::vector<Entry>& control_entries);

  // Returns the newest membership. It is in effect whether it is committed or not (thesis 4.1).
  const Membership& membership() const { return memberships_.newest(); }
  // Returns the index of the entry that set it; at most the log's base if no entry of the log did.
  Index membership_index() const { return memberships_.newest_index(); }
  // Returns the membership before that entry. REQUIRES: the entry is not committed.
  const Membership& MembershipBefore() const {
    return memberships_.At(memberships_.newest_index() - 1);
  }
  // Returns the newest version, and the version after the entries up to `index`.
  uint32_t version() const { return versions_.newest(); }
  uint32_t VersionAt(Index index) const { return versions_.At(index); }

  // Records a control entry that was added to the log. REQUIRES: its payload is valid.
  void Follow(const Entry& entry);
  // Records that the entries after `index` were removed from the log. REQUIRES: `index` is at least
  // the committed index.
  void TruncateAfter(Index index);
  // Forgets the settings that are in effect only before `index`.
  void CompactTo(Index index);
  // Records that the log begins after the snapshot of `meta` and is empty.
  void Reset(const SnapshotMeta& meta);

  // Returns whether the membership may have changed since the last call, or since the start.
  bool TakeMembershipChange() { return std::exchange(membership_changed_, false); }
  bool membership_changed() const { return membership_changed_; }

  // Returns whether `member` is a voter of the membership that is in effect at `commit`, or of a
  // later one. A member whose removal is not committed may be the only one that can be elected
  // (thesis 4.2.2).
  bool IsVoterFrom(Index commit, MemberId member) const;
  // Returns whether an entry up to `commit` has removed `member`. The membership of the bootstrap
  // does not count, because a member that is about to join is not in it.
  bool IsRemoved(Index commit, MemberId member) const;
  // Returns the entry before the first one that needs a newer program than one of `version`, or
  // `last` if there is none.
  Index LastUnderstoodBy(uint32_t version, Index last) const;

  // Returns whether, as far as this member knows, the membership comes from the configuration and
  // not from a log entry. A checkpoint from before kVersionMembershipInLog may have a configured
  // membership.
  bool MembershipIsConfigured() const { return membership_index() <= configured_until_; }
  // Records that `member` was started with the membership `other`. Returns whether that differs
  // from the membership here. REQUIRES: MembershipIsConfigured().
  bool RecordConfigured(MemberId member, const Membership& other);
  // Returns a member that was started with another membership, if no log entry decides between the
  // two, and that membership; otherwise nullptr. It stays true however long that member is silent:
  // it may be the leader of a majority of its own that this member cannot hear.
  const std::pair<const MemberId, Membership>* Differing() const;

  // Aborts if an invariant does not hold.
  void CheckInvariants(Index commit, Index last) const;

 private:
  // For a log that begins after a checkpoint of `meta`, returns the index up to which the
  // membership may come from the configuration alone; 0 if the log has set it.
  static Index ConfiguredUntil(const SnapshotMeta& meta);

  // The first of each is committed.
  SettingHistory<Membership> memberships_;
  SettingHistory<uint32_t> versions_;
  // A membership that was set after this index comes from a log entry.
  Index configured_until_{};
  bool membership_changed_ = true;
  // An entry is removed when the member says that it was started with the same membership. In memory
  // only.
  std::map<MemberId, Membership> differing_;
};

}  // namespace quorate::consensus
