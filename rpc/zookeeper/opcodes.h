// SPDX-License-Identifier: Apache-2.0

// The operation codes of the ZooKeeper protocol and their properties: the only list of them. The
// server, its statistics, and the clients of tests and tools look up here what an opcode means.
//
// Thread-safety: constants and functions without state.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quorate::rpc::zk {

enum class OpCodeKind : uint8_t {
  kNotServed,  // no client may send it
  kRead,       // reads the tree, or what the server knows of the client
  kWrite,      // changes the tree, or might in a multi, and goes through the log
  kWatch,      // sets, checks or removes watches
  kSession,    // concerns the session, its connection, or the members
};

// Whether an opcode needs a quorum. A server without one serves only the opcodes that do not.
enum class Quorum : uint8_t { kNo, kNeeded };

// The container request that may hold an opcode as an item.
enum class Container : uint8_t {
  kNone,
  kMulti,
  kMultiRead,
  kMultiReadOfKeeper,  // in a multiRead only if the extensions of ClickHouse Keeper are served
};

// The result in the reply to a write, in a multi too.
enum class WriteResult : uint8_t { kNone, kPath, kPathStat, kStat };

// One row for each opcode: identifier, number, ZooKeeper's name, name in the reply to the word
// `cons`, then OpCodeKind, Quorum, Container and WriteResult. A macro, so that the enumeration and
// the table are made of the same rows: neither can lack an opcode that the other has.
// clang-format off
#define QUORATE_ZK_OPCODES(ROW)                                                                     \
  ROW(kCloseSession, -11, "closeSession", "CLOS", kSession, kNeeded, kNone, kNone)                  \
  ROW(kCreateSession, -10, "createSession", "SESS", kNotServed, kNo, kNone, kNone)                  \
  ROW(kError, -1, "error", "NA", kNotServed, kNo, kNone, kNone)                                     \
  ROW(kNotification, 0, "notification", "NA", kNotServed, kNo, kNone, kNone)                        \
  ROW(kCreate, 1, "create", "CREA", kWrite, kNeeded, kMulti, kPath)                                 \
  ROW(kDelete, 2, "delete", "DELE", kWrite, kNeeded, kMulti, kNone)                                 \
  ROW(kExists, 3, "exists", "EXIS", kRead, kNo, kMultiReadOfKeeper, kNone)                          \
  ROW(kGetData, 4, "getData", "GETD", kRead, kNo, kMultiRead, kNone)                                \
  ROW(kSetData, 5, "setData", "SETD", kWrite, kNeeded, kMulti, kStat)                               \
  ROW(kGetAcl, 6, "getACL", "GETA", kRead, kNo, kNone, kNone)                                       \
  ROW(kSetAcl, 7, "setACL", "SETA", kWrite, kNeeded, kNone, kStat)                                  \
  ROW(kGetChildren, 8, "getChildren", "GETC", kRead, kNo, kMultiRead, kNone)                        \
  ROW(kSync, 9, "sync", "SYNC", kSession, kNeeded, kNone, kNone)                                    \
  ROW(kPing, 11, "ping", "PING", kSession, kNo, kNone, kNone)                                       \
  ROW(kGetChildren2, 12, "getChildren2", "GETC", kRead, kNo, kMultiReadOfKeeper, kNone)             \
  ROW(kCheck, 13, "check", "CHEC", kWrite, kNeeded, kMulti, kNone)                                  \
  ROW(kMulti, 14, "multi", "MULT", kWrite, kNeeded, kNone, kNone)                                   \
  ROW(kCreate2, 15, "create2", "CREA", kWrite, kNeeded, kMulti, kPathStat)                          \
  ROW(kReconfig, 16, "reconfig", "RECO", kSession, kNeeded, kNone, kNone)                           \
  ROW(kCheckWatches, 17, "checkWatches", "CHKW", kWatch, kNo, kNone, kNone)                         \
  ROW(kRemoveWatches, 18, "removeWatches", "REMW", kWatch, kNo, kNone, kNone)                       \
  ROW(kCreateContainer, 19, "createContainer", "CREA", kWrite, kNeeded, kMulti, kPathStat)          \
  ROW(kDeleteContainer, 20, "deleteContainer", "DELE", kWrite, kNeeded, kNone, kNone)               \
  ROW(kCreateTtl, 21, "createTTL", "CREA", kWrite, kNeeded, kMulti, kPathStat)                      \
  ROW(kMultiRead, 22, "multiRead", "MLTR", kRead, kNo, kNone, kNone)                                \
  ROW(kAuth, 100, "auth", "NA", kSession, kNo, kNone, kNone)                                        \
  ROW(kSetWatches, 101, "setWatches", "SETW", kWatch, kNo, kNone, kNone)                            \
  ROW(kSasl, 102, "sasl", "NA", kSession, kNo, kNone, kNone)                                        \
  ROW(kGetEphemerals, 103, "getEphemerals", "GETE", kRead, kNo, kNone, kNone)                       \
  ROW(kGetAllChildrenNumber, 104, "getAllChildrenNumber", "GETACN", kRead, kNo, kNone, kNone)       \
  ROW(kSetWatches2, 105, "setWatches2", "STW2", kWatch, kNo, kNone, kNone)                          \
  ROW(kAddWatch, 106, "addWatch", "ADDW", kWatch, kNo, kNone, kNone)                                \
  ROW(kWhoAmI, 107, "whoAmI", "HOMI", kRead, kNo, kNone, kNone)                                     \
  ROW(kFilteredList, 500, "filteredList", "FLST", kRead, kNo, kMultiReadOfKeeper, kNone)            \
  ROW(kCheckNotExists, 501, "checkNotExists", "CKNE", kWrite, kNeeded, kMulti, kNone)               \
  ROW(kCreateIfNotExists, 502, "createIfNotExists", "CINE", kWrite, kNeeded, kMulti, kPath)         \
  ROW(kRemoveRecursive, 503, "removeRecursive", "RMRC", kWrite, kNeeded, kMulti, kNone)             \
  ROW(kCheckStat, 504, "checkStat", "CKST", kWrite, kNeeded, kMulti, kNone)                         \
  ROW(kTryRemove, 505, "tryRemove", "TRRM", kWrite, kNeeded, kMulti, kNone)                         \
  ROW(kFilteredListDetailed, 506, "filteredListWithStatsAndData", "FLSD", kRead, kNo,               \
      kMultiReadOfKeeper, kNone)                                                                    \
  ROW(kListRecursive, 507, "listRecursive", "LSRC", kRead, kNo, kNone, kNone)
// clang-format on

enum class OpCode : int32_t {
#define QUORATE_ZK_OPCODE(identifier, number, ...) identifier = number,
  QUORATE_ZK_OPCODES(QUORATE_ZK_OPCODE)
#undef QUORATE_ZK_OPCODE
};

struct OpCodeInfo {
  OpCode op;
  std::string_view name;
  std::string_view cons_name;
  OpCodeKind kind;
  Quorum quorum;
  Container container;
  WriteResult write_result;
};

inline constexpr OpCodeInfo kOpCodes[] = {
#define QUORATE_ZK_OPCODE(identifier, number, name, cons_name, kind, quorum, container, result) \
  {OpCode::identifier, name, cons_name, OpCodeKind::kind, Quorum::quorum, Container::container, \
   WriteResult::result},
    QUORATE_ZK_OPCODES(QUORATE_ZK_OPCODE)
#undef QUORATE_ZK_OPCODE
};

// The properties of any number that is not an opcode; `op` is not that number.
inline constexpr OpCodeInfo kUnknownOpCode = {OpCode::kError,         "unknown",   "NA",
                                              OpCodeKind::kNotServed, Quorum::kNo, Container::kNone,
                                              WriteResult::kNone};

inline constexpr int32_t kOpCodeMin =
    static_cast<int32_t>(std::ranges::min(kOpCodes, {}, &OpCodeInfo::op).op);
inline constexpr int32_t kOpCodeMax =
    static_cast<int32_t>(std::ranges::max(kOpCodes, {}, &OpCodeInfo::op).op);

namespace internal {

constexpr size_t OpCodeSlot(OpCode op) {
  return static_cast<size_t>(static_cast<int64_t>(op) - kOpCodeMin);
}

static_assert(std::size(kOpCodes) <= UINT8_MAX);

// The position in kOpCodes of each number from kOpCodeMin on; std::size(kOpCodes) if there is none.
inline constexpr auto kOpCodePositions = [] {
  std::array<uint8_t, OpCodeSlot(OpCode{kOpCodeMax}) + 1> positions{};
  positions.fill(static_cast<uint8_t>(std::size(kOpCodes)));
  for (size_t i = 0; i < std::size(kOpCodes); ++i) {
    positions[OpCodeSlot(kOpCodes[i].op)] = static_cast<uint8_t>(i);
  }
  return positions;
}();

}  // namespace internal

// Returns the position in kOpCodes of `op`, which may be any number that a client sent;
// std::size(kOpCodes) if it is no opcode.
constexpr size_t PositionOf(OpCode op) {
  const size_t slot = internal::OpCodeSlot(op);
  return slot < internal::kOpCodePositions.size() ? internal::kOpCodePositions[slot]
                                                  : std::size(kOpCodes);
}

// Returns the row of `op`, which may be any number that a client sent; kUnknownOpCode if it is no
// opcode.
constexpr const OpCodeInfo& InfoOf(OpCode op) {
  const size_t position = PositionOf(op);
  return position == std::size(kOpCodes) ? kUnknownOpCode : kOpCodes[position];
}

// Returns whether clients may send `op`. The server may still reject it, as it does reconfig unless
// the configuration allows it.
constexpr bool IsServed(OpCode op) { return InfoOf(op).kind != OpCodeKind::kNotServed; }

constexpr bool IsWrite(OpCode op) { return InfoOf(op).kind == OpCodeKind::kWrite; }

// Returns whether the opcode is an extension of ClickHouse Keeper. It is served only if
// Connection::ServesKeeper.
constexpr bool IsOfKeeper(OpCode op) {
  return op >= OpCode::kFilteredList && op <= OpCode::kListRecursive;
}

// Returns whether the operation creates a znode.
constexpr bool IsCreate(OpCode op) {
  const WriteResult result = InfoOf(op).write_result;
  return result == WriteResult::kPath || result == WriteResult::kPathStat;
}

}  // namespace quorate::rpc::zk
