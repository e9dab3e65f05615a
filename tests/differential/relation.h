// SPDX-License-Identifier: Apache-2.0

// Checks the properties that must agree in the answers of two servers although the values differ:
// the order of changes, the identity of sessions, and that all nodes that one change touched have
// its time.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace quorate::differential {

// The first of each pair is the reference's.
class Relation {
 public:
  // `alone`: there is one server on each side. With several, one may be behind another.
  explicit Relation(bool alone = true) : alone_(alone) {}

  // Returns whether both zxids can be of the same change. If so, the pair is stored, so that a
  // later contradiction is found.
  bool SameChange(int64_t reference, int64_t ours);
  // Returns whether both can be the newest change that was seen. One server may number entries that
  // are no changes at the other.
  bool SameMoment(int64_t reference, int64_t ours);
  bool SameSession(int64_t reference, int64_t ours);
  // Returns whether each server always gave the same time for the change, and both gave a time or
  // neither did.
  bool SameTime(int64_t reference_zxid, int64_t reference_ms, int64_t our_zxid, int64_t ours_ms);

  // Forgets changes and times, after the trees of the servers were made equal.
  void ForgetChanges();

 private:
  bool alone_;
  std::map<int64_t, int64_t> changes_;
  std::set<std::pair<int64_t, int64_t>> moments_;
  std::map<int64_t, int64_t> sessions_;
  std::map<int64_t, int64_t> sessions_back_;
  std::array<std::map<int64_t, int64_t>, 2> times_ms_;
};

}  // namespace quorate::differential
