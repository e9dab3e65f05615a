// SPDX-License-Identifier: Apache-2.0

// Quotas, stored as in ZooKeeper: the quota of a path /p is in the nodes
// /zookeeper/quota/p/zookeeper_limits and /zookeeper/quota/p/zookeeper_stats, whose data is text
// such as "count=7,bytes=120". The client that sets a quota creates both nodes; the tree updates
// the statistics.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace quorate::tree {

inline constexpr std::string_view kQuotaRoot = "/zookeeper/quota";
inline constexpr std::string_view kLimitsName = "zookeeper_limits";
inline constexpr std::string_view kStatsName = "zookeeper_stats";

// The parsed text of limits or statistics. A number that is missing or malformed is -1, which means
// "no limit".
struct StatsTrack {
  int64_t count = -1;  // of the node itself and all nodes below it
  int64_t bytes = -1;  // of their data
  // Only limits have these. The two limits above are soft: exceeding them only logs a warning.
  int64_t count_hard_limit = -1;
  int64_t byte_hard_limit = -1;
};
// Parses any text. Ignores unknown keys, and everything beyond the first 1024 bytes.
StatsTrack ParseStatsTrack(std::string_view text);
// Returns "count=1,bytes=2", followed by the hard limits if there are any.
std::string ToString(const StatsTrack& track);

// Returns the path whose quota node `path` is. `name` is kLimitsName or kStatsName. For
// /zookeeper/quota/a/b/zookeeper_limits and kLimitsName it is "/a/b". Returns nullopt if `path` is
// not such a node. The view points into `path`.
std::optional<std::string_view> QuotaPathOf(std::string_view path, std::string_view name);
// Returns the node that has the limits or statistics (`name`) of `quota_path`: the inverse of
// QuotaPathOf.
std::string QuotaNodePath(std::string_view quota_path, std::string_view name);

// The set of paths that have limits. It is derived from the nodes alone.
class QuotaIndex {
 public:
  bool empty() const { return paths_.empty(); }
  // Updates the index after a node was created or deleted. Does nothing if the node does not have
  // the limits of a path.
  void OnCreated(std::string_view path);
  void OnDeleted(std::string_view path);
  // Returns the path whose quota applies to `path`: the longest path with limits that is `path`
  // itself or above it. Returns nullopt if there is none. O(1) if there are no quotas, else
  // O(depth).
  std::optional<std::string_view> Find(std::string_view path) const;

 private:
  std::set<std::string, std::less<>> paths_;
};

}  // namespace quorate::tree
