// SPDX-License-Identifier: Apache-2.0

// What the native front end tells the statistics and the record of slow requests about a request.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rpc/proto/quorate/v1/session.pb.h"
#include "rpc/proto/quorate/v1/tree.pb.h"
#include "tree/command.h"

namespace quorate::rpc::native {

// What a request asks for, whether it is a call or a request of a session.
enum class RequestKind : uint8_t {
  kGet,
  kExists,
  kList,
  kListRecursive,
  kGetAcl,
  kCreate,
  kSet,
  kSetAcl,
  kDelete,
  kCheck,
  kCreateIfNotExists,
  kRemoveRecursive,
  kTryRemove,
  kTxn,
  kSync,
  kWatch,
  kUnwatch,
  kAddCredential,
  kWhoAmI,
  kClose,
  kRelease,
  kProclaim,
  kResign,
  kUnknown,
};

// Returns the names of all kinds in metrics and in the record of slow requests, in their order:
// "grpc.get", ...
std::span<const std::string_view> RequestKindNames();

// Returns the kind of a request of a session.
RequestKind KindOf(const v1::Request& request);
// Returns the kind of a write: the kind of its only operation, or kTxn if it has several, branches or a
// read.
RequestKind KindOf(const v1::Request::Write& write);
bool IsWrite(RequestKind kind);
// Returns whether the answer to a write may have what the write reads of the tree.
bool HasReads(const v1::Request::Write& write);
// Returns the path of an operation of a write; empty: it has none.
std::string_view PathOf(const v1::Operation& operation);
// Returns the path of a compare.
inline std::string_view PathOf(const v1::Compare& compare) { return compare.path(); }
// Takes the path out of a request of a session that is no write; empty: it has none.
std::string TakePath(v1::Request* request);

// A request that was answered, or one that is not answered any more.
struct RequestRecord {
  RequestKind kind = RequestKind::kUnknown;
  std::chrono::steady_clock::time_point received;
  // Of a write that was applied: the sequence number and the zxid of its command. 0: of no such write.
  uint64_t sequence = 0;
  tree::Zxid zxid;
  bool waited_for_barrier = false;
  bool was_alone = true;      // when it came, all requests of its stream before it were answered
  bool is_in_pieces = false;  // a read that needed several iterations
  // Of a write: its command, which was applied, and where it begins. Of other requests: the path.
  const std::string* command = nullptr;
  size_t offset = 0;
  std::string_view path;

  // Returns the path; that of the first operation of a write with several.
  std::string_view first_path() const {
    return command == nullptr ? path : tree::FirstPathOf(std::string_view(*command).substr(offset));
  }
};

}  // namespace quorate::rpc::native
