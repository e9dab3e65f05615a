// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "tree/acl.h"
#include "tree/digest.h"
#include "tree/limits.h"
#include "tree/path.h"
#include "tree/sequence.h"
#include "tree/tree.h"
#include "tree/tree_impl.h"

namespace quorate::tree {
namespace {

bool IsSequential(CreateMode mode) {
  return mode == CreateMode::kPersistentSequential || mode == CreateMode::kEphemeralSequential ||
         mode == CreateMode::kPersistentSequentialWithTtl;
}

bool IsEphemeral(CreateMode mode) {
  return mode == CreateMode::kEphemeral || mode == CreateMode::kEphemeralSequential;
}

// Sets `*owner` for a new node (tree/node_kind.h). Returns false if operation, mode and TTL do not
// form a valid combination, or if an ephemeral node would have no session.
bool FindOwner(const Op& op, SessionId session, SessionId* owner) {
  if (!IsValidCreate(op)) return false;
  const bool is_ttl = op.kind == OpKind::kCreateTtl;
  *owner = is_ttl                                ? TtlOwner(op.ttl_ms)
           : op.kind == OpKind::kCreateContainer ? kContainerOwner
           : IsEphemeral(op.mode)                ? session
                                                 : kNoSession;
  const bool is_ephemeral =
      (op.kind == OpKind::kCreate || op.kind == OpKind::kCreateIfNotExists) && IsEphemeral(op.mode);
  return !is_ephemeral || session != kNoSession;
}

// The path under which ClickHouse Keeper keeps its own znodes.
constexpr std::string_view kKeeperPath = "/keeper";

// The znode that shows the members of the cluster, and the version that it has in ZooKeeper whatever
// changes its data.
constexpr std::string_view kConfigPath = "/zookeeper/config";
constexpr int32_t kConfigVersion = -1;

bool IsSystemPath(std::string_view path) {
  return path == "/" || path == "/zookeeper" || path == "/zookeeper/quota" || path == kConfigPath;
}

// Makes the check that ZooKeeper makes before it looks up the parent. For other illegal paths, the
// lookup of the parent fails.
bool HasParent(std::string_view path) {
  return path.find('/') != std::string_view::npos && path.find('\0') == std::string_view::npos;
}

bool VersionDiffers(int32_t expected, int32_t actual) {
  return expected != kAnyVersion && expected != actual;
}

// Returns whether each field of `expected` is -1 or equals that of `actual`.
bool StatMatches(const Stat& expected, const Stat& actual) {
  const auto matches = [&](auto field) {
    using Field = std::remove_cvref_t<decltype(expected.*field)>;
    return expected.*field == Field(-1) || expected.*field == actual.*field;
  };
  return matches(&Stat::czxid) && matches(&Stat::mzxid) && matches(&Stat::ctime_ms) &&
         matches(&Stat::mtime_ms) && matches(&Stat::version) && matches(&Stat::cversion) &&
         matches(&Stat::aversion) && matches(&Stat::ephemeral_owner) &&
         matches(&Stat::data_length) && matches(&Stat::num_children) && matches(&Stat::pzxid);
}

int32_t NextVersion(int32_t version) {
  return static_cast<int32_t>(static_cast<uint32_t>(version) + 1);
}

}  // namespace

void Tree::Impl::Apply(Zxid zxid, std::string_view command, const Proposer& self,
                       ApplyListener* listener) {
  ASSERT(zxid > last_zxid_, "each zxid is applied once, in order");
  ASSERT(listener != nullptr);
  const absl::StatusOr<CommandHeader> header = DecodeHeader(command);
  ASSERT(header.ok(), "a committed command decodes, or memory or log is damaged");
  last_zxid_ = zxid;
  created_ = 0;
  if (!dedup_table_.Accept(header->proposer, header->sequence, &totals_.digest)) return;
  AdvanceTime(*header, listener);

  ApplyResult result;
  result.zxid = zxid;
  result.header = *header;
  const bool wanted = header->proposer == self;
  switch (header->kind) {
    case CommandKind::kCreateSession:
    case CommandKind::kAttachSession:
      ApplyOpenSession(*header, command, zxid, listener, &result);
      break;
    case CommandKind::kCloseSession:
    case CommandKind::kExpireSession:
      ApplyEndSession(*header, zxid, listener, &result);
      break;
    case CommandKind::kRequest:
      ApplyRequest(*header, command, zxid, wanted, listener, &result);
      break;
    case CommandKind::kSequencedRequest:
      ApplySequencedRequest(*header, command, zxid, wanted, listener, &result);
      break;
    case CommandKind::kDeleteContainer:
      ApplyDeleteContainer(command, zxid, listener, &result);
      break;
  }
  if (wanted) listener->OnResult(std::move(result));
}

void Tree::Impl::ApplyOpenSession(const CommandHeader& header, std::string_view command, Zxid zxid,
                                  ApplyListener* listener, ApplyResult* result) {
  const absl::StatusOr<SessionBody> body = DecodeSessionBody(command);
  ASSERT(body.ok(), "a committed command decodes, or memory or log is damaged");
  Session* session = sessions_.Find(header.session);
  if (session == nullptr && header.kind == CommandKind::kCreateSession) {
    changes_.BeforeSessionChange(header.session);
    session = sessions_.Add(header.session, std::string(body->password));
  } else if (session == nullptr || session->password != body->password) {
    result->error = ErrorCode::kSessionExpired;
    return;
  } else {
    changes_.BeforeSessionChange(header.session);
    totals_.digest -= session->Hash();
  }
  // A session that its client creates twice is attached by the second command.
  session->timeout_ms = body->timeout_ms;
  session->attach_zxid = zxid;
  session->member = header.proposer.member;
  totals_.digest += session->Hash();
  result->timeout_ms = session->timeout_ms;
  result->session_ephemerals = session->ephemeral_count;
  listener->OnSessionAttached(ToInfo(*session));
}

void Tree::Impl::ApplyEndSession(const CommandHeader& header, Zxid zxid, ApplyListener* listener,
                                 ApplyResult* result) {
  Session* session = sessions_.Find(header.session);
  if (session == nullptr) {
    result->error = ErrorCode::kSessionExpired;
    return;
  }
  const bool any_attachment =
      header.kind == CommandKind::kCloseSession && header.attach_zxid == Zxid(0);
  if (!any_attachment && header.attach_zxid != session->attach_zxid) {
    result->error = ErrorCode::kSessionMoved;
    return;
  }
  changes_acls_ = false;
  while (session->first != nullptr) {
    Znode* node = session->first;
    const std::string path = node->Path();
    const int64_t bytes = node->data.size();
    Detach(node, zxid);
    UpdateQuota(path, -bytes, -1);
    TellEvent({EventType::kNodeDeleted, path, node}, path, zxid, listener);
    Commit();
  }
  totals_.digest -= session->Hash();
  changes_.BeforeSessionChange(header.session);
  if (session->answers != nullptr) answer_bytes_ -= session->answers->memory_bytes();
  sessions_.Remove(session);
  changes_.OnSessionRemoved(header.session);
  listener->OnSessionClosed(header.session, zxid);
}

void Tree::Impl::ApplyDeleteContainer(std::string_view command, Zxid zxid, ApplyListener* listener,
                                      ApplyResult* result) {
  const absl::StatusOr<std::string_view> path = DecodeDeleteContainer(command);
  ASSERT(path.ok(), "a committed command decodes, or memory or log is damaged");
  Znode* node = Lookup(*path);
  // The node may have changed since the leader proposed the command: only its present state counts.
  if (node == nullptr) {
    result->error = ErrorCode::kNoNode;
  } else if (!ExpiryIndex::IsExpired(*node, ttls_are_held() ? kContainersOnlyMs : time_ms_)) {
    result->error = ErrorCode::kNotEmpty;
  } else {
    changes_acls_ = false;
    const int64_t bytes = node->data.size();
    Detach(node, zxid);
    UpdateQuota(*path, -bytes, -1);
    TellEvent({EventType::kNodeDeleted, *path, node}, *path, zxid, listener);
    Commit();
  }
}

void Tree::Impl::ApplyRequest(const CommandHeader& header, std::string_view command, Zxid zxid,
                              bool wanted, ApplyListener* listener, ApplyResult* result) {
  const absl::StatusOr<Request> request = DecodeRequest(command);
  ASSERT(request.ok(), "a committed command decodes, or memory or log is damaged");
  Session* session = nullptr;
  result->error = FindAttached(header, &session);
  if (result->error != ErrorCode::kOk) return;
  const Context context{zxid,
                        session,
                        request->identities,
                        request->enforces_quota,
                        wanted ? listener : nullptr,
                        /*is_local=*/session == nullptr && header.session != kNoSession};
  if (TryOps(*request, context, &result->branch, wanted ? &result->ops : nullptr)) {
    CommitRequest(zxid, listener);
  }
  CountVisits(*request);
  if (session != nullptr) result->session_ephemerals = session->ephemeral_count;
}

ErrorCode Tree::Impl::FindAttached(const CommandHeader& header, Session** session) {
  if (header.session == kNoSession && header.attach_zxid == Zxid(0)) return ErrorCode::kOk;
  *session = sessions_.Find(header.session);
  if (*session == nullptr) {
    const bool is_local = header.kind == CommandKind::kRequest && header.attach_zxid == Zxid(0);
    return is_local ? ErrorCode::kOk : ErrorCode::kSessionExpired;
  }
  const bool attached = (*session)->attach_zxid == header.attach_zxid;
  return attached ? ErrorCode::kOk : ErrorCode::kSessionMoved;
}

bool Tree::Impl::TryOps(const Request& request, const Context& context, Branch* branch,
                        std::vector<OpResult>* results) {
  ASSERT(undo_.empty(), "the previous request was committed or rolled back");
  events_.clear();
  changes_acls_ = false;
  numbered_paths_.clear();
  recursive_nodes_ = 0;
  recursive_path_bytes_ = 0;
  listed_nodes_ = 0;
  read_cost_ = 0;
  *branch = Branch::kNone;
  if (request.has_branches) {
    size_t place = 0;
    ErrorCode error = ErrorCode::kOk;
    *branch = MakeCompares(request, context.identities, &place, &error);
    if (*branch == Branch::kCompares) {
      if (results == nullptr) return false;
      results->resize(request.compares.size());
      SetFailed(error, place, *results);
      return false;
    }
  }
  const Totals before = totals_;
  const std::span<const Op> ops = OpsOf(request, *branch);
  if (results != nullptr) results->assign(ops.size(), OpResult{});
  for (size_t i = 0; i < ops.size(); ++i) {
    const ErrorCode error = ApplyOp(ops[i], context, results == nullptr ? nullptr : &(*results)[i]);
    if (error == ErrorCode::kOk) continue;
    Rollback(before);
    if (results != nullptr) SetFailed(error, i, *results);
    return false;
  }
  return true;
}

void Tree::Impl::CountVisits(const Request& request) {
  // Listed nodes are part of the cost of reads.
  visited_nodes_ += request.compares.size() + recursive_nodes_ + read_cost_ / kReadChildCost;
}

void Tree::Impl::CommitRequest(Zxid zxid, ApplyListener* listener) {
  for (const Event& event : events_) {
    const std::string path = event.path.empty() ? event.node->Path() : std::string();
    TellEvent(event, event.path.empty() ? path : event.path, zxid, listener);
  }
  Commit();
}

void Tree::Impl::TellEvent(const Event& event, std::string_view path, Zxid zxid,
                           ApplyListener* listener) {
  // The values outlive the call of OnNodeEvent.
  EventValues values;
  if (listener->WantsNodeValues()) {
    values = ValuesOf(event, changes_acls_);
    listener->OnNodeValues(values);
  }
  listener->OnNodeEvent(event.type, path, zxid, AclsOf(*event.node));
}

EventValues Tree::Impl::ValuesOf(const Event& event, bool changes_acls) {
  EventValues values;
  values.changes_acls = changes_acls;
  if (event.type == EventType::kNodeDeleted) {
    values.previous = event.node->data.view();
  } else {
    values.value = event.node->data.view();
  }
  if (event.previous != nullptr) values.previous = event.previous->view();
  return values;
}

ErrorCode Tree::Impl::ApplyOp(const Op& op, const Context& context, OpResult* result) {
  switch (op.kind) {
    case OpKind::kCreate:
    case OpKind::kCreateContainer:
    case OpKind::kCreateTtl:
    case OpKind::kCreateIfNotExists:
      return Create(op, context, result);
    case OpKind::kDelete:
      return Delete(op, context);
    case OpKind::kDeleteRecursive:
      return DeleteRecursive(op, context, result);
    case OpKind::kSetData:
      return SetData(op, context, result);
    case OpKind::kCheck:
      return CheckVersion(op, context);
    case OpKind::kCheckAbsent:
      return CheckAbsent(op);
    case OpKind::kCheckCreated:
      return CheckCreated(op);
    case OpKind::kRefused:
      return op.refusal;
    case OpKind::kCheckNotExists:
      return CheckNotExists(op, context);
    case OpKind::kRemoveSubtree:
      return RemoveSubtree(op, context, result);
    case OpKind::kCheckStat:
      return CheckStat(op, context);
    case OpKind::kTryDelete:
      return TryDelete(op, context, result);
    case OpKind::kSetAcl:
      return SetAcl(op, context, result);
    case OpKind::kGet:
    case OpKind::kExists:
    case OpKind::kGetChildren:
      return Read(op, context, result);
  }
  ASSERT(false, "unknown kind of operation: decoding refuses it");
}

std::string_view Tree::Impl::NumberedPath(const Op& op, const Znode& parent) {
  if (!IsSequential(op.mode)) return op.path;
  std::string& path = numbered_paths_.emplace_back(op.path);
  AppendSequence(parent.created_children(), &path);
  return path;
}

bool Tree::Impl::ResolveOpAcl(const Op& op, const Context& context) {
  resolved_acl_id_.reset();
  if (!IsOpenAcl(op.acl)) return ResolveAcl(op.acl, context.identities, &resolved_acl_);
  resolved_acl_.assign(op.acl.begin(), op.acl.end());
  return true;
}

ErrorCode Tree::Impl::Create(const Op& op, const Context& context, OpResult* result) {
  if (context.is_local && IsEphemeral(op.mode)) return ErrorCode::kEphemeralOnLocalSession;
  SessionId owner;
  const SessionId session = context.session == nullptr ? kNoSession : context.session->id;
  if (!FindOwner(op, session, &owner) || !HasParent(op.path)) {
    return ErrorCode::kBadArguments;
  }
  if (!ResolveOpAcl(op, context)) return ErrorCode::kInvalidAcl;
  Znode* parent = nullptr;
  bool parent_is_new = false;
  if (op.with_parents) {
    if (!IsValidPath(op.path, IsSequential(op.mode))) return ErrorCode::kBadArguments;
    const size_t before = recursive_nodes_;
    const ErrorCode error = AddParents(op, context, &parent, &parent_is_new);
    if (error != ErrorCode::kOk) return error;
    if (result != nullptr) result->added_parents = recursive_nodes_ - before;
  } else {
    parent = Lookup(op.path.substr(0, op.path.rfind('/')));
    if (parent == nullptr) return ErrorCode::kNoNode;
  }
  if (!parent_is_new && !IsPermitted(*parent, context.identities, permission::kCreate)) {
    return ErrorCode::kNoAuth;
  }
  const std::string_view path = NumberedPath(op, *parent);
  if (!IsValidPath(path)) return ErrorCode::kBadArguments;
  if (path == "/" || parent->children().Find(LastSegment(path)) != nullptr) {
    if (op.kind != OpKind::kCreateIfNotExists) return ErrorCode::kNodeExists;
    if (result != nullptr) result->path = path;
    return ErrorCode::kOk;
  }
  if (parent->is_ephemeral()) return ErrorCode::kNoChildrenForEphemerals;
  return AddNode(parent, path, owner, op, context, result);
}

ErrorCode Tree::Impl::AddNode(Znode* parent, std::string_view path, SessionId owner, const Op& op,
                              const Context& context, OpResult* result) {
  const int64_t bytes = static_cast<int64_t>(op.data.size());
  if (const ErrorCode error = CheckQuota(path, bytes, 1, context); error != ErrorCode::kOk) {
    return error;
  }

  Znode* node = Attach(parent, path, owner, op, context);
  events_.push_back(Event{EventType::kNodeCreated, path, node});
  if (result != nullptr) {
    result->path = path;
    result->stat = node->ToStat();
  }
  // The response has the stat of the created node. If the node has the statistics of a quota, its
  // data changes only after that.
  if (node->name() == kStatsName) CountQuota(node, path);
  UpdateQuota(path, bytes, 1);
  return ErrorCode::kOk;
}

Znode* Tree::Impl::Attach(Znode* parent, std::string_view path, SessionId owner, const Op& op,
                          const Context& context) {
  Znode* node = Znode::New(&memory_, parent, LastSegment(path), owner);
  node->data.Set(&memory_, op.has_data, op.data);
  if (resolved_acl_id_.has_value()) {
    acls_.Ref(*resolved_acl_id_);
  } else {
    resolved_acl_id_ = acls_.Ref(resolved_acl_);
  }
  node->acl_id = *resolved_acl_id_;
  node->czxid = node->mzxid = context.zxid;
  node->SetPzxid(&memory_, context.zxid);
  node->ctime_ms = node->mtime_ms = time_ms_;
  node->content_hash = HashContent(path, node->data);
  node->ordinal = created_++;
  changes_.BeforeNodeChange(parent);
  changes_.OnNodeCreated(node);

  Undo& undo = undo_.emplace_back();
  undo.kind = OpKind::kCreate;
  undo.node = node;
  undo.pzxid = parent->pzxid();
  undo.created_children = parent->created_children();

  RemoveFromDigest(*parent);
  expiry_.Remove(*parent);
  ZnodeExtra& of_parent = parent->Extend(&memory_);
  of_parent.children.Insert(node);
  of_parent.created_children = NextVersion(of_parent.created_children);
  of_parent.pzxid = context.zxid;
  AddToDigest(*parent);
  AddToDigest(*node);
  expiry_.Add(*node);
  RecordQuotaNode(*node, true);
  ++totals_.nodes;
  totals_.data_bytes += node->name_length + node->data.size();
  if (node->is_ephemeral()) {
    context.session->Link(node);
    ++totals_.ephemerals;
  }
  return node;
}

ErrorCode Tree::Impl::FindDeleteTarget(const Op& op, const Context& context, Znode** node) {
  if (!HasParent(op.path) || IsSystemPath(op.path)) return ErrorCode::kBadArguments;
  const size_t slash = op.path.rfind('/');
  const std::string_view parent_path = op.path.substr(0, slash);
  const Znode* parent = Lookup(parent_path);
  if (parent == nullptr) return ErrorCode::kNoNode;
  if (!IsPermitted(*parent, context.identities, permission::kDelete)) return ErrorCode::kNoAuth;
  // By its path, the parent of "//a" is the root. But "//a" does not exist.
  if (parent_path == "/") return ErrorCode::kNoNode;
  *node = parent->children().Find(op.path.substr(slash + 1));
  if (*node == nullptr) return ErrorCode::kNoNode;
  if (op.kind == OpKind::kTryDelete && SeededBug("tryRemove ignores the version")) {
    return ErrorCode::kOk;
  }
  return VersionDiffers(op.version, (*node)->version) ? ErrorCode::kBadVersion : ErrorCode::kOk;
}

ErrorCode Tree::Impl::Delete(const Op& op, const Context& context) {
  Znode* node = nullptr;
  if (const ErrorCode error = FindDeleteTarget(op, context, &node); error != ErrorCode::kOk)
    return error;
  if (!node->children().empty()) return ErrorCode::kNotEmpty;

  const int64_t bytes = node->data.size();
  Detach(node, context.zxid);
  UpdateQuota(op.path, -bytes, -1);
  events_.push_back(Event{EventType::kNodeDeleted, op.path, node});
  return ErrorCode::kOk;
}

ErrorCode Tree::Impl::DeleteRecursive(const Op& op, const Context& context, OpResult* result) {
  Znode* top = nullptr;
  if (const ErrorCode error = FindDeleteTarget(op, context, &top); error != ErrorCode::kOk)
    return error;
  if (!CollectSubtree(top, op.path.size(), kDeleteRecursiveMax)) return ErrorCode::kTooLarge;
  for (const Znode* node : subtree_) {
    if (node->children().empty()) continue;
    if (!IsPermitted(*node, context.identities, permission::kDelete)) return ErrorCode::kNoAuth;
  }
  DetachSubtree(context, result);
  return ErrorCode::kOk;
}

ErrorCode Tree::Impl::RemoveSubtree(const Op& op, const Context& context, OpResult* result) {
  if (!IsValidPath(op.path) || op.path == kKeeperPath) return ErrorCode::kBadArguments;
  Znode* top = nullptr;
  const ErrorCode error = FindDeleteTarget(op, context, &top);
  if (error == ErrorCode::kNoNode) return ErrorCode::kOk;
  if (error != ErrorCode::kOk) return error;
  // ClickHouse knows no error for a subtree that is too large for one request.
  if (!CollectSubtree(top, op.path.size(), op.limit)) return ErrorCode::kNotEmpty;
  for (const Znode* node : subtree_) {
    if (!IsPermitted(*node, context.identities, permission::kDelete)) return ErrorCode::kNoAuth;
  }
  if (SeededBug("removeRecursive leaves a node")) subtree_.pop_back();
  DetachSubtree(context, result);
  return ErrorCode::kOk;
}

ErrorCode Tree::Impl::TryDelete(const Op& op, const Context& context, OpResult* result) {
  if (!IsValidPath(op.path)) return ErrorCode::kBadArguments;
  const ErrorCode error = Delete(op, context);
  if (error == ErrorCode::kOk && result != nullptr) result->removed = 1;
  const bool has_no_effect = error == ErrorCode::kNoNode || error == ErrorCode::kBadVersion ||
                             error == ErrorCode::kNotEmpty;
  return has_no_effect ? ErrorCode::kOk : error;
}

void Tree::Impl::DetachSubtree(const Context& context, OpResult* result) {
  for (Znode* node : subtree_) {
    const int64_t bytes = node->data.size();
    Detach(node, context.zxid);
    if (!quotas_.empty()) UpdateQuota(node->Path(), -bytes, -1);
    // The path is built only when the event is sent: all paths at once would take much memory.
    events_.push_back(Event{EventType::kNodeDeleted, {}, node});
  }
  if (result != nullptr) result->removed = subtree_.size();
}

bool Tree::Impl::CollectSubtree(Znode* top, size_t path_bytes, size_t nodes_max) {
  // Collects each node after its parent, and children from the last name to the first; the list is
  // reversed at the end, so that children come first and in the order of their names.
  struct Left {
    Znode* node;
    size_t path_bytes;
  };
  std::vector<Left> left = {{top, path_bytes}};
  subtree_.clear();
  while (!left.empty()) {
    const Left at = left.back();
    left.pop_back();
    subtree_.push_back(at.node);
    ++recursive_nodes_;
    recursive_path_bytes_ += at.path_bytes;
    const ChildSet& children = at.node->children();
    // Counts nodes that are still to be visited too: a node can have millions of children.
    const size_t unvisited = left.size() + children.size();
    if (subtree_.size() + unvisited > nodes_max || VisitsTooMany(unvisited) ||
        recursive_path_bytes_ > kDeleteRecursivePathBytesMax) {
      return false;
    }
    const size_t first = left.size();
    children.ForEach([&](Znode* child) {
      left.push_back({child, at.path_bytes + 1 + child->name_length});
    });
    std::sort(left.begin() + static_cast<ptrdiff_t>(first), left.end(),
              [](const Left& a, const Left& b) { return a.node->name() < b.node->name(); });
  }
  std::reverse(subtree_.begin(), subtree_.end());
  return true;
}

void Tree::Impl::Detach(Znode* node, Zxid zxid) {
  Znode* parent = node->parent;
  ASSERT(parent != nullptr, "the root is never deleted");
  ASSERT(node->children().empty(), "only a leaf is deleted");
  changes_.BeforeNodeChange(node);
  changes_.BeforeNodeChange(parent);
  Undo& undo = undo_.emplace_back();
  undo.kind = OpKind::kDelete;
  undo.node = node;
  undo.pzxid = parent->pzxid();
  undo.created_children = parent->created_children();

  RemoveFromDigest(*node);
  RemoveFromDigest(*parent);
  ZnodeExtra& of_parent = parent->Extend(&memory_);
  of_parent.children.Erase(node);
  of_parent.pzxid = zxid;
  AddToDigest(*parent);
  expiry_.Remove(*node);
  expiry_.Add(*parent);
  RecordQuotaNode(*node, false);
  --totals_.nodes;
  totals_.data_bytes -= node->name_length + node->data.size();
  if (node->is_ephemeral()) {
    Session* owner = sessions_.Find(node->owner());
    ASSERT(owner != nullptr, "an ephemeral does not outlive its session");
    owner->Unlink(node);
    --totals_.ephemerals;
  }
}

ErrorCode Tree::Impl::SetData(const Op& op, const Context& context, OpResult* result) {
  if (!IsValidPath(op.path)) return ErrorCode::kBadArguments;
  Znode* node = Lookup(op.path);
  if (node == nullptr) return ErrorCode::kNoNode;
  if (!IsPermitted(*node, context.identities, permission::kWrite)) return ErrorCode::kNoAuth;
  const int64_t bytes_added = static_cast<int64_t>(op.data.size()) - node->data.size();
  if (const ErrorCode error = CheckQuota(op.path, bytes_added, 0, context);
      error != ErrorCode::kOk) {
    return error;
  }
  if (VersionDiffers(op.version, node->version)) return ErrorCode::kBadVersion;

  ReplaceData(node, op.path, op.has_data, op.data, NextVersion(node->version), context.zxid);
  if (result != nullptr) result->stat = node->ToStat();
  UpdateQuota(op.path, bytes_added, 0);
  return ErrorCode::kOk;
}

void Tree::Impl::ReplaceData(Znode* node, std::string_view path, bool has_data,
                             std::string_view data, int32_t version, Zxid zxid) {
  Undo& undo = undo_.emplace_back();
  undo.kind = OpKind::kSetData;
  undo.node = node;
  undo.content_hash = node->content_hash;
  undo.mzxid = node->mzxid;
  undo.mtime_ms = node->mtime_ms;
  undo.version = node->version;
  changes_.BeforeNodeChange(node);
  RemoveFromDigest(*node);
  expiry_.Remove(*node);
  totals_.data_bytes -= node->data.size();
  undo.data.Set(&memory_, has_data, data);
  undo.data.Swap(&node->data);
  node->content_hash = HashContent(path, node->data);
  node->version = version;
  node->mzxid = zxid;
  node->mtime_ms = time_ms_;
  totals_.data_bytes += node->data.size();
  AddToDigest(*node);
  expiry_.Add(*node);

  events_.push_back(Event{EventType::kNodeDataChanged, path, node, &undo.data});
}

void Tree::Impl::SetConfig(Zxid zxid, std::string_view text, ApplyListener* listener) {
  ASSERT(zxid > last_zxid_, "each zxid is applied once, in order");
  last_zxid_ = zxid;
  Znode* node = Lookup(kConfigPath);
  // Only a tree that was imported or restored may lack it.
  if (node == nullptr) return;
  ASSERT(undo_.empty(), "the previous request was committed or rolled back");
  events_.clear();
  changes_acls_ = false;
  ReplaceData(node, kConfigPath, /*has_data=*/true, text, kConfigVersion, zxid);
  CommitRequest(zxid, listener);
}

ErrorCode Tree::Impl::SetAcl(const Op& op, const Context& context, OpResult* result) {
  if (!IsValidPath(op.path)) return ErrorCode::kBadArguments;
  if (!ResolveOpAcl(op, context)) return ErrorCode::kInvalidAcl;
  Znode* node = Lookup(op.path);
  if (node == nullptr) return ErrorCode::kNoNode;
  if (!IsPermitted(*node, context.identities, permission::kAdmin)) return ErrorCode::kNoAuth;
  if (VersionDiffers(op.version, node->aversion())) return ErrorCode::kBadVersion;

  Undo& undo = undo_.emplace_back();
  undo.kind = OpKind::kSetAcl;
  undo.node = node;
  undo.version = node->aversion();
  undo.acl_id = node->acl_id;
  changes_acls_ = true;
  changes_.BeforeNodeChange(node);
  RemoveFromDigest(*node);
  node->acl_id = acls_.Ref(resolved_acl_);
  node->Extend(&memory_).aversion = NextVersion(node->aversion());
  AddToDigest(*node);
  if (result != nullptr) result->stat = node->ToStat();
  return ErrorCode::kOk;
}

ErrorCode Tree::Impl::CheckAbsent(const Op& op) const {
  if (!IsValidPath(op.path)) return ErrorCode::kBadArguments;
  return Lookup(op.path) == nullptr ? ErrorCode::kOk : ErrorCode::kNodeExists;
}

ErrorCode Tree::Impl::CheckNotExists(const Op& op, const Context& context) const {
  if (!IsValidPath(op.path)) return ErrorCode::kBadArguments;
  const Znode* node = Lookup(op.path);
  if (node == nullptr) return ErrorCode::kOk;
  if (!IsPermitted(*node, context.identities, permission::kRead)) return ErrorCode::kNoAuth;
  return VersionDiffers(op.version, node->version) ? ErrorCode::kOk : ErrorCode::kNodeExists;
}

ErrorCode Tree::Impl::CheckStat(const Op& op, const Context& context) const {
  if (!IsValidPath(op.path)) return ErrorCode::kBadArguments;
  const Znode* node = Lookup(op.path);
  if (node == nullptr) return ErrorCode::kNoNode;
  if (!IsPermitted(*node, context.identities, permission::kRead)) return ErrorCode::kNoAuth;
  const bool matches =
      !VersionDiffers(op.version, node->version) && StatMatches(op.expected, node->ToStat());
  return matches ? ErrorCode::kOk : ErrorCode::kBadVersion;
}

ErrorCode Tree::Impl::CheckCreated(const Op& op) const {
  if (!IsValidPath(op.path)) return ErrorCode::kBadArguments;
  const Znode* node = Lookup(op.path);
  if (node == nullptr) return ErrorCode::kNoNode;
  return node->czxid == op.created_zxid ? ErrorCode::kOk : ErrorCode::kBadVersion;
}

ErrorCode Tree::Impl::CheckVersion(const Op& op, const Context& context) {
  if (!IsValidPath(op.path)) return ErrorCode::kBadArguments;
  const Znode* node = Lookup(op.path);
  if (node == nullptr) return ErrorCode::kNoNode;
  if (!IsPermitted(*node, context.identities, permission::kRead)) return ErrorCode::kNoAuth;
  return VersionDiffers(op.version, node->version) ? ErrorCode::kBadVersion : ErrorCode::kOk;
}

EventAcls Tree::Impl::AclsOf(const Znode& node) const {
  EventAcls acls{acls_.Get(node.acl_id), {}};
  if (node.parent != nullptr) acls.parent = acls_.Get(node.parent->acl_id);
  return acls;
}

void Tree::Impl::Commit() {
  for (const Undo& undo : undo_) {
    if (undo.kind == OpKind::kDelete) {
      changes_.OnNodeFreed(undo.node);
      acls_.Unref(undo.node->acl_id);
      Znode::Delete(undo.node);
    } else if (undo.kind == OpKind::kSetAcl) {
      acls_.Unref(undo.acl_id);
    }
  }
  undo_.clear();
}

void Tree::Impl::Rollback(const Totals& before) {
  while (!undo_.empty()) {
    UndoOne(&undo_.back());
    undo_.pop_back();
  }
  totals_ = before;
}

void Tree::Impl::UndoOne(Undo* undo) {
  Znode* node = undo->node;
  ASSERT(node != nullptr);
  switch (undo->kind) {
    case OpKind::kCreate:
    case OpKind::kDelete: {
      const bool created = undo->kind == OpKind::kCreate;
      Znode* parent = node->parent;
      expiry_.Remove(created ? *node : *parent);
      ZnodeExtra& of_parent = parent->Extend(&memory_);
      of_parent.pzxid = undo->pzxid;
      of_parent.created_children = undo->created_children;
      if (created) {
        of_parent.children.Erase(node);
      } else {
        of_parent.children.Insert(node);
      }
      expiry_.Add(created ? *parent : *node);
      RecordQuotaNode(*node, !created);
      if (node->is_ephemeral()) {
        Session* owner = sessions_.Find(node->owner());
        ASSERT(owner != nullptr, "an ephemeral does not outlive its session");
        created ? owner->Unlink(node) : owner->Relink(node);
      }
      if (!created) return;
      changes_.OnNodeFreed(node);
      acls_.Unref(node->acl_id);
      Znode::Delete(node);
      return;
    }
    case OpKind::kSetData:
      expiry_.Remove(*node);
      node->data.Swap(&undo->data);
      node->content_hash = undo->content_hash;
      node->version = undo->version;
      node->mzxid = undo->mzxid;
      node->mtime_ms = undo->mtime_ms;
      expiry_.Add(*node);
      return;
    case OpKind::kSetAcl:
      acls_.Unref(node->acl_id);
      node->acl_id = undo->acl_id;
      node->Extend(&memory_).aversion = undo->version;
      return;
    case OpKind::kCheck:
    case OpKind::kCheckAbsent:
    case OpKind::kCheckCreated:
    case OpKind::kRefused:
    case OpKind::kCreateContainer:
    case OpKind::kCreateTtl:
    case OpKind::kDeleteRecursive:
    case OpKind::kCheckNotExists:
    case OpKind::kCreateIfNotExists:
    case OpKind::kRemoveSubtree:
    case OpKind::kCheckStat:
    case OpKind::kTryDelete:
    case OpKind::kGet:
    case OpKind::kExists:
    case OpKind::kGetChildren:
      break;
  }
  ASSERT(false, "the undo log has no such kind");
}

}  // namespace quorate::tree
