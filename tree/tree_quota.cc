// SPDX-License-Identifier: Apache-2.0

// The functions of Tree::Impl for quotas.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "tree/digest.h"
#include "tree/quota.h"
#include "tree/tree_impl.h"

namespace quorate::tree {
namespace {

// Adds with wraparound, as Java does: a client may have written any number to the statistics.
int64_t Add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Returns whether `value` exceeds the limit that applies: the hard limit if there is one, else the
// soft limit.
bool IsExceeded(int64_t value, int64_t limit, int64_t hard_limit, QuotaExcess* excess) {
  excess->is_hard = hard_limit > -1;
  excess->value = value;
  excess->limit = excess->is_hard ? hard_limit : limit;
  return excess->limit > -1 && value > excess->limit;
}

}  // namespace

void Tree::Impl::RecordQuotaNode(const Znode& node, bool is_there) {
  if (node.name() != kLimitsName) return;
  const std::string path = node.Path();
  if (is_there) {
    quotas_.OnCreated(path);
  } else {
    quotas_.OnDeleted(path);
  }
}

ErrorCode Tree::Impl::CheckQuota(std::string_view path, int64_t bytes_added, int64_t nodes_added,
                                 const Context& context) {
  const std::optional<std::string_view> quota_path = quotas_.Find(path);
  if (!quota_path.has_value()) return ErrorCode::kOk;
  const Znode* limits_node = Lookup(QuotaNodePath(*quota_path, kLimitsName));
  const Znode* stats_node = Lookup(QuotaNodePath(*quota_path, kStatsName));
  ASSERT(limits_node != nullptr, "a quota in the index has limits");
  if (stats_node == nullptr) return ErrorCode::kOk;
  const StatsTrack limits = ParseStatsTrack(limits_node->data.view());
  const StatsTrack stats = ParseStatsTrack(stats_node->data.view());

  QuotaExcess excess;
  excess.path = *quota_path;
  bool is_refused = false;
  const auto check = [&](int64_t value, int64_t limit, int64_t hard_limit) {
    if (is_refused || !IsExceeded(value, limit, hard_limit, &excess)) return;
    is_refused = excess.is_hard && context.enforces_quota;
    if (context.listener != nullptr) context.listener->OnQuotaExceeded(excess);
  };
  if (nodes_added != 0) {
    check(Add(stats.count, nodes_added), limits.count, limits.count_hard_limit);
  }
  excess.is_bytes = true;
  if (bytes_added != 0) {
    check(Add(stats.bytes, bytes_added), limits.bytes, limits.byte_hard_limit);
  }
  return is_refused ? ErrorCode::kQuotaExceeded : ErrorCode::kOk;
}

void Tree::Impl::UpdateQuota(std::string_view path, int64_t bytes_added, int64_t nodes_added) {
  const std::optional<std::string_view> quota_path = quotas_.Find(path);
  if (!quota_path.has_value()) return;
  const std::string stats_path = QuotaNodePath(*quota_path, kStatsName);
  Znode* node = Lookup(stats_path);
  if (node == nullptr) return;
  StatsTrack stats = ParseStatsTrack(node->data.view());
  stats.count = Add(stats.count, nodes_added);
  stats.bytes = Add(stats.bytes, bytes_added);
  WriteQuotaStats(node, stats_path, ToString(stats));
}

void Tree::Impl::CountQuota(Znode* stats_node, std::string_view stats_path) {
  const std::optional<std::string_view> quota_path = QuotaPathOf(stats_path, kStatsName);
  if (!quota_path.has_value()) return;
  StatsTrack stats;
  stats.count = 0;
  stats.bytes = 0;
  std::vector<const Znode*> left;
  if (const Znode* top = Lookup(*quota_path); top != nullptr) left.push_back(top);
  while (!left.empty()) {
    const Znode* node = left.back();
    left.pop_back();
    ++stats.count;
    stats.bytes += node->data.size();
    node->children().ForEach([&left](const Znode* child) { left.push_back(child); });
  }
  WriteQuotaStats(stats_node, stats_path, ToString(stats));
}

// Writes statistics. As in ZooKeeper, only the data changes, but neither version nor times, and
// there is no event.
void Tree::Impl::WriteQuotaStats(Znode* node, std::string_view path, std::string_view text) {
  if (node->data.view() == text) return;
  Undo& undo = undo_.emplace_back();
  undo.kind = OpKind::kSetData;
  undo.node = node;
  undo.content_hash = node->content_hash;
  undo.mzxid = node->mzxid;
  undo.mtime_ms = node->mtime_ms;
  undo.version = node->version;
  changes_.BeforeNodeChange(node);
  RemoveFromDigest(*node);
  totals_.data_bytes -= node->data.size();
  undo.data.Set(&memory_, true, text);
  undo.data.Swap(&node->data);
  node->content_hash = HashContent(path, node->data);
  totals_.data_bytes += node->data.size();
  AddToDigest(*node);
}

}  // namespace quorate::tree
