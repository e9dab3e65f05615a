// Quotas as ZooKeeper keeps them: the quota of a path /p is the nodes
// /zookeeper/quota/p/zookeeper_limits and /zookeeper/quota/p/zookeeper_stats, whose data is text
// such as "count=7,bytes=120". The client that sets a quota creates both; the tree updates the
// statistics.
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
// no limit.
struct StatsTrack {
  int64_t count = -1;  // of the node itself and all below it
  int64_t bytes = -1;  // of their data
  // Limits only. The limits above are soft: exceeding them only logs a warning.
  int64_t count_hard_limit = -1;
  int64_t byte_hard_limit = -1;
};
// Parses any text. Other keys are ignored, and so are pairs far behind in a long text.
StatsTrack ParseStatsTrack(std::string_view text);
// Returns "count=1,bytes=2", followed by the hard limits if there are any.
std::string ToString(const StatsTrack& track);

// Returns the path whose limits or statistics the node `path` is: "/a/b" for
// /zookeeper/quota/a/b/zookeeper_limits and kLimitsName. nullopt if it is no such node. The view
// points into `path`.
std::optional<std::string_view> QuotaPathOf(std::string_view path, std::string_view name);
// The inverse of QuotaPathOf.
std::string QuotaNodePath(std::string_view quota_path, std::string_view name);

// The paths that have limits; derived from the nodes alone.
class QuotaIndex {
 public:
  bool empty() const { return paths_.empty(); }
  // Updates the index after a node was created or deleted; does nothing unless the node is the
  // limits of a path.
  void OnCreated(std::string_view path);
  void OnDeleted(std::string_view path);
  // Returns the path whose quota applies to `path`: the longest that is `path` or above it. nullopt
  // if there is none. O(1) without quotas, else O(depth).
  std::optional<std::string_view> Find(std::string_view path) const;

 private:
  std::set<std::string, std::less<>> paths_;
};

}  // namespace quorate::tree
