// Quotas as ZooKeeper keeps them: the quota of a path /p is the nodes
// /zookeeper/quota/p/zookeeper_limits and /zookeeper/quota/p/zookeeper_stats, whose data is text
// such as "count=7,bytes=120". Whoever sets a quota creates both; the tree keeps the statistics.
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

// The text of limits or of statistics. A number that is not there, or is no number, is -1: for a
// limit, there is none.
struct StatsTrack {
  int64_t count = -1;  // of the node itself and all below it
  int64_t bytes = -1;  // of their data
  // Limits only. The others are soft: who exceeds them is warned of.
  int64_t count_hard_limit = -1;
  int64_t byte_hard_limit = -1;
};
// Takes any text; other keys are ignored, and so is what stands far behind.
StatsTrack ParseStatsTrack(std::string_view text);
// "count=1,bytes=2", and hard limits behind that if there are any.
std::string ToString(const StatsTrack& track);

// Of which path a node is the limits or the statistics: /zookeeper/quota/a/b/zookeeper_limits gives
// "/a/b" for kLimitsName. Nothing if it is no such node. The view points into `path`.
std::optional<std::string_view> QuotaPathOf(std::string_view path, std::string_view name);
// The other way round.
std::string QuotaNodePath(std::string_view quota_path, std::string_view name);

// The paths that have limits, which follows from the nodes that there are.
class QuotaIndex {
 public:
  bool empty() const { return paths_.empty(); }
  // A node is there from now on, or no more; nothing happens unless it is the limits of a path.
  void OnCreated(std::string_view path);
  void OnDeleted(std::string_view path);
  // The path whose quota is that of `path`: the longest that is `path` or above it. Nothing if
  // there is none. O(1) without quotas, else O(depth).
  std::optional<std::string_view> Find(std::string_view path) const;

 private:
  std::set<std::string, std::less<>> paths_;
};

}  // namespace quorate::tree
