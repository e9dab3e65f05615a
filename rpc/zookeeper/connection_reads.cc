// SPDX-License-Identifier: Apache-2.0

// The requests that a connection answers at once, from the tree and the watches.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/seeded_bug.h"
#include "rpc/frontend/config_node.h"
#include "rpc/frontend/listing.h"
#include "rpc/zookeeper/connection.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/keeper_nodes.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

constexpr tree::Zxid kNoZxid{-1};        // of the reply to an unknown opcode
constexpr int32_t kAddWatchModeMax = 1;  // persistent, persistent and recursive

}  // namespace

bool Connection::ServesKeeper() const {
  return loop_->frontend().config().keeper_extensions &&
         (loop_->frontend().service().cluster_version() >= tree::kVersionKeeper ||
          SeededBug("commands of Keeper before their version"));
}

bool Connection::IsVirtual(std::string_view path) const {
  return IsKeeperPath(path) && ServesKeeper();
}

void Connection::ReplyVirtual(int32_t xid, OpCode op, std::string_view path,
                              const ListDetails& details) {
  std::string body;
  BigEndianWriter writer(&body);
  const ErrorCode error = WriteKeeperNode(op, path, details, writer);
  ReplyWriter reply(&out_, xid, SeenZxid(), error);
  ++packets_sent_;
  if (error != ErrorCode::kOk) return;
  reply.body().Raw(body);
  expects_keeper_ |= op == OpCode::kGetData;
}

size_t Connection::ReplyBytesMax() const {
  return static_cast<size_t>(loop_->frontend().config().max_reply_bytes);
}

absl::StatusOr<Connection::Progress> Connection::AnswerNow(int32_t xid, OpCode op,
                                                           std::string_view body) {
  if (!IsServed(op) || (IsOfKeeper(op) && !ServesKeeper())) {
    // As in ZooKeeper, the client gets an error, and loses its connection but not its session.
    ReplyWriter(&out_, xid, kNoZxid, ErrorCode::kUnimplemented).body();
    ++packets_sent_;
    return absl::UnimplementedError(
        absl::StrCat("operation ", static_cast<int32_t>(op), " is not one that is served"));
  }
  if (op == OpCode::kSasl) {
    // A mechanism may take long, and needs no tree.
    loop_->UnlockTree();
    if (absl::Status problem = OnSasl(xid, body); !problem.ok()) return problem;
    return Progress::kAnswered;
  }
  // LockTree delivers the results and events of everything applied. It may finish this connection,
  // because the server has skipped events. An answer would then have a zxid after the skipped
  // events. The client sets its watches again with the last zxid that it has seen, and would never
  // receive those events.
  loop_->LockTree();
  if (state_ == State::kFinished) return Progress::kMustWait;
  switch (op) {
    case OpCode::kExists:
    case OpCode::kGetData:
    case OpCode::kGetAcl:
    case OpCode::kGetChildren:
    case OpCode::kGetChildren2:
      return Read(xid, op, body);
    case OpCode::kMultiRead:
      return ReadMany(xid, body);
    case OpCode::kGetEphemerals:
      return GetEphemerals(xid, body);
    case OpCode::kGetAllChildrenNumber:
      return GetAllChildrenNumber(xid, body);
    case OpCode::kFilteredList:
    case OpCode::kFilteredListDetailed:
      return ReadFilteredList(xid, op, body);
    case OpCode::kListRecursive:
      return ListRecursive(xid, body);
    case OpCode::kWhoAmI:
      WhoAmI(xid);
      break;
    case OpCode::kSetWatches:
    case OpCode::kSetWatches2:
      return SetWatches(xid, op, body);
    case OpCode::kAddWatch:
      AddWatch(xid, body);
      break;
    case OpCode::kCheckWatches:
    case OpCode::kRemoveWatches:
      CheckOrRemoveWatches(xid, op, body);
      break;
    case OpCode::kReconfig:  // StartReconfig
    case OpCode::kSync:
      ReplyError(xid, ErrorCode::kMarshallingError);  // the request did not decode
      break;
    case OpCode::kNotification:
    case OpCode::kCreateSession:
    case OpCode::kError:
    case OpCode::kPing:
    case OpCode::kAuth:
    case OpCode::kSasl:
    case OpCode::kCloseSession:
    case OpCode::kCreate:
    case OpCode::kCreate2:
    case OpCode::kCreateContainer:
    case OpCode::kCreateTtl:
    case OpCode::kDelete:
    case OpCode::kDeleteContainer:
    case OpCode::kSetData:
    case OpCode::kSetAcl:
    case OpCode::kCheck:
    case OpCode::kMulti:
    case OpCode::kCheckNotExists:
    case OpCode::kCreateIfNotExists:
    case OpCode::kRemoveRecursive:
    case OpCode::kCheckStat:
    case OpCode::kTryRemove:
      ASSERT(false, "answered elsewhere");
  }
  return Progress::kAnswered;
}

// --- Reads ---------------------------------------------------------------------------------------

Connection::Progress Connection::Read(int32_t xid, OpCode op, std::string_view body) {
  const tree::Tree& tree = loop_->LockTree();
  ReadRequest request;
  if (!DecodeReadRequest(body, op != OpCode::kGetAcl, &request) || !request.has_path) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return Progress::kAnswered;
  }
  if (!paths_.ToTree(&request.path)) {
    ReplyError(xid, ErrorCode::kBadArguments);
    return Progress::kAnswered;
  }
  if (IsVirtual(request.path)) {
    ReplyVirtual(xid, op, request.path, {});
    return Progress::kAnswered;
  }
  if (request.watch && !MayWatch(xid)) return Progress::kAnswered;
  if (op == OpCode::kGetChildren || op == OpCode::kGetChildren2) {
    return ReadChildren(xid, op, request);
  }
  tree::Stat stat;
  std::string_view data;
  bool has_data = false;
  std::vector<tree::Acl> acl;
  ErrorCode error;
  if (op == OpCode::kExists) {
    error = tree.Exists(request.path, &stat);
  } else if (op == OpCode::kGetData) {
    error = tree.GetData(request.path, identities_.all(), &data, &has_data, &stat);
  } else {
    error = tree.GetAcl(request.path, identities_.all(), &acl, &stat);
  }
  if (error == ErrorCode::kOk)
    CompleteConfigNode(loop_->frontend().members_text(), request.path, &stat, &data, &has_data);
  // exists sets a watch on a missing znode too, which fires when the znode is created.
  if (request.watch &&
      (error == ErrorCode::kOk || (op == OpCode::kExists && error == ErrorCode::kNoNode))) {
    Watch(request.path, tree::WatchKind::kData);
  }
  ReplyWriter reply(&out_, xid, SeenZxid(), error);
  ++packets_sent_;
  loop_->Spend(1 + data.size() / kBytesPerNode + acl.size() +
               identities_.all().size() / kIdentitiesPerNode);
  if (error != ErrorCode::kOk) return Progress::kAnswered;
  if (op == OpCode::kGetData) WriteData(has_data, data, reply.body());
  if (op == OpCode::kGetAcl) WriteAcl(acl, reply.body());
  WriteStat(stat, reply.body());
  return Progress::kAnswered;
}

void Connection::WhoAmI(int32_t xid) {
  loop_->LockTree();
  ReplyWriter reply(&out_, xid, SeenZxid(), ErrorCode::kOk);
  ++packets_sent_;
  const std::span<const tree::Identity> identities = identities_.shown();
  reply.body().Int(static_cast<int32_t>(identities.size()));
  for (const tree::Identity& identity : identities) {
    reply.body().String(identity.scheme);
    reply.body().String(ClientIdentities::ShownId(identity));
  }
}

// --- Watches -------------------------------------------------------------------------------------

void Connection::Watch(std::string_view path, tree::WatchKind kind) {
  Watches& watches = loop_->frontend().watches();
  MutexLock lock(&watches.mutex);
  watches.table.Add(tag_, path, kind);
  tenants_.SetWatches(watches.table.CountOf(tag_));
}

void Connection::AddWatch(int32_t xid, std::string_view body) {
  loop_->LockTree();
  WatchRequest request;
  if (!DecodeWatchRequest(body, &request) || !request.has_path || request.mode_or_type < 0 ||
      request.mode_or_type > kAddWatchModeMax) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
  if (!paths_.ToTree(&request.path)) return ReplyError(xid, ErrorCode::kBadArguments);
  if (!MayWatch(xid)) return;
  Watch(request.path, request.mode_or_type == 0 ? tree::WatchKind::kPersistent
                                                : tree::WatchKind::kPersistentRecursive);
  ReplyWriter reply(&out_, xid, SeenZxid(), ErrorCode::kOk);
  ++packets_sent_;
  reply.body().Int(static_cast<int32_t>(ErrorCode::kOk));
}

void Connection::CheckOrRemoveWatches(int32_t xid, OpCode op, std::string_view body) {
  loop_->LockTree();
  WatchRequest request;
  const bool decodes = DecodeWatchRequest(body, &request);
  const auto type = static_cast<tree::WatcherType>(request.mode_or_type);
  if (!decodes || type < tree::WatcherType::kChildren ||
      type > tree::WatcherType::kPersistentRecursive ||
      (!request.has_path && op == OpCode::kCheckWatches)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
  Watches& watches = loop_->frontend().watches();
  bool found = false;
  if (request.has_path && paths_.ToTree(&request.path)) {
    MutexLock lock(&watches.mutex);
    found = op == OpCode::kRemoveWatches ? watches.table.Remove(tag_, request.path, type)
                                         : watches.table.Contains(tag_, request.path, type);
    tenants_.SetWatches(watches.table.CountOf(tag_));
  }
  ReplyError(xid, found ? ErrorCode::kOk : ErrorCode::kNoWatcher);
}

}  // namespace quorate::rpc::zk
