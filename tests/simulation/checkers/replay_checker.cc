// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/replay_checker.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;

constexpr char kUserPrefix[] = "link";

// As in rpc/frontend/listing.h, by which servers divide long reads into pieces.
constexpr size_t kNodesPerHold = 4096;
constexpr size_t kBytesPerNode = 256;

// Features 0 to 10 of ClickHouse Keeper without feature 5, the first in the highest bit.
constexpr std::string_view kKeeperFlags = "\xfb\xe0";

// The link named in a command's identities, if any.
std::optional<LinkId> LinkOf(const tree::Request& request) {
  for (const tree::Identity& identity : request.identities) {
    if (identity.scheme != "digest" || !identity.id.starts_with(kUserPrefix)) continue;
    const size_t begin = sizeof(kUserPrefix) - 1;
    uint64_t link = 0;
    if (absl::SimpleAtoi(identity.id.substr(begin, identity.id.find(':') - begin), &link)) {
      return static_cast<LinkId>(link);
    }
  }
  return std::nullopt;
}

tree::OpKind KindInLog(OperationKind kind) {
  switch (kind) {
    case OperationKind::kCreate:
      return tree::OpKind::kCreate;
    case OperationKind::kDelete:
      return tree::OpKind::kDelete;
    case OperationKind::kSetData:
      return tree::OpKind::kSetData;
    case OperationKind::kSetAcl:
      return tree::OpKind::kSetAcl;
    case OperationKind::kCheckNotExists:
      return tree::OpKind::kCheckNotExists;
    case OperationKind::kCreateIfNotExists:
      return tree::OpKind::kCreateIfNotExists;
    case OperationKind::kRemoveRecursive:
      return tree::OpKind::kRemoveSubtree;
    case OperationKind::kCheckStat:
      return tree::OpKind::kCheckStat;
    case OperationKind::kTryRemove:
      return tree::OpKind::kTryDelete;
    default:
      return tree::OpKind::kCheck;
  }
}

// Whether servers may refuse the request while disks are full.
bool AddsData(const Request& request) {
  return std::any_of(request.steps.begin(), request.steps.end(), [](const Step& step) {
    return IsCreate(step.kind) || step.kind == OperationKind::kSetData ||
           step.kind == OperationKind::kSetAcl;
  });
}

bool IsSame(const Step& step, const tree::Op& op) {
  if (op.kind != KindInLog(step.kind) || op.path != step.path) return false;
  const bool creates = IsCreate(step.kind);
  if (creates || step.kind == OperationKind::kSetData) {
    if (op.has_data != step.has_data || (step.has_data && op.data != step.data)) return false;
  }
  if (creates) return op.mode == step.mode;
  return op.version == step.version && op.limit == step.limit && op.expected == step.expected;
}

bool IsSame(const Request& sent, const tree::Request& logged) {
  return (sent.kind == OperationKind::kMulti) == logged.multi &&
         std::equal(sent.steps.begin(), sent.steps.end(), logged.ops.begin(), logged.ops.end(),
                    [](const Step& step, const tree::Op& op) { return IsSame(step, op); });
}

// The part of a step's result that the reply contains.
StepResult Shown(const Step& step, StepResult result) {
  if (!IsCreate(step.kind)) result.path.clear();
  const bool has_stat = (step.kind == OperationKind::kCreate && step.wants_stat) ||
                        step.kind == OperationKind::kSetData || step.kind == OperationKind::kSetAcl;
  if (!has_stat) result.stat.reset();
  return result;
}

bool IsSame(const Reply& a, const Reply& b) {
  return a.error == b.error && a.steps == b.steps && a.has_data == b.has_data && a.data == b.data &&
         a.stat == b.stat && a.children == b.children && a.child_stats == b.child_stats &&
         a.child_data == b.child_data && a.path == b.path;
}

// About how many znodes a server looks at for this reply: from rpc::kNodesPerHold on, it reads in
// pieces, and other writes come in between.
size_t CostOf(const Reply& reply) {
  const auto children = static_cast<size_t>(reply.stat ? reply.stat->num_children : 0);
  size_t cost = 2 * (1 + std::max(reply.children.size(), children));
  for (const auto& data : reply.child_data) cost += data.value_or("").size() / kBytesPerNode;
  return cost;
}

// Returns why a reply to listRecursive is not the beginning of a list of `all` paths, breadth first;
// an empty string if it is.
std::string WrongPlaces(const Request& request, const Reply& reply,
                        const std::vector<std::string>& all) {
  const size_t count = std::min<size_t>(request.max, all.size());
  if (reply.children.size() != count) {
    return absl::StrCat("the list has ", reply.children.size(), " paths instead of ", count);
  }
  const std::set<std::string> expected(all.begin(), all.end());
  std::set<std::string> listed;
  const auto depth_of = [](const std::string& path) {
    return std::count(path.begin(), path.end(), '/');
  };
  std::vector<size_t> left;  // how many paths of each depth are not listed yet
  for (const std::string& path : all) {
    left.resize(std::max<size_t>(left.size(), static_cast<size_t>(depth_of(path)) + 1));
    ++left[static_cast<size_t>(depth_of(path))];
  }
  for (const std::string& path : reply.children) {
    if (!expected.contains(path)) return absl::StrCat(path, " is not below the node");
    if (!listed.insert(path).second) return absl::StrCat(path, " is listed twice");
    const auto depth = static_cast<size_t>(depth_of(path));
    --left[depth];
    if (std::any_of(left.begin(), left.begin() + static_cast<ptrdiff_t>(depth),
                    [](size_t count_left) { return count_left > 0; })) {
      return absl::StrCat(path, " is listed before paths that are less deep");
    }
  }
  return "";
}

}  // namespace

std::string LinkCredentials(LinkId link) { return absl::StrCat(kUserPrefix, link, ":secret"); }

ReplayChecker::ReplayChecker(History* history) : history_(history) {
  history->AddListener(this);
  history->environment().AddObserver(this);
}

int64_t ReplayChecker::LogZxid(OperationId operation) const {
  const auto found = found_.find(operation);
  return found == found_.end() ? 0 : found->second.zxid;
}

// --- The log -------------------------------------------------------------------------------------

void ReplayChecker::OnCommitted(const consensus::Entry& entry) {
  const Model::Applied applied = model_.Apply(entry);
  if (applied.counts) {
    if (applied.header.kind == tree::CommandKind::kRequest) FindRequest(applied);
    if (applied.header.kind == tree::CommandKind::kCloseSession) FindClose(applied);
  }
  for (LogListener* listener : listeners_) listener->OnEntry(entry, applied);
}

void ReplayChecker::FindRequest(const Model::Applied& applied) {
  const std::optional<LinkId> link = LinkOf(applied.request);
  if (!link || *link >= links_.size()) {
    history_->Fail("every command in the log was sent by a client",
                   absl::StrCat("the request at zxid ", applied.zxid, " of session ",
                                applied.header.session.value(), " names no link of a client"));
  }
  if (history_->link(*link).session != applied.header.session.value()) {
    history_->Fail("a request acts for the session of its connection", history_->link(*link),
                   absl::StrCat("the request at zxid ", applied.zxid, " acts for session ",
                                applied.header.session.value()));
  }
  Match(*link, applied);
}

void ReplayChecker::FindClose(const Model::Applied& applied) {
  if (closes_elsewhere_ && closes_elsewhere_(applied.header.session.value())) return;
  // A close names the session and not the link: it belongs to the link whose close is next.
  for (LinkId link : links_of_session_[applied.header.session.value()]) {
    const LinkState& state = links_[link];
    if (state.attach_zxid != 0 && state.attach_zxid != applied.header.attach_zxid.value()) continue;
    const size_t next = FindNext(state, [this](OperationId operation) {
      return history_->operation(operation).request.kind == OperationKind::kCloseSession;
    });
    if (next == state.logged.size()) continue;
    Match(link, applied);
    return;
  }
  history_->Fail(
      "a session is closed by its client only",
      absl::StrCat("zxid ", applied.zxid, " closes session ", applied.header.session.value(),
                   ", but no link of the session has its closeSession as the next command"));
}

void ReplayChecker::Match(LinkId id, const Model::Applied& applied) {
  LinkState& state = links_[id];
  const Link& link = history_->link(id);
  const int64_t attach_zxid = applied.header.attach_zxid.value();
  if (state.attach_zxid == 0) state.attach_zxid = attach_zxid;
  if (state.attach_zxid != attach_zxid) {
    history_->Fail("all requests of a connection belong to one attachment", link,
                   absl::StrCat("zxid ", applied.zxid, " belongs to the attachment of ",
                                attach_zxid, ", those before to ", state.attach_zxid));
  }
  const bool closes = applied.header.kind == tree::CommandKind::kCloseSession;
  const auto is_it = [&](OperationId operation) {
    const Request& sent = history_->operation(operation).request;
    return closes ? sent.kind == OperationKind::kCloseSession
                  : sent.kind != OperationKind::kCloseSession && IsSame(sent, applied.request);
  };
  const size_t next = FindNext(state, is_it);
  if (next == state.logged.size()) {
    const bool again = state.found > 0 && is_it(state.logged[state.found - 1]);
    const std::string details =
        absl::StrCat("zxid ", applied.zxid, " is ",
                     again ? "the previous command again" : "not the next write of its connection",
                     "; the log has ", state.found, " of ", state.logged.size(), " so far");
    if (state.found < state.logged.size()) {
      history_->Fail(again ? "no write is applied twice" : "writes enter the log in their order",
                     history_->operation(state.logged[state.found]), details);
    }
    history_->Fail(again ? "no write is applied twice" : "writes enter the log in their order",
                   link, details);
  }
  // The requests before it were refused, otherwise this one would not be in the log.
  const auto first = state.logged.begin() + static_cast<ptrdiff_t>(state.found);
  const auto last = state.logged.begin() + static_cast<ptrdiff_t>(next);
  refused_.insert(first, last);
  state.logged.erase(first, last);
  const OperationId operation = state.logged[state.found++];
  found_[operation] = {applied.zxid, applied.error, applied.steps};
  for (LogListener* listener : listeners_) {
    listener->OnLogged(history_->operation(operation), applied.zxid);
  }
}

// --- The clients ---------------------------------------------------------------------------------

void ReplayChecker::OnLinkOpened(const Link& link) {
  links_.resize(link.id + 1);
  std::vector<LinkId>& links = links_of_session_[link.session];
  if (link.new_session && !links.empty()) {
    history_->Fail("session ids are unique", link,
                   absl::StrCat("the same id as ", history_->Describe(history_->link(links[0]))));
  }
  links.push_back(link.id);
  if (model_.ended_sessions().count(link.session) > 0) return;  // ended since it was accepted
  const auto session = model_.sessions().find(link.session);
  if (session == model_.sessions().end() || session->second.password != link.password) {
    history_->Fail("an accepted session is in the log", link,
                   session == model_.sessions().end() ? "there is no such session"
                                                      : "it has another password");
  }
  if (session->second.timeout_ms != link.timeout_ms) {
    history_->Fail("the timeout of a session is as negotiated", link,
                   absl::StrCat("in the log it is ", session->second.timeout_ms, " ms"));
  }
}

void ReplayChecker::OnInvoked(const Operation& operation) {
  if (IsLogged(operation.request.kind)) links_[operation.link].logged.push_back(operation.id);
}

void ReplayChecker::OnAnswered(const Operation& operation) {
  CheckCommitted(history_->link(operation.link), operation.reply.zxid);
  CheckAnswer(operation);
  CountKeeper(operation);
  int64_t& answered_zxid = links_[operation.link].answered_zxid;
  answered_zxid = std::max(answered_zxid, operation.reply.zxid);
}

void ReplayChecker::CheckAnswer(const Operation& operation) {
  if (IsLogged(operation.request.kind)) {
    if (!IsRefused(operation)) CheckWrite(operation);
  } else if (IsRead(operation.request.kind)) {
    CheckRead(operation);
    CheckPlace(operation);
  } else if (operation.reply.error != ErrorCode::kOk) {
    history_->Fail("sync and setWatches succeed", operation, "it failed");
  } else if (operation.request.kind == OperationKind::kSync &&
             operation.reply.path != operation.request.path) {
    history_->Fail("sync returns its path", operation, operation.reply.path);
  }
}

size_t ReplayChecker::FindNext(const LinkState& state,
                               const std::function<bool(OperationId)>& is_it) const {
  for (size_t at = state.found; at < state.logged.size(); ++at) {
    if (is_it(state.logged[at])) return at;
    if (!MightBeRefused(history_->operation(state.logged[at]))) break;
  }
  return state.logged.size();
}

bool ReplayChecker::MightBeRefused(const Operation& operation) const {
  const SimEnvironment& environment = history_->environment();
  return AddsData(operation.request) &&
         environment.MightRefuseData(history_->link(operation.link).member, operation.invoked_us,
                                     environment.now_us());
}

bool ReplayChecker::IsRefused(const Operation& operation) {
  if (operation.reply.error != ErrorCode::kSystemError || !AddsData(operation.request)) {
    return false;
  }
  history_->environment().Count("client: a write is refused");
  if (refused_.contains(operation.id)) return true;
  if (!MightBeRefused(operation)) {
    history_->Fail("writes are refused only while disks are full", operation,
                   "its server knew of no full disks");
  }
  LinkState& state = links_[operation.link];
  const auto here = std::find(state.logged.begin() + static_cast<ptrdiff_t>(state.found),
                              state.logged.end(), operation.id);
  if (here == state.logged.end()) return false;
  state.logged.erase(here);
  refused_.insert(operation.id);
  return true;
}

void ReplayChecker::CheckWrite(const Operation& operation) const {
  const auto found = found_.find(operation.id);
  if (found == found_.end()) {
    history_->Fail("an answered write is in the log", operation, "it is not there");
  }
  const Found& truth = found->second;
  if (operation.reply.zxid < truth.zxid) {
    history_->Fail("a write is answered after it is applied", operation,
                   absl::StrCat("it is in the log at zxid ", truth.zxid));
  }
  if (truth.error == ErrorCode::kSessionMoved) {
    history_->Fail("a request of an outdated attachment is not answered", operation,
                   absl::StrCat("zxid ", truth.zxid, " came after the session had moved"));
  }
  Reply expected;
  expected.error = truth.error;
  const Request& request = operation.request;
  if (truth.error == ErrorCode::kOk && request.kind == OperationKind::kMulti) {
    const bool failed = std::any_of(truth.steps.begin(), truth.steps.end(),
                                    [](const auto& step) { return step.error != ErrorCode::kOk; });
    for (size_t i = 0; i < truth.steps.size(); ++i) {
      expected.steps.push_back(failed ? truth.steps[i] : Shown(request.steps[i], truth.steps[i]));
    }
  } else if (truth.error == ErrorCode::kOk && request.kind != OperationKind::kCloseSession) {
    expected.error = truth.steps.at(0).error;
    if (expected.error == ErrorCode::kOk) {
      expected.steps.push_back(Shown(request.steps[0], truth.steps[0]));
    }
  }
  if (!IsSame(operation.reply, expected)) {
    expected.zxid = truth.zxid;
    history_->Fail("a write is answered with its result", operation,
                   absl::StrCat("the log says: ", ToString(request, expected)));
  }
}

void ReplayChecker::CountKeeper(const Operation& operation) const {
  const auto count = [this](OperationKind kind, ErrorCode error) {
    history_->environment().Count(
        absl::StrCat("keeper: ", ToString(kind), ": ", std::string(tree::ToString(error))));
  };
  const Request& request = operation.request;
  const Reply& reply = operation.reply;
  if (request.kind >= OperationKind::kFilteredList &&
      request.kind <= OperationKind::kListRecursive) {
    count(request.kind, reply.error);
  }
  for (size_t i = 0; i < request.steps.size(); ++i) {
    const OperationKind kind = request.steps[i].kind;
    if (kind < OperationKind::kCheckNotExists || kind > OperationKind::kTryRemove) continue;
    count(kind, i < reply.steps.size() ? reply.steps[i].error : reply.error);
  }
}

void ReplayChecker::CheckRead(const Operation& operation) const {
  const Request& request = operation.request;
  const Reply& reply = operation.reply;
  if (request.path == kKeeperFlagsPath && reply.error != ErrorCode::kNoNode) {
    return CheckKeeperFlags(operation);
  }
  Reply expected = model_.Read(request, reply.zxid);
  const bool is_long = CostOf(expected) >= kNodesPerHold;
  if (is_long && request.kind == OperationKind::kFilteredListDetailed &&
      reply.error == ErrorCode::kOk) {
    history_->environment().Count("checker: a list with data was read in pieces");
    CheckOlderChildren(operation);
    expected.child_stats = reply.child_stats;
    expected.child_data = reply.child_data;
  }
  std::string wrong;
  if (request.kind == OperationKind::kListRecursive && reply.error == ErrorCode::kOk &&
      expected.error == ErrorCode::kOk) {
    // In a list that is read in pieces, nodes that were created or deleted meanwhile may be missing.
    if (!is_long) wrong = WrongPlaces(request, reply, expected.children);
    expected.children = reply.children;
  }
  if (wrong.empty() && IsSame(reply, expected)) return;
  history_->Fail("a read shows the tree of its zxid", operation,
                 absl::StrCat("the log says: ", ToString(request, expected), " ", wrong));
}

// The stat and the data of a child may be older than the reply if they were read in an earlier
// piece, but not older than what the client had received before the read began.
void ReplayChecker::CheckOlderChildren(const Operation& operation) const {
  const Request& request = operation.request;
  const Reply& reply = operation.reply;
  const std::string prefix = request.path == "/" ? "/" : request.path + "/";
  const int64_t from_zxid = links_[operation.link].answered_zxid;
  for (size_t i = 0; i < reply.children.size(); ++i) {
    const tree::Stat* stat = request.wants_child_stats ? &reply.child_stats[i] : nullptr;
    const auto* data = request.wants_child_data ? &reply.child_data[i] : nullptr;
    if (model_.WasSo(prefix + reply.children[i], stat, data, from_zxid, reply.zxid)) continue;
    history_->Fail(
        "a read shows the tree of its zxid", operation,
        absl::StrCat(reply.children[i], " never had the listed metadata, data and kind from zxid ",
                     from_zxid, " to ", reply.zxid));
  }
}

void ReplayChecker::CheckKeeperFlags(const Operation& operation) const {
  Reply expected;
  expected.has_data = true;
  expected.data = kKeeperFlags;
  expected.stat = tree::Stat();
  expected.stat->data_length = static_cast<int32_t>(expected.data.size());
  if (IsSame(operation.reply, expected)) return;
  history_->Fail("servers announce the operations of ClickHouse Keeper that they have", operation,
                 absl::StrCat("expected: ", ToString(operation.request, expected)));
}

void ReplayChecker::CheckPlace(const Operation& operation) const {
  const std::vector<OperationId>& logged = links_[operation.link].logged;
  const auto after = std::upper_bound(logged.begin(), logged.end(), operation.id);
  const int64_t zxid = operation.reply.zxid;
  if (after != logged.begin()) {
    const int64_t before_zxid = LogZxid(*std::prev(after));
    if (before_zxid == 0 || before_zxid > zxid) {
      history_->Fail(
          "a read sees the writes before it on its connection", operation,
          absl::StrCat("the one before is ",
                       before_zxid == 0 ? "not in the log" : absl::StrCat("at ", before_zxid)));
    }
  }
  if (after != logged.end()) {
    const int64_t after_zxid = LogZxid(*after);
    if (after_zxid != 0 && after_zxid <= zxid) {
      history_->Fail("a read does not see the writes after it on its connection", operation,
                     absl::StrCat("the one after is at zxid ", after_zxid));
    }
  }
}

void ReplayChecker::CheckCommitted(const Link& link, int64_t zxid) const {
  if (zxid <= model_.last_zxid()) return;
  history_->Fail(
      "servers show only what is committed", link,
      absl::StrCat("a reply has zxid ", zxid, ", the last committed is ", model_.last_zxid()));
}

void ReplayChecker::OnPong(const Link& link, int64_t zxid) { CheckCommitted(link, zxid); }

void ReplayChecker::OnEvent(const Link& link, const WatchEvent& event) {
  CheckCommitted(link, event.zxid);
}

void ReplayChecker::OnSessionRefused(size_t client, int64_t session) {
  if (model_.ended_sessions().count(session) > 0) return;
  history_->Fail(
      "a living session is not refused",
      absl::StrCat("client ", client, " was told that session ", session,
                   " has ended; the log up to zxid ", model_.last_zxid(), " does not end it"));
}

// --- The members ---------------------------------------------------------------------------------

void ReplayChecker::CheckTree(size_t member, const tree::Tree& tree) const {
  const int64_t zxid = tree.last_zxid().value();
  const auto fail = [&](const std::string& path, const std::string& details) {
    history_->Fail(
        "the members' trees are those that the log produces",
        absl::StrCat(
            "member ", member, " at zxid ", zxid, ", ", path, ": ", details, "\n",
            history_->Lines(
                [&](const Operation& operation) { return Touches(operation.request, path); }, 20)));
  };
  if (zxid > model_.last_zxid()) fail("/", absl::StrCat("the log ends at ", model_.last_zxid()));
  size_t count = 0;
  for (const std::string& path : model_.Paths()) {
    const Model::Node* node = model_.Find(path, zxid);
    tree::Stat stat;
    const bool exists = tree.FindStat(path, &stat);
    if (exists != (node != nullptr)) fail(path, exists ? "is there" : "is missing");
    if (node == nullptr) continue;
    ++count;
    if (stat != node->stat) {
      fail(path, absl::StrCat(ToString(stat), " instead of ", ToString(node->stat)));
    }
    std::string_view data;
    bool has_data = false;
    tree.GetData(path, {}, &data, &has_data, &stat);
    if (data != *node->data || has_data != node->has_data) {
      fail(path,
           absl::StrCat("\"", Shortened(data), "\" instead of \"", Shortened(*node->data), "\""));
    }
  }
  if (tree.node_count() != count) {
    fail("/", absl::StrCat(tree.node_count(), " nodes instead of ", count));
  }
  if (zxid < model_.last_zxid()) return;
  std::vector<int64_t> sessions;
  for (const tree::SessionInfo& session : tree.Sessions()) {
    sessions.push_back(session.id.value());
    const auto found = model_.sessions().find(session.id.value());
    if (found == model_.sessions().end()) continue;  // reported below
    if (session.last_sequence != found->second.last_sequence ||
        session.acknowledged != found->second.acknowledged) {
      fail("/", absl::StrCat("session ", session.id.value(), " has made ", session.last_sequence,
                             " numbered writes instead of ", found->second.last_sequence,
                             ", of which ", session.acknowledged, " are acknowledged instead of ",
                             found->second.acknowledged));
    }
  }
  std::vector<int64_t> expected;
  for (const auto& [id, session] : model_.sessions()) expected.push_back(id);
  std::sort(sessions.begin(), sessions.end());
  if (sessions != expected) {
    fail("/", absl::StrCat("sessions ", absl::StrJoin(sessions, " "), " instead of ",
                           absl::StrJoin(expected, " ")));
  }
}

}  // namespace quorate::simulation
