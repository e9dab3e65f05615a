// SPDX-License-Identifier: Apache-2.0

// What a client of a test requests from a server, and the answer: requests and replies as values,
// without their encoding.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tree/types.h"

namespace quorate::simulation {

enum class OperationKind : uint8_t {
  kCreate,
  kDelete,
  kSetData,
  kSetAcl,
  kCheck,  // in a multi only
  // The writes of ClickHouse Keeper, which servers have from cluster version 8 on.
  kCheckNotExists,
  kCreateIfNotExists,
  kRemoveRecursive,
  kCheckStat,
  kTryRemove,
  kMulti,
  kCloseSession,
  kExists,
  kGetData,
  kGetChildren,
  // The reads of ClickHouse Keeper.
  kFilteredList,
  kFilteredListDetailed,  // with stats and data
  kListRecursive,
  kSync,
  kSetWatches,
  kAddWatch,   // persistent
  kMultiRead,  // getData of several paths
};

// Which children a filtered list has.
enum class ChildKind : uint8_t { kAll = 0, kPersistent = 1, kEphemeral = 2 };

// One change, alone or in a multi.
struct Step {
  OperationKind kind = OperationKind::kCheck;
  std::string path;
  std::string data;                                       // create, setData
  bool has_data = true;                                   // null data is not empty data
  tree::CreateMode mode = tree::CreateMode::kPersistent;  // create
  bool wants_stat = false;                                // create: the reply has the stat as well
  // delete, tryRemove, setData, setAcl (of the ACL), check, checkNotExists, checkStat
  int32_t version = tree::kAnyVersion;
  uint32_t limit = 0;   // removeRecursive: the most nodes that it may remove
  tree::Stat expected;  // checkStat; a field of -1 matches any value
  friend bool operator==(const Step&, const Step&) = default;
};

struct Request {
  OperationKind kind = OperationKind::kSync;
  // Writes: one step, or any number in a multi.
  std::vector<Step> steps;
  // Reads, sync and addWatch.
  std::string path;
  bool watch = false;
  bool recursive = false;                  // addWatch
  std::vector<std::string> paths;          // multiRead
  bool wants_stat = false;                 // getChildren
  ChildKind child_kind = ChildKind::kAll;  // the filtered lists
  bool wants_child_stats = false;          // filteredListWithStatsAndData
  bool wants_child_data = false;           // filteredListWithStatsAndData
  uint32_t max = 0;                        // listRecursive: the most paths in the reply
  // setWatches.
  int64_t relative_zxid = 0;
  std::vector<std::string> data_watches;
  std::vector<std::string> exist_watches;
  std::vector<std::string> child_watches;
  std::vector<std::string> persistent_watches;
  std::vector<std::string> recursive_watches;
};

// Whether the operation goes through the log.
bool IsLogged(OperationKind kind);
// Whether the operation is answered from the server's applied state.
bool IsRead(OperationKind kind);
// Whether a step of this kind creates a node, so that it has data and a mode.
bool IsCreate(OperationKind kind);
// Whether the operation lists the children of one node, so that its watch is one of children.
bool IsList(OperationKind kind);

struct StepResult {
  tree::ErrorCode error = tree::ErrorCode::kOk;
  std::string path;                // create
  std::optional<tree::Stat> stat;  // create with stat, setData, setAcl; a read that found its node
  // Reads in a transaction.
  bool found = false;
  std::string data = {};
  std::vector<std::string> children = {};
  friend bool operator==(const StepResult&, const StepResult&) = default;
};

// The result for one path of a multiRead.
struct ReadResult {
  tree::ErrorCode error = tree::ErrorCode::kOk;
  std::string data;
  tree::Stat stat;
};

struct Reply {
  int64_t zxid = 0;  // of the header
  tree::ErrorCode error = tree::ErrorCode::kOk;
  std::vector<StepResult> steps;  // writes; empty if the single one failed
  std::string data;               // getData
  bool has_data = false;
  std::optional<tree::Stat> stat;  // reads
  // Lists of children: names, ascending. listRecursive: whole paths, in the order of the reply.
  std::vector<std::string> children;
  // filteredListWithStatsAndData: of each child, or empty. A child without a value has null data.
  std::vector<tree::Stat> child_stats;
  std::vector<std::optional<std::string>> child_data;
  std::vector<ReadResult> reads;  // multiRead
  std::string path;               // sync
};

struct WatchEvent {
  int64_t zxid = 0;  // -1: found by setWatches
  tree::EventType type = tree::EventType::kNodeCreated;
  std::string path;
  friend bool operator==(const WatchEvent&, const WatchEvent&) = default;
};

// Requests of one step.
Request MakeCreate(std::string path, std::string data,
                   tree::CreateMode mode = tree::CreateMode::kPersistent, bool wants_stat = true);
Request MakeDelete(std::string path, int32_t version = tree::kAnyVersion);
Request MakeSetData(std::string path, std::string data, int32_t version = tree::kAnyVersion);
Request MakeSetAcl(std::string path, int32_t version = tree::kAnyVersion);
Request MakeWrite(Step step);
Request MakeMulti(std::vector<Step> steps);
Request MakeRead(OperationKind kind, std::string path, bool watch = false);
Request MakeListRecursive(std::string path, uint32_t max);
Request MakeSync(std::string path);
Request MakeCloseSession();
Step MakeStep(OperationKind kind, std::string path, std::string data = "",
              int32_t version = tree::kAnyVersion);

// Each returns one line; long data is shortened.
std::string ToString(OperationKind kind);
std::string ToString(const Request& request);
std::string ToString(const Request& request, const Reply& reply);
std::string ToString(const WatchEvent& event);
std::string ToString(const tree::Stat& stat);
// The stat that matches any other in a checkStat.
tree::Stat AnyStat();
// The first bytes of `data`, at most a few tens, and its length if that is not all of it.
std::string Shortened(std::string_view data);

}  // namespace quorate::simulation
