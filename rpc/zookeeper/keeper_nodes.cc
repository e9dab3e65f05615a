// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/keeper_nodes.h"

#include <span>
#include <vector>

#include "base/assert.h"

namespace quorate::rpc::zk {
namespace {

// The numbers of Keeper's feature flags. Number 5, watches in a multiRead, is not announced: the
// watch flags of a multiRead are ignored, as by ZooKeeper.
enum class Feature : uint8_t {
  kFilteredList = 0,
  kMultiRead = 1,
  kCheckNotExists = 2,
  kCreateIfNotExists = 3,
  kRemoveRecursive = 4,
  kCheckStat = 6,
  kPersistentWatches = 7,
  kCreateWithStats = 8,
  kTryRemove = 9,
  kListWithStatAndData = 10,
};

constexpr char FlagsOf(std::span<const Feature> features, unsigned byte) {
  unsigned bits = 0;
  for (const Feature feature : features) {
    const auto number = static_cast<unsigned>(feature);
    if (number / 8 == byte) bits |= 1u << (7 - number % 8);
  }
  return static_cast<char>(bits);
}

constexpr Feature kFeatures[] = {Feature::kFilteredList,      Feature::kMultiRead,
                                 Feature::kCheckNotExists,    Feature::kCreateIfNotExists,
                                 Feature::kRemoveRecursive,   Feature::kCheckStat,
                                 Feature::kPersistentWatches, Feature::kCreateWithStats,
                                 Feature::kTryRemove,         Feature::kListWithStatAndData};
// Feature n is bit 7 - n % 8 of byte n / 8.
constexpr char kFeatureFlags[] = {FlagsOf(kFeatures, 0), FlagsOf(kFeatures, 1)};
// Clients that are older than the feature flags read this version instead. Version 3 of Keeper has
// filtered lists, multiRead and checkNotExists.
constexpr std::string_view kApiVersion = "3";

struct Node {
  std::string_view name;
  std::string_view data;
};
constexpr Node kNodes[] = {{"api_version", kApiVersion},
                           {"feature_flags", {kFeatureFlags, sizeof(kFeatureFlags)}}};

tree::Stat StatOf(std::string_view data, size_t children) {
  tree::Stat stat;
  stat.data_length = static_cast<int32_t>(data.size());
  stat.num_children = static_cast<int32_t>(children);
  return stat;
}

void WriteChildren(OpCode op, const ListDetails& details, BigEndianWriter& to) {
  std::vector<Node> shown;
  if (details.kind != ChildKind::kEphemeral) shown.assign(std::begin(kNodes), std::end(kNodes));
  to.Int(static_cast<int32_t>(shown.size()));
  for (const Node& node : shown) to.String(node.name);
  if (op == OpCode::kGetChildren) return;
  WriteStat(StatOf({}, std::size(kNodes)), to);
  if (op != OpCode::kFilteredListDetailed) return;
  to.Int(static_cast<int32_t>(details.has_stats ? shown.size() : 0));
  if (details.has_stats) {
    for (const Node& node : shown) WriteStat(StatOf(node.data, 0), to);
  }
  to.Int(static_cast<int32_t>(details.has_data ? shown.size() : 0));
  if (details.has_data) {
    for (const Node& node : shown) WriteData(/*has_data=*/true, node.data, to);
  }
}

void WriteNoChildren(OpCode op, const tree::Stat& stat, BigEndianWriter& to) {
  to.Int<int32_t>(0);
  if (op == OpCode::kGetChildren) return;
  WriteStat(stat, to);
  if (op != OpCode::kFilteredListDetailed) return;
  to.Int<int32_t>(0);
  to.Int<int32_t>(0);
}

}  // namespace

tree::ErrorCode WriteKeeperNode(OpCode op, std::string_view path, const ListDetails& details,
                                BigEndianWriter& to) {
  const bool is_top = path == kKeeperTop;
  std::string_view data;
  bool exists = is_top;
  for (const Node& node : kNodes) {
    if (is_top || path.substr(kKeeperTop.size() + 1) != node.name) continue;
    exists = true;
    data = node.data;
  }
  if (!exists) return tree::ErrorCode::kNoNode;
  const tree::Stat stat = StatOf(data, is_top ? std::size(kNodes) : 0);
  switch (op) {
    case OpCode::kExists:
      WriteStat(stat, to);
      break;
    case OpCode::kGetData:
      WriteData(/*has_data=*/true, data, to);
      WriteStat(stat, to);
      break;
    case OpCode::kGetAcl:
      WriteAcl({{tree::permission::kRead, {"world", "anyone"}}}, to);
      WriteStat(stat, to);
      break;
    case OpCode::kGetChildren:
    case OpCode::kGetChildren2:
    case OpCode::kFilteredList:
    case OpCode::kFilteredListDetailed:
      is_top ? WriteChildren(op, details, to) : WriteNoChildren(op, stat, to);
      break;
    default:
      ASSERT(false, "not a read of one path");
  }
  return tree::ErrorCode::kOk;
}

}  // namespace quorate::rpc::zk
