// What a connection answers at once, from the tree and the watches.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/server/config_node.h"
#include "rpc/zk/connection.h"
#include "rpc/zk/connection_loop.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

constexpr int32_t kAddWatchModeMax = 1;  // persistent, persistent and recursive

// The names of a node's children as they are in a reply. They are collected before the reply, whose
// head depends on whether that works out.
class Children {
 public:
  ErrorCode Collect(const tree::Tree& tree, std::string_view path,
                    const std::vector<tree::Identity>& identities, tree::Stat* stat) {
    BigEndianWriter writer(&names_);
    return tree.GetChildren(
        path, identities,
        [&](std::string_view name) {
          writer.String(name);
          ++count_;
        },
        stat);
  }
  void Write(BigEndianWriter& to) const {
    to.Int(count_);
    to.Raw(names_);
  }

 private:
  int32_t count_ = 0;
  std::string names_;
};

}  // namespace

// --- Reads ---------------------------------------------------------------------------------------

void Connection::Read(int32_t xid, OpCode op, std::string_view body) {
  const tree::Tree& tree = loop_->LockTree();
  ReadRequest request;
  if (!DecodeReadRequest(body, op != OpCode::kGetAcl, &request) || !request.has_path) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
  if (op == OpCode::kGetChildren || op == OpCode::kGetChildren2) {
    ReadChildren(xid, op, request);
    return;
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
    CompleteConfigNode(loop_->door().members_text(), request.path, &stat, &data, &has_data);
  // exists leaves a watch for the creation of what is not there.
  if (request.watch &&
      (error == ErrorCode::kOk || (op == OpCode::kExists && error == ErrorCode::kNoNode))) {
    Watch(request.path, tree::WatchKind::kData);
  }
  ReplyWriter reply(&out_, xid, SeenZxid(), error);
  ++packets_sent_;
  if (error != ErrorCode::kOk) return;
  if (op == OpCode::kGetData) WriteData(has_data, data, reply.body());
  if (op == OpCode::kGetAcl) WriteAcl(acl, reply.body());
  WriteStat(stat, reply.body());
}

void Connection::ReadChildren(int32_t xid, OpCode op, const ReadRequest& request) {
  tree::Stat stat;
  Children children;
  const ErrorCode error =
      children.Collect(loop_->LockTree(), request.path, identities_.all(), &stat);
  if (error == ErrorCode::kOk)
    CompleteConfigNode(loop_->door().members_text(), request.path, &stat);
  if (request.watch && error == ErrorCode::kOk) Watch(request.path, tree::WatchKind::kChild);
  ReplyWriter reply(&out_, xid, SeenZxid(), error);
  ++packets_sent_;
  if (error != ErrorCode::kOk) return;
  children.Write(reply.body());
  if (op == OpCode::kGetChildren2) WriteStat(stat, reply.body());
}

void Connection::MultiRead(int32_t xid, std::string_view body) {
  const tree::Tree& tree = loop_->LockTree();
  std::vector<MultiReadItem> items;
  if (!DecodeMultiRead(body, &items)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
  ReplyWriter reply(&out_, xid, SeenZxid(), ErrorCode::kOk);
  ++packets_sent_;
  for (const MultiReadItem& item : items) {
    tree::Stat stat;
    std::string_view data;
    bool has_data = false;
    Children children;
    const bool reads_data = item.op == OpCode::kGetData;
    const ErrorCode error =
        reads_data ? tree.GetData(item.path, identities_.all(), &data, &has_data, &stat)
                   : children.Collect(tree, item.path, identities_.all(), &stat);
    if (error != ErrorCode::kOk) {
      WriteMultiError(error, reply.body());
      continue;
    }
    WriteMultiResultHeader(item.op, reply.body());
    if (reads_data) {
      CompleteConfigNode(loop_->door().members_text(), item.path, &stat, &data, &has_data);
      WriteData(has_data, data, reply.body());
      WriteStat(stat, reply.body());
    } else {
      children.Write(reply.body());
    }
  }
  WriteMultiEnd(reply.body());
}

void Connection::GetEphemerals(int32_t xid, std::string_view body) {
  const tree::Tree& tree = loop_->LockTree();
  ReadRequest request;
  if (!DecodeReadRequest(body, /*has_watch_flag=*/false, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
  const std::vector<std::string> paths = tree.EphemeralsUnder(session_, request.path);
  ReplyWriter reply(&out_, xid, SeenZxid(), ErrorCode::kOk);
  ++packets_sent_;
  reply.body().Int(static_cast<int32_t>(paths.size()));
  for (const std::string& path : paths) reply.body().String(path);
}

void Connection::GetAllChildrenNumber(int32_t xid, std::string_view body) {
  const tree::Tree& tree = loop_->LockTree();
  ReadRequest request;
  if (!DecodeReadRequest(body, /*has_watch_flag=*/false, &request) || !request.has_path) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
  size_t count = 0;
  const ErrorCode error = tree.CountDescendants(request.path, identities_.all(), &count);
  ReplyWriter reply(&out_, xid, SeenZxid(), error);
  ++packets_sent_;
  // ZooKeeper knows the root by two names, and counts the one below the other.
  if (request.path.empty()) ++count;
  if (error == ErrorCode::kOk) reply.body().Int(static_cast<int32_t>(count));
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
  Watches& watches = loop_->door().watches();
  MutexLock lock(&watches.mutex);
  watches.table.Add(tag_, path, kind);
}

void Connection::SetWatches(int32_t xid, OpCode op, std::string_view body) {
  const tree::Tree& tree = loop_->LockTree();
  SetWatchesRequest request;
  if (!DecodeSetWatches(op, body, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
  // What has changed while the client was away is told now, the rest is watched again. Such events
  // carry no zxid: they stand for any number of changes.
  constexpr tree::Zxid kNone{-1};
  const tree::Zxid since(request.relative_zxid);
  tree::Stat stat;
  for (std::string_view path : request.data_watches) {
    if (!tree.FindStat(path, &stat)) {
      AppendNotification(tree::EventType::kNodeDeleted, path, kNone, &out_);
    } else if (stat.mzxid > since) {
      AppendNotification(tree::EventType::kNodeDataChanged, path, kNone, &out_);
    } else {
      Watch(path, tree::WatchKind::kData);
    }
  }
  for (std::string_view path : request.exist_watches) {
    if (tree.FindStat(path, &stat)) {
      AppendNotification(tree::EventType::kNodeCreated, path, kNone, &out_);
    } else {
      Watch(path, tree::WatchKind::kData);
    }
  }
  for (std::string_view path : request.child_watches) {
    if (!tree.FindStat(path, &stat)) {
      AppendNotification(tree::EventType::kNodeDeleted, path, kNone, &out_);
    } else if (stat.pzxid > since) {
      AppendNotification(tree::EventType::kNodeChildrenChanged, path, kNone, &out_);
    } else {
      Watch(path, tree::WatchKind::kChild);
    }
  }
  // What these have missed is not told: it could be anything.
  for (std::string_view path : request.persistent_watches) {
    Watch(path, tree::WatchKind::kPersistent);
  }
  for (std::string_view path : request.persistent_recursive_watches) {
    Watch(path, tree::WatchKind::kPersistentRecursive);
  }
  ReplyError(xid, ErrorCode::kOk);
}

void Connection::AddWatch(int32_t xid, std::string_view body) {
  loop_->LockTree();
  WatchRequest request;
  if (!DecodeWatchRequest(body, &request) || !request.has_path || request.mode_or_type < 0 ||
      request.mode_or_type > kAddWatchModeMax) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return;
  }
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
  Watches& watches = loop_->door().watches();
  bool found = false;
  if (request.has_path) {
    MutexLock lock(&watches.mutex);
    found = op == OpCode::kRemoveWatches ? watches.table.Remove(tag_, request.path, type)
                                         : watches.table.Contains(tag_, request.path, type);
  }
  ReplyError(xid, found ? ErrorCode::kOk : ErrorCode::kNoWatcher);
}

}  // namespace quorate::rpc::zk
