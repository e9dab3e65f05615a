// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/native_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/proto/times.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;

v1::ErrorCode CodeOf(ErrorCode error) {
  switch (error) {
    case ErrorCode::kOk:
      return v1::ERROR_CODE_UNSPECIFIED;
    case ErrorCode::kNoNode:
      return v1::ERROR_CODE_NO_NODE;
    case ErrorCode::kNodeExists:
      return v1::ERROR_CODE_NODE_EXISTS;
    case ErrorCode::kBadVersion:
      return v1::ERROR_CODE_BAD_VERSION;
    case ErrorCode::kNotEmpty:
      return v1::ERROR_CODE_NOT_EMPTY;
    case ErrorCode::kNoChildrenForEphemerals:
      return v1::ERROR_CODE_NO_CHILDREN_FOR_EPHEMERALS;
    case ErrorCode::kRuntimeInconsistency:
      return v1::ERROR_CODE_NOT_ATTEMPTED;
    case ErrorCode::kBadArguments:
      return v1::ERROR_CODE_BAD_ARGUMENTS;
    case ErrorCode::kNoSpace:
      return v1::ERROR_CODE_NO_SPACE;
    case ErrorCode::kUnimplemented:
      return v1::ERROR_CODE_UNIMPLEMENTED;
    default:
      return v1::ERROR_CODE_SYSTEM_ERROR;  // these clients' writes have no other outcomes
  }
}

v1::EventType TypeOf(tree::EventType type) {
  switch (type) {
    case tree::EventType::kNodeCreated:
      return v1::EVENT_TYPE_NODE_CREATED;
    case tree::EventType::kNodeDeleted:
      return v1::EVENT_TYPE_NODE_DELETED;
    case tree::EventType::kNodeDataChanged:
      return v1::EVENT_TYPE_NODE_DATA_CHANGED;
    default:
      return v1::EVENT_TYPE_UNSPECIFIED;
  }
}

rpc::native::Scope ScopeOf(v1::WatchScope scope) {
  return scope == v1::WATCH_SCOPE_NODE       ? rpc::native::Scope::kNode
         : scope == v1::WATCH_SCOPE_CHILDREN ? rpc::native::Scope::kChildren
                                             : rpc::native::Scope::kSubtree;
}

bool IsSame(const v1::Stat& shown, const tree::Stat& stat) {
  return shown.created_zxid() == stat.czxid.value() &&
         shown.modified_zxid() == stat.mzxid.value() &&
         shown.children_modified_zxid() == stat.pzxid.value() &&
         shown.created_ms() == stat.ctime_ms && shown.modified_ms() == stat.mtime_ms &&
         shown.version() == stat.version && shown.children_version() == stat.cversion &&
         shown.acl_version() == stat.aversion &&
         shown.ephemeral_session() == stat.ephemeral_owner.value() &&
         shown.data_bytes() == stat.data_length && shown.children() == stat.num_children;
}

bool IsSame(const v1::Operation& sent, const tree::Op& logged) {
  switch (sent.kind_case()) {
    case v1::Operation::kCreate:
      return logged.kind == tree::OpKind::kCreate && logged.path == sent.create().path() &&
             logged.data == sent.create().data() &&
             logged.with_parents == sent.create().with_parents() &&
             static_cast<int>(logged.mode) + 1 ==
                 std::max(1, static_cast<int>(sent.create().mode()));
    case v1::Operation::kSet:
      return logged.kind == tree::OpKind::kSetData && logged.path == sent.set().path() &&
             logged.data == sent.set().data() &&
             logged.version == (sent.set().has_version() ? sent.set().version() : -1);
    case v1::Operation::kDelete:
      return logged.kind == tree::OpKind::kDelete && logged.path == sent.delete_().path();
    case v1::Operation::kCheck:
      return logged.kind == tree::OpKind::kCheck && logged.path == sent.check().path();
    case v1::Operation::kGet:
      return logged.kind == tree::OpKind::kGet && logged.path == sent.get().path();
    case v1::Operation::kExists:
      return logged.kind == tree::OpKind::kExists && logged.path == sent.exists().path();
    case v1::Operation::kList:
      return logged.kind == tree::OpKind::kGetChildren && logged.path == sent.list().path();
    default:
      return false;
  }
}

bool IsRefused(const tree::Request& logged) {
  return logged.ops.size() == 1 && logged.ops[0].kind == tree::OpKind::kRefused;
}

bool IsSame(const v1::Compare& sent, const tree::Compare& logged) {
  // Equal is the default.
  const auto relation = static_cast<tree::CompareRelation>(std::max(1, int{sent.relation()}));
  const auto is = [&](tree::CompareTarget target, int64_t number) {
    return logged.target == target && logged.number == number;
  };
  if (logged.path != sent.path() || logged.relation != relation) return false;
  switch (sent.target_case()) {
    case v1::Compare::kExists:
      return is(tree::CompareTarget::kExists, sent.exists() ? 1 : 0);
    case v1::Compare::kCreatedZxid:
      return is(tree::CompareTarget::kCzxid, sent.created_zxid());
    case v1::Compare::kModifiedZxid:
      return is(tree::CompareTarget::kMzxid, sent.modified_zxid());
    case v1::Compare::kChildrenModifiedZxid:
      return is(tree::CompareTarget::kPzxid, sent.children_modified_zxid());
    case v1::Compare::kVersion:
      return is(tree::CompareTarget::kVersion, sent.version());
    case v1::Compare::kChildrenVersion:
      return is(tree::CompareTarget::kCversion, sent.children_version());
    case v1::Compare::kAclVersion:
      return is(tree::CompareTarget::kAversion, sent.acl_version());
    case v1::Compare::kData:
      return logged.target == tree::CompareTarget::kValue && logged.value == sent.data();
    default:
      return false;
  }
}

bool HasBranches(const v1::Request::Write& write) {
  return write.compares_size() > 0 || write.otherwise_size() > 0;
}

// Returns whether the write has a part that needs the cluster version of transactions.
bool NeedsTransactions(const v1::Request::Write& write) {
  return HasBranches(write) ||
         std::ranges::any_of(write.operations(), [](const v1::Operation& operation) {
           return operation.create().with_parents() || operation.has_get() ||
                  operation.has_exists() || operation.has_list();
         });
}

bool IsSame(const v1::Request::Write& sent, const tree::Request& logged) {
  const auto are_same = [](const auto& from, const auto& to) {
    return std::equal(from.begin(), from.end(), to.begin(), to.end(),
                      [](const auto& a, const auto& b) { return IsSame(a, b); });
  };
  if (logged.has_branches != HasBranches(sent)) return false;
  if (!logged.has_branches) return are_same(sent.operations(), logged.ops);
  return are_same(sent.compares(), logged.compares) &&
         are_same(sent.operations(), tree::OpsOf(logged, tree::Branch::kThen)) &&
         are_same(sent.otherwise(), tree::OpsOf(logged, tree::Branch::kOtherwise));
}

v1::ErrorCode ErrorOf(const std::vector<StepResult>& results) {
  for (const StepResult& result : results) {
    if (result.error != ErrorCode::kOk && result.error != ErrorCode::kRuntimeInconsistency) {
      return CodeOf(result.error);
    }
  }
  return v1::ERROR_CODE_UNSPECIFIED;
}

}  // namespace

NativeChecker::NativeChecker(History* history, ReplayChecker* replay, double clock_drift_max)
    : history_(history),
      replay_(replay),
      environment_(history->environment()),
      clock_drift_max_(clock_drift_max) {
  history->AddListener(this);
  replay->AddListener(this);
  replay->SetClosesElsewhere([this](int64_t session) {
    const auto found = sessions_.find(session);
    return found != sessions_.end() && found->second.close_sent;
  });
}

void NativeChecker::BeginSteadyPeriod(int64_t settle_us) {
  steady_from_us_ = environment_.now_us() + settle_us;
}

void NativeChecker::Fail(std::string_view invariant, int64_t session,
                         const std::string& details) const {
  const auto found = sessions_.find(session);
  history_->Fail(invariant, absl::StrCat("native session ", session,
                                         found == sessions_.end()
                                             ? std::string()
                                             : absl::StrCat(" of client ", found->second.client),
                                         ": ", details));
}

NativeChecker::Session& NativeChecker::Find(int64_t session) {
  const auto found = sessions_.find(session);
  ASSERT(found != sessions_.end(), "opened before");
  return found->second;
}

void NativeChecker::See(Session* session, int64_t zxid) {
  session->seen_zxid = std::max(session->seen_zxid, zxid);
  newest_seen_ = std::max(newest_seen_, zxid);
}

void NativeChecker::CheckCommitted(int64_t id, int64_t zxid) const {
  if (zxid <= replay_->model().last_zxid()) return;
  Fail("servers show only what is committed", id,
       absl::StrCat("the client was shown zxid ", zxid, ", the last committed is ",
                    replay_->model().last_zxid()));
}

// --- The log -------------------------------------------------------------------------------------

void NativeChecker::OnEntry(const consensus::Entry&, const Model::Applied& applied) {
  for (const Model::NodeEvent& event : applied.events) {
    events_.push_back({applied.zxid, event.type, event.path});
  }
  if (!applied.counts) return;
  if (applied.header.kind == tree::CommandKind::kSequencedRequest) FindWrite(applied);
  if (applied.header.kind == tree::CommandKind::kExpireSession && applied.error == ErrorCode::kOk) {
    CheckExpiry(applied);
  }
}

void NativeChecker::FindWrite(const Model::Applied& applied) {
  const int64_t id = applied.header.session.value();
  const auto found = sessions_.find(id);
  const std::string what =
      absl::StrCat("write ", applied.client_sequence, " at zxid ", applied.zxid);
  if (found == sessions_.end() || applied.client_sequence > found->second.sent) {
    Fail("every command in the log was sent by a client", id, what);
  }
  Session& session = found->second;
  if (applied.error == ErrorCode::kSessionMoved || applied.error == ErrorCode::kSessionExpired) {
    return;
  }
  if (applied.error != ErrorCode::kOk) {
    // The number leaves a gap, or the client already has its answer.
    Fail("writes of a session enter the log in their order", id,
         absl::StrCat(what, " is refused; the client has the answers up to ", session.answered));
  }
  if (applied.repeated) {
    environment_.Count("native: a write was repeated and had its effect once");
    return;
  }
  const auto write = session.writes.find(applied.client_sequence);
  if (write == session.writes.end() || write->second.zxid != 0) {
    Fail("no write is applied twice", id, what);
  }
  if (!IsRefused(applied.request) && !IsSame(write->second.sent, applied.request)) {
    Fail("every command in the log was sent by a client", id,
         absl::StrCat(what, " is not what was sent: ", write->second.sent.ShortDebugString()));
  }
  write->second.zxid = applied.zxid;
  write->second.results = applied.steps;
  write->second.branch = applied.branch;
  if (applied.branch != tree::Branch::kNone) {
    environment_.Count(absl::StrCat("native: a transaction, branch ", int(applied.branch)));
  }
  write->second.refused = IsRefused(applied.request);
  if (!write->second.refused) return;
  if (applied.request.ops[0].refusal == ErrorCode::kUnimplemented) {
    environment_.Count("native: a transaction is refused by an older cluster version");
    if (NeedsTransactions(write->second.sent)) return;
  }
  environment_.Count("native: a write is refused");
  for (size_t member = 0; member < environment_.member_count(); ++member) {
    if (environment_.MightRefuseData(member, write->second.sent_us, environment_.now_us())) return;
  }
  Fail("writes are refused only while disks are full", id, what);
}

void NativeChecker::CheckExpiry(const Model::Applied& applied) {
  const int64_t id = applied.header.session.value();
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  const Session& session = found->second;
  const int64_t now_us = environment_.now_us();
  if (now_us < steady_from_us_ || !session.up) return;
  const auto least_us =
      static_cast<int64_t>((session.timeout_ms - 2) * 1000 / (1.0 + clock_drift_max_));
  if (now_us - session.opened_us < least_us || now_us - session.heard_us >= least_us / 2) return;
  Fail("a session does not expire before its timeout", id,
       absl::StrCat("all servers work, its client was answered at ", session.heard_us,
                    "us, and it was expired at zxid ", applied.zxid));
}

// --- Sessions ------------------------------------------------------------------------------------

void NativeChecker::OnOpened(size_t client, size_t member, const v1::SessionOpened& opened,
                             bool resumed) {
  const int64_t id = opened.session_id();
  if (sessions_.contains(id) != resumed)
    Fail("session ids are unique", id, "the id was given again");
  Session& session = sessions_[id];
  session.client = client;
  session.up = true;
  session.opened_us = session.heard_us = environment_.now_us();
  session.timeout_ms = v1::ToMs(opened.timeout()).value_or(0);
  for (auto& [watch_id, watch] : session.watches) watch.set = false;
  if (opened.member() != member + 1) {
    Fail("a server reports its own number", id,
         absl::StrCat("it is ", member + 1, " and said ", opened.member()));
  }
  if (opened.last_sequence() < session.answered || opened.last_sequence() > session.sent) {
    Fail("a server knows the last write of a session", id,
         absl::StrCat("the server reported ", opened.last_sequence(), "; the client has sent ",
                      session.sent, " and has the answers up to ", session.answered));
  }
  const Model& model = replay_->model();
  if (model.ended_sessions().contains(id)) return;  // the session has ended since then
  const auto logged = model.sessions().find(id);
  if (logged == model.sessions().end()) {
    Fail("an accepted session is in the log", id, "there is no such session");
  }
  if (logged->second.timeout_ms != session.timeout_ms) {
    Fail("the timeout of a session is as negotiated", id,
         absl::StrCat(session.timeout_ms, " ms; in the log it is ", logged->second.timeout_ms));
  }
}

void NativeChecker::OnStreamClosed(int64_t session) { Find(session).up = false; }

void NativeChecker::OnHeard(int64_t session) { Find(session).heard_us = environment_.now_us(); }

void NativeChecker::OnCloseSent(int64_t session) { Find(session).close_sent = true; }

// --- Writes --------------------------------------------------------------------------------------

void NativeChecker::OnWriteSent(int64_t id, const v1::Request::Write& write) {
  Session& session = Find(id);
  Write& kept = session.writes[write.sequence()];
  if (write.sequence() > session.sent) {
    kept.sent = write;
    kept.sent_us = environment_.now_us();
    session.sent = write.sequence();
  } else {
    environment_.Count(kept.zxid != 0 ? "native: a write that has had its effect is sent again"
                                      : "native: a write is sent again");
  }
}

void NativeChecker::CheckWrite(int64_t id, Session* session, const v1::Request::Write& write,
                               const v1::Response& response) {
  const auto found = session->writes.find(write.sequence());
  ASSERT(found != session->writes.end(), "it was sent and not answered");
  const Write& truth = found->second;
  const std::string what = absl::StrCat("write ", write.sequence(), " (", write.ShortDebugString(),
                                        ") was answered ", response.ShortDebugString());
  if (truth.zxid == 0) Fail("an answered write is in the log", id, what);
  if (response.zxid() != truth.zxid || response.error() != ErrorOf(truth.results)) {
    Fail("every answer to a write has its first result", id,
         absl::StrCat(what, "; in the log it is at zxid ", truth.zxid, " with error ",
                      ErrorOf(truth.results)));
  }
  if (!truth.refused) CheckResults(id, truth, response);
  if (truth.refused && response.write().results_size() > 0) {
    Fail("a write that is refused as a whole has no results", id, what);
  }
  if (truth.zxid <= session->last_write_zxid) {
    Fail("writes of a session enter the log in their order", id, what);
  }
  session->last_write_zxid = truth.zxid;
  session->answered = write.sequence();
  session->writes.erase(found);
}

void NativeChecker::CheckResults(int64_t id, const Write& write,
                                 const v1::Response& response) const {
  const auto fail = [&](int place) {
    Fail("every answer to a write has its first result", id,
         absl::StrCat("operation ", place, " of write ", write.sent.ShortDebugString(), " at zxid ",
                      write.zxid, " was answered ", response.ShortDebugString()));
  };
  const auto& shown = response.write().results();
  if (static_cast<size_t>(shown.size()) != write.results.size()) fail(shown.size());
  if (static_cast<int>(response.write().branch()) != static_cast<int>(write.branch)) fail(-1);
  const bool done = ErrorOf(write.results) == v1::ERROR_CODE_UNSPECIFIED;
  const auto& operations =
      write.branch == tree::Branch::kOtherwise ? write.sent.otherwise() : write.sent.operations();
  for (int i = 0; i < shown.size(); ++i) {
    const StepResult& truth = write.results[static_cast<size_t>(i)];
    if (shown[i].error() != CodeOf(truth.error)) fail(i);
    if (!done) continue;
    const v1::Operation& operation = operations[i];
    if (operation.has_create() && shown[i].path() != truth.path) fail(i);
    if (shown[i].has_stat() != truth.stat.has_value()) fail(i);
    if (shown[i].exists() != truth.found || shown[i].data() != truth.data) fail(i);
    if (!std::ranges::equal(shown[i].children(), truth.children)) fail(i);
    if (shown[i].has_stat() && !IsSame(shown[i].stat(), *truth.stat)) fail(i);
    if (shown[i].removed() != (operation.has_delete_() ? 1 : 0)) fail(i);
  }
}

// --- Answers -------------------------------------------------------------------------------------

void NativeChecker::OnAnswered(int64_t id, const v1::Request& request, int64_t newest_seen,
                               const v1::Response& response) {
  Session& session = Find(id);
  CheckCommitted(id, response.zxid());
  CheckNothingDue(id, &session, response.zxid());
  switch (request.kind_case()) {
    case v1::Request::kWrite:
      CheckWrite(id, &session, request.write(), response);
      break;
    case v1::Request::kClose:
      if (response.error() != v1::ERROR_CODE_UNSPECIFIED ||
          !replay_->model().ended_sessions().contains(id)) {
        Fail("a closed session has ended", id, response.ShortDebugString());
      }
      break;
    case v1::Request::kWatch:
      AnswerWatch(id, &session, request.watch(), response);
      break;
    case v1::Request::kUnwatch:
      session.watches.erase(request.unwatch().watch_id());
      break;
    default:
      CheckRead(id, &session, request, newest_seen, response);
  }
  See(&session, response.zxid());
}

void NativeChecker::CheckRead(int64_t id, Session* session, const v1::Request& request,
                              int64_t newest_seen, const v1::Response& response) {
  const auto fail = [&](std::string_view invariant, const std::string& details) {
    Fail(invariant, id,
         absl::StrCat(request.ShortDebugString(), " was answered at zxid ", response.zxid(), ": ",
                      details));
  };
  if (response.zxid() < session->seen_zxid) {
    fail("the zxids of a session never go back",
         absl::StrCat("the client has seen zxid ", session->seen_zxid));
  }
  if (response.zxid() < session->last_write_zxid) {
    fail("a read sees the writes before it",
         absl::StrCat("the one before is at zxid ", session->last_write_zxid));
  }
  // A write waits for the reads before it, but not for a sync. The writes that are unanswered now
  // were sent behind the read: those of former streams are sent again before anything else.
  const auto behind = session->writes.begin();
  if (!request.has_sync() && behind != session->writes.end() && behind->second.zxid != 0 &&
      behind->second.zxid <= response.zxid()) {
    fail("a read does not see the writes behind it",
         absl::StrCat("write ", behind->first, " is at zxid ", behind->second.zxid));
  }
  const bool linearizable = request.has_sync() || request.get().linearizable() ||
                            request.exists().linearizable() || request.list().linearizable();
  if (linearizable && response.zxid() < newest_seen) {
    fail("a sync shows everything that was seen before it began",
         absl::StrCat("zxid ", newest_seen, " had been seen"));
  }
  CheckContent(id, request, response);
}

void NativeChecker::CheckContent(int64_t id, const v1::Request& request,
                                 const v1::Response& response) const {
  const std::string& path = request.has_get()      ? request.get().path()
                            : request.has_exists() ? request.exists().path()
                                                   : request.list().path();
  const auto check = [&](bool holds) {
    if (holds) return;
    Fail("a read shows the tree of its zxid", id,
         absl::StrCat(request.ShortDebugString(), " was answered ", response.ShortDebugString()));
  };
  if (request.has_sync()) return check(response.error() == v1::ERROR_CODE_UNSPECIFIED);
  const Model& model = replay_->model();
  const Model::Node* node = model.Find(path, response.zxid());
  if (request.has_exists()) {
    check(response.error() == v1::ERROR_CODE_UNSPECIFIED &&
          response.exists().exists() == (node != nullptr));
    return check(node == nullptr || IsSame(response.exists().stat(), node->stat));
  }
  check(response.error() ==
        (node == nullptr ? v1::ERROR_CODE_NO_NODE : v1::ERROR_CODE_UNSPECIFIED));
  if (node == nullptr) return;
  if (request.has_get()) {
    return check(response.get().data() == *node->data && IsSame(response.get().stat(), node->stat));
  }
  Request list;
  list.kind = OperationKind::kGetChildren;
  list.path = path;
  const std::vector<std::string> children = model.Read(list, response.zxid()).children;
  check(std::equal(children.begin(), children.end(), response.list().children().begin(),
                   response.list().children().end()) &&
        IsSame(response.list().stat(), node->stat));
}

void NativeChecker::OnAnswered(const Operation& operation) {
  newest_seen_ = std::max(newest_seen_, operation.reply.zxid);
}

// --- Watches -------------------------------------------------------------------------------------

void NativeChecker::OnWatchSent(int64_t id, const v1::Request::Watch& watch) {
  Watch& kept = Find(id).watches[watch.watch_id()];
  kept = {};
  kept.path = watch.path();
  kept.scope = ScopeOf(watch.scope());
  kept.after = watch.after_zxid();
  kept.next = EventsAfter(kept.after);
}

void NativeChecker::OnUnwatchSent(int64_t id, uint64_t watch_id) {
  Find(id).watches.at(watch_id).leaving = true;
}

void NativeChecker::AnswerWatch(int64_t id, Session* session, const v1::Request::Watch& request,
                                const v1::Response& response) {
  Watch& watch = session->watches.at(request.watch_id());
  if (response.error() == v1::ERROR_CODE_EVENTS_LOST) {
    if (watch.after == 0 || response.watch().oldest_zxid() <= watch.after) {
      Fail("a watch goes on if the events are kept", id, response.ShortDebugString());
    }
    environment_.Count("native: a server reported that events were lost");
    session->watches.erase(request.watch_id());
    return;
  }
  if (response.error() != v1::ERROR_CODE_UNSPECIFIED) {
    Fail("a watch is set", id,
         absl::StrCat(request.ShortDebugString(), ": ", response.ShortDebugString()));
  }
  watch.set = true;
  if (watch.after == 0) {
    watch.next = EventsAfter(response.zxid());
  } else {
    environment_.Count("native: a watch goes on");
    CheckNothingDue(id, request.watch_id(), &watch, response.zxid());
  }
}

size_t NativeChecker::EventsAfter(int64_t zxid) const {
  return static_cast<size_t>(
      std::upper_bound(events_.begin(), events_.end(), zxid,
                       [](int64_t at, const Event& event) { return at < event.zxid; }) -
      events_.begin());
}

void NativeChecker::Advance(Watch* watch) const {
  for (; watch->next < events_.size(); ++watch->next) {
    if (!rpc::native::Sees(watch->scope, watch->path, events_[watch->next].path)) continue;
    if (watch->came.erase(watch->next) == 0) return;
  }
}

void NativeChecker::CheckNothingDue(int64_t id, uint64_t watch_id, Watch* watch, int64_t zxid) {
  Advance(watch);
  if (watch->next == events_.size() || events_[watch->next].zxid > zxid) return;
  const Event& event = events_[watch->next];
  Fail("no event of a watch is lost", id,
       absl::StrCat("watch ", watch_id, " of ", watch->path, " has not been sent the event of ",
                    event.path, " at zxid ", event.zxid, ", and the client was shown zxid ", zxid));
}

void NativeChecker::CheckNothingDue(int64_t id, Session* session, int64_t zxid) {
  for (auto& [watch_id, watch] : session->watches) {
    if (watch.set && !watch.leaving) CheckNothingDue(id, watch_id, &watch, zxid);
  }
}

void NativeChecker::OnWatchEvent(int64_t id, const v1::WatchEvent& event) {
  Session& session = Find(id);
  CheckCommitted(id, event.event().zxid());
  if (event.watch_ids().empty()) {
    Fail("an event belongs to a watch", id, event.ShortDebugString());
  }
  environment_.Count("native: event");
  for (const uint64_t watch_id : event.watch_ids()) {
    const auto found = session.watches.find(watch_id);
    if (found == session.watches.end()) {
      Fail("an event belongs to a watch", id, event.ShortDebugString());
    }
    TakeEvent(id, event.event(), watch_id, &found->second);
  }
  See(&session, event.event().zxid());
}

void NativeChecker::TakeEvent(int64_t id, const v1::Event& event, uint64_t watch_id, Watch* watch) {
  const auto fail = [&](std::string_view invariant, const std::string& details) {
    Fail(invariant, id,
         absl::StrCat("watch ", watch_id, " of ", watch->path, ": ", event.ShortDebugString(), "; ",
                      details));
  };
  Advance(watch);
  if (watch->next < events_.size() && events_[watch->next].zxid < event.zxid()) {
    fail("no event of a watch is lost",
         absl::StrCat("before it, that of ", events_[watch->next].path, " at zxid ",
                      events_[watch->next].zxid, " has to come"));
  }
  // Events of one transaction come in any order.
  for (size_t i = EventsAfter(event.zxid() - 1);
       i < events_.size() && events_[i].zxid == event.zxid(); ++i) {
    if (events_[i].path != event.path() || TypeOf(events_[i].type) != event.type()) continue;
    if (!rpc::native::Sees(watch->scope, watch->path, event.path())) continue;
    if (i < watch->next || !watch->came.insert(i).second) continue;
    Advance(watch);
    return;
  }
  fail("each event comes once, for a change that has happened", "no such event is expected");
}

void NativeChecker::OnAllSentUpTo(int64_t id, int64_t zxid) {
  Session& session = Find(id);
  CheckCommitted(id, zxid);
  if (zxid < session.seen_zxid) {
    Fail("the zxids of a session never go back", id,
         absl::StrCat("all was sent up to zxid ", zxid, ", and the client has seen zxid ",
                      session.seen_zxid));
  }
  CheckNothingDue(id, &session, zxid);
  See(&session, zxid);
}

}  // namespace quorate::simulation
