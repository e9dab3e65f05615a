// SPDX-License-Identifier: Apache-2.0

// The changes of nodes that a run shows, by path.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/chaos/checkers/run.h"
#include "tests/chaos/checkers/seen_zxids.h"

namespace quorate::chaos {

struct Change {
  int64_t zxid = 0;
  std::string_view type;  // as of an event: "created", "deleted", "changed", "children"
  std::string_view path;
  const Operation* operation = nullptr;  // the operation that made the change, or saw it
  friend bool operator<(const Change& a, const Change& b) {
    return std::tie(a.zxid, a.type, a.path) < std::tie(b.zxid, b.type, b.path);
  }
  friend bool operator==(const Change& a, const Change& b) {
    return std::tie(a.zxid, a.type, a.path) == std::tie(b.zxid, b.type, b.path);
  }
};

class Changes {
 public:
  explicit Changes(const Run& run);

  // The changes of the node, those of its children ("children") included; sorted by zxid.
  const std::vector<Change>& Of(std::string_view path) const;
  // The changes of the node and of all nodes below it, without "children"; sorted by zxid.
  std::vector<Change> OfSubtree(std::string_view path) const;

  // Whether a change of this kind may have been made at this zxid by an operation with an unknown
  // zxid, or by the end of a session.
  bool MayHaveBeen(std::string_view path, std::string_view type, int64_t zxid) const;

 private:
  void Add(const Operation& operation);
  void AddStat(const Operation& operation, std::string_view path, const Stat& stat);
  void AddEffect(const Operation& operation, Function function, std::string_view path,
                 int64_t zxid);
  void AddEndOf(const Session& session);
  bool IsDeletedBetween(std::string_view path, const Operation& begin, const Operation& end) const;
  void Note(int64_t zxid, std::string_view type, std::string_view path, const Operation& operation);
  void RecordUnknown(std::string_view type, std::string_view path, int64_t above, int64_t below);

  const Run& run_;
  const SeenZxids seen_;
  std::map<std::string_view, std::vector<Change>> by_path_;
  // By path and type: pairs of zxids between which such a change may have been made.
  std::map<std::pair<std::string_view, std::string_view>, std::vector<std::pair<int64_t, int64_t>>>
      unknown_;
  std::map<std::string_view, std::vector<const Operation*>> deletions_;  // that may have happened
};

}  // namespace quorate::chaos
