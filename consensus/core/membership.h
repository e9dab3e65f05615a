// SPDX-License-Identifier: Apache-2.0

// Memberships and versions in the log: their encoding, the rules for a valid membership, the steps
// from one membership to the next (joint consensus, thesis 4.3), and the value in effect at each
// index.
//
// Thread-safety: values; no shared state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/assert.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// The highest number of a member; the lowest is 1.
inline constexpr uint32_t kMemberIdMax = 254;
// Longest address of a member.
inline constexpr size_t kAddressBytesMax = 1024;

// Returns InvalidArgument, naming the field, if one of the relations stated in types.h does not
// hold, or if there is an address of a server that is not a member.
absl::Status ValidateMembership(const Membership& membership);

// Returns the payload of a kMembership entry. REQUIRES: the membership is valid.
std::string EncodeMembership(const Membership& membership);
// Decodes a membership. Returns InvalidArgument if EncodeMembership cannot have written the bytes.
absl::StatusOr<Membership> DecodeMembership(std::string_view bytes);

// Returns the payload of a kVersion entry.
std::string EncodeVersion(uint32_t version);
// Decodes a version. Returns InvalidArgument if EncodeVersion cannot have written the bytes; 0 is
// not a version.
absl::StatusOr<uint32_t> DecodeVersion(std::string_view bytes);

// Returns InvalidArgument if the payload of a control entry is malformed.
absl::Status ValidateControl(const Entry& entry);

// Encode and decode a SnapshotMeta. DecodeSnapshotMeta returns InvalidArgument for bytes that
// EncodeSnapshotMeta cannot have written for a valid SnapshotMeta, whose index and term are not 0.
std::string EncodeSnapshotMeta(const SnapshotMeta& meta);
absl::StatusOr<SnapshotMeta> DecodeSnapshotMeta(std::string_view bytes);

// Advances `*meta` by `entry`, which follows meta->index. It is for callers that apply entries and
// take checkpoints. REQUIRES: entry.index == meta->index + 1, and the entry's payload was
// validated.
void Follow(const Entry& entry, SnapshotMeta* meta);

// Returns the membership of the first half of a change from `from` to `target`, in which both sets
// of voters decide. REQUIRES: both are valid and neither is joint.
Membership JoinMemberships(const Membership& from, const Membership& target);
// Returns the membership that ends the change. REQUIRES: joint.joint().
Membership LeaveJoint(const Membership& joint);

// The history of a value that log entries set. It tells which value is in effect at each index.
template <typename T>
class SettingHistory {
 public:
  // Creates a history in which `value` is in effect at `index` and before.
  SettingHistory(Index index, T value) { settings_.emplace_back(index, std::move(value)); }

  const T& newest() const { return settings_.back().second; }
  // Returns the index of the entry that set newest(); at most the log's base if no entry of the log
  // set it.
  Index newest_index() const { return settings_.back().first; }
  const std::vector<std::pair<Index, T>>& settings() const { return settings_; }
  // Returns the value in effect after the entries up to `index`.
  const T& At(Index index) const {
    size_t i = settings_.size() - 1;
    while (i > 0 && settings_[i].first > index) --i;
    return settings_[i].second;
  }

  // Adds the value that the entry at `index` sets. REQUIRES: index > newest_index().
  void Append(Index index, T value) {
    ASSERT(index > newest_index());
    settings_.emplace_back(index, std::move(value));
  }
  // Drops the values set by entries above `index`. The first value stays, because it is committed.
  void TruncateAfter(Index index) {
    while (settings_.size() > 1 && settings_.back().first > index) settings_.pop_back();
  }
  // Drops the values that are in effect only before `index`.
  void CompactTo(Index index) {
    size_t i = 0;
    while (i + 1 < settings_.size() && settings_[i + 1].first <= index) ++i;
    settings_.erase(settings_.begin(), settings_.begin() + static_cast<std::ptrdiff_t>(i));
  }

 private:
  std::vector<std::pair<Index, T>> settings_;  // ascending; the first is committed
};

}  // namespace quorate::consensus
