// What has to be the same in the answers of two servers although its values differ: the order of
// changes, the identity of sessions, and that all that one change touched has its time.
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
  // `alone`: one server on each side. Of several, one may be behind another.
  explicit Relation(bool alone = true) : alone_(alone) {}

  // Whether both zxids can be of the same change. Each new pair is kept if it can, so that a later
  // one that contradicts it is found.
  bool SameChange(int64_t reference, int64_t ours);
  // Whether both can be the newest change that has been seen. One server may give numbers to what
  // is no change at the other.
  bool SameMoment(int64_t reference, int64_t ours);
  bool SameSession(int64_t reference, int64_t ours);
  // Whether each server gave the change that time each time it was asked, and both gave one or
  // none.
  bool SameTime(int64_t reference_zxid, int64_t reference_ms, int64_t our_zxid, int64_t ours_ms);

  // Forgets changes and times: for servers whose trees were made the same again.
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
