// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "consensus/core/membership.h"
#include "tree/limits.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;
using tree::EventType;

std::string ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

// Simulated clients use letters, digits and slashes, so that only the shape can be wrong.
bool IsWellFormed(std::string_view path) {
  if (path == "/") return true;
  return !path.empty() && path.front() == '/' && path.back() != '/' &&
         path.find("//") == std::string_view::npos;
}

bool IsSystemPath(std::string_view path) {
  return path == "/" || path == "/zookeeper" || path == "/zookeeper/quota" ||
         path == "/zookeeper/config";
}

bool VersionDiffers(int32_t expected, int32_t actual) {
  return expected != tree::kAnyVersion && expected != actual;
}

StepResult Failed(ErrorCode error) {
  StepResult result;
  result.error = error;
  return result;
}

}  // namespace

Model::Model() {
  for (const char* path : {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}) {
    Version version;
    version.exists = true;
    version.node.has_data = true;
    version.node.data = std::make_shared<const std::string>();
    nodes_[path].push_back(version);
  }
  // Nodes that exist from the start have no creator.
  nodes_["/"].back().node.stat.num_children = 1;
  nodes_["/zookeeper"].back().node.stat.num_children = 2;
  nodes_["/"].back().node.stat.cversion = -1;
  nodes_["/zookeeper"].back().node.stat.cversion = -2;
  nodes_["/zookeeper/config"].back().node.stat.aversion = -1;
}

// --- Looking things up ---------------------------------------------------------------------------

const Model::Version* Model::FindVersion(std::string_view path, int64_t zxid) const {
  const auto found = nodes_.find(path);
  return found == nodes_.end() ? nullptr : FindVersion(found->second, zxid);
}

const Model::Version* Model::FindVersion(const History& versions, int64_t zxid) {
  const auto after = std::upper_bound(versions.begin(), versions.end(), zxid,
                                      [](int64_t at, const Version& v) { return at < v.zxid; });
  if (after == versions.begin()) return nullptr;
  const Version& version = *std::prev(after);
  return version.exists ? &version : nullptr;
}

const Model::Version* Model::Latest(std::string_view path) const {
  const auto found = nodes_.find(path);
  if (found == nodes_.end() || found->second.empty()) return nullptr;
  return found->second.back().exists ? &found->second.back() : nullptr;
}

const Model::Node* Model::Find(std::string_view path, int64_t zxid) const {
  const Version* version = FindVersion(path, zxid);
  return version == nullptr ? nullptr : &version->node;
}

std::vector<std::string> Model::Paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, versions] : nodes_) paths.push_back(path);
  return paths;
}

Reply Model::Read(const Request& request, int64_t zxid) const {
  ASSERT(zxid <= last_zxid_);
  Reply reply;
  reply.zxid = zxid;
  const Node* node = Find(request.path, zxid);
  if (node == nullptr) {
    reply.error = ErrorCode::kNoNode;
    return reply;
  }
  if (request.kind == OperationKind::kListRecursive) {
    const std::string prefix = request.path == "/" ? "/" : request.path + "/";
    for (auto it = nodes_.upper_bound(prefix); it != nodes_.end(); ++it) {
      if (!it->first.starts_with(prefix)) break;
      if (FindVersion(it->second, zxid) != nullptr) reply.children.push_back(it->first);
    }
    return reply;
  }
  if (request.kind != OperationKind::kGetChildren || request.wants_stat) reply.stat = node->stat;
  if (request.kind == OperationKind::kGetData) {
    reply.has_data = node->has_data;
    reply.data = *node->data;
  }
  if (IsList(request.kind)) ListChildren(request, &reply);
  return reply;
}

void Model::ListChildren(const Request& request, Reply* reply) const {
  const std::string prefix = request.path == "/" ? "/" : request.path + "/";
  for (std::string& name : Children(request.path, reply->zxid)) {
    const Node& child = *Find(prefix + name, reply->zxid);
    const bool is_ephemeral = child.stat.ephemeral_owner != tree::kNoSession;
    if (request.child_kind != ChildKind::kAll &&
        is_ephemeral != (request.child_kind == ChildKind::kEphemeral)) {
      continue;
    }
    reply->children.push_back(std::move(name));
    if (request.wants_child_stats) reply->child_stats.push_back(child.stat);
    if (!request.wants_child_data) continue;
    reply->child_data.push_back(child.has_data ? std::optional(*child.data) : std::nullopt);
  }
}

std::vector<std::string> Model::Children(std::string_view of, int64_t zxid) const {
  std::vector<std::string> names;
  const std::string prefix = of == "/" ? "/" : std::string(of) + "/";
  for (auto it = nodes_.upper_bound(prefix); it != nodes_.end();) {
    const std::string& path = it->first;
    if (!path.starts_with(prefix)) break;
    const size_t slash = path.find('/', prefix.size());
    if (slash != std::string::npos) {
      // Skips the nodes below this child, which follow it in the map.
      it = nodes_.lower_bound(path.substr(0, slash) + static_cast<char>('/' + 1));
      continue;
    }
    if (FindVersion(it->second, zxid) != nullptr) names.push_back(path.substr(prefix.size()));
    ++it;
  }
  return names;
}

bool Model::WasSo(std::string_view path, const tree::Stat* stat,
                  const std::optional<std::string>* data, int64_t from_zxid,
                  int64_t to_zxid) const {
  const auto found = nodes_.find(path);
  if (found == nodes_.end()) return false;
  const History& versions = found->second;
  for (size_t i = 0; i < versions.size() && versions[i].zxid <= to_zxid; ++i) {
    const bool ends_before = i + 1 < versions.size() && versions[i + 1].zxid <= from_zxid;
    const Node& node = versions[i].node;
    if (ends_before || !versions[i].exists) continue;
    if (stat != nullptr && *stat != node.stat) continue;
    if (data != nullptr && (data->has_value() != node.has_data || data->value_or("") != *node.data))
      continue;
    return true;
  }
  return false;
}

std::vector<WatchEvent> Model::FindMissed(const Request& request, int64_t zxid) const {
  std::vector<WatchEvent> missed;
  const int64_t since = request.relative_zxid;
  const auto add = [&missed](EventType type, const std::string& path) {
    missed.push_back({-1, type, path});
  };
  for (const std::string& path : request.data_watches) {
    const Node* node = Find(path, zxid);
    if (node == nullptr) {
      add(EventType::kNodeDeleted, path);
    } else if (node->stat.mzxid.value() > since) {
      add(EventType::kNodeDataChanged, path);
    }
  }
  for (const std::string& path : request.exist_watches) {
    if (Find(path, zxid) != nullptr) add(EventType::kNodeCreated, path);
  }
  for (const std::string& path : request.child_watches) {
    const Node* node = Find(path, zxid);
    if (node == nullptr) {
      add(EventType::kNodeDeleted, path);
    } else if (node->stat.pzxid.value() > since) {
      add(EventType::kNodeChildrenChanged, path);
    }
  }
  return missed;
}

std::optional<Model::Change> Model::FirstChange(std::string_view path, Table table,
                                                int64_t zxid) const {
  const auto found = changes_.find({std::string(path), table});
  if (found == changes_.end()) return std::nullopt;
  const auto& changes = found->second;
  const auto after = std::upper_bound(changes.begin(), changes.end(), zxid,
                                      [](int64_t at, const Change& c) { return at < c.zxid; });
  if (after == changes.end()) return std::nullopt;
  return *after;
}

// --- Applying ------------------------------------------------------------------------------------

Model::Applied Model::Apply(const consensus::Entry& entry) {
  ASSERT(static_cast<int64_t>(entry.index.value()) == last_zxid_ + 1, "entries come in order");
  Applied applied;
  applied.zxid = ++last_zxid_;
  if (entry.kind == consensus::EntryKind::kMembership) {
    events_.clear();
    ApplyMembership(entry.payload.view());
    applied.events = std::move(events_);
  }
  if (entry.kind != consensus::EntryKind::kCommand) return applied;
  const std::string_view command = entry.payload.view();
  const auto header = tree::DecodeHeader(command);
  ASSERT(header.ok(), "a committed command decodes");
  applied.header = *header;
  applied.counts = Counts(*header);
  if (!applied.counts) return applied;
  events_.clear();
  const bool leaps = header->bounds_time && time_ms_ != 0 &&
                     std::abs(header->time_ms - time_ms_) > tree::kLeapMsMin;
  time_ms_ = leaps ? header->time_ms : std::max(time_ms_, header->time_ms);
  switch (header->kind) {
    case tree::CommandKind::kCreateSession:
    case tree::CommandKind::kAttachSession:
      OpenSession(command, &applied);
      break;
    case tree::CommandKind::kCloseSession:
    case tree::CommandKind::kExpireSession:
      EndSession(&applied);
      break;
    case tree::CommandKind::kRequest: {
      auto request = tree::DecodeRequest(command);
      ASSERT(request.ok(), "a committed command decodes");
      applied.request = *std::move(request);
      ApplyRequest(&applied);
      break;
    }
    case tree::CommandKind::kDeleteContainer:
      ASSERT(false, "these clients make no containers");
    case tree::CommandKind::kSequencedRequest:
      ApplySequenced(command, &applied);
      break;
  }
  applied.events = std::move(events_);
  return applied;
}

// The end of a change of members with addresses sets the data of /zookeeper/config. Its version is that
// of data that no client has written.
void Model::ApplyMembership(std::string_view payload) {
  const auto membership = consensus::DecodeMembership(payload);
  ASSERT(membership.ok(), "a committed membership decodes");
  if (membership->joint() || membership->addresses.empty()) return;
  std::string text;
  for (const auto& [member, line] : membership->addresses) {
    absl::StrAppend(&text, "server.", member.value(), "=", line, "\n");
  }
  absl::StrAppend(&text, "version=", absl::Hex(last_zxid_));
  const std::string path = "/zookeeper/config";
  Node& node = Modify(path).node;
  node.stat.version = -1;
  node.stat.mzxid = tree::Zxid(last_zxid_);
  node.stat.mtime_ms = time_ms_;
  node.stat.data_length = static_cast<int32_t>(text.size());
  node.has_data = true;
  node.data = std::make_shared<const std::string>(std::move(text));
  Tell(path, Table::kData, EventType::kNodeDataChanged);
}

// Each server numbers its commands 1, 2, 3, ... in each of its incarnations.
bool Model::Counts(const tree::CommandHeader& header) {
  if (header.proposer.member == 0) return true;
  Proposer& last = dedup_table_[header.proposer.member];
  if (header.proposer.incarnation < last.incarnation) return false;
  const bool same = header.proposer.incarnation == last.incarnation;
  if (header.sequence != (same ? last.sequence + 1 : 1)) return false;
  last = {header.proposer.incarnation, header.sequence};
  return true;
}

void Model::OpenSession(std::string_view command, Applied* applied) {
  const auto body = tree::DecodeSessionBody(command);
  ASSERT(body.ok(), "a committed command decodes");
  const int64_t id = applied->header.session.value();
  auto found = sessions_.find(id);
  if (found == sessions_.end() && applied->header.kind == tree::CommandKind::kCreateSession) {
    found = sessions_.emplace(id, Session()).first;
    found->second.password = body->password;
  }
  if (found == sessions_.end() || found->second.password != body->password) {
    applied->error = ErrorCode::kSessionExpired;
    return;
  }
  found->second.timeout_ms = body->timeout_ms;
  found->second.attach_zxid = applied->zxid;
}

void Model::EndSession(Applied* applied) {
  const tree::CommandHeader& header = applied->header;
  const auto found = sessions_.find(header.session.value());
  if (found == sessions_.end()) {
    applied->error = ErrorCode::kSessionExpired;
    return;
  }
  const bool close = header.kind == tree::CommandKind::kCloseSession;
  const bool any_attachment = close && header.attach_zxid.value() == 0;
  if (!any_attachment && header.attach_zxid.value() != found->second.attach_zxid) {
    applied->error = ErrorCode::kSessionMoved;
    return;
  }
  const std::vector<std::string> ephemerals = found->second.ephemerals;
  for (const std::string& path : ephemerals) Unlink(path);
  sessions_.erase(found);
  ended_[header.session.value()] = {applied->zxid, !close};
}

Model::Session* Model::FindAttached(Applied* applied) {
  const tree::CommandHeader& header = applied->header;
  const auto found = sessions_.find(header.session.value());
  if (found == sessions_.end()) {
    applied->error = ErrorCode::kSessionExpired;
    return nullptr;
  }
  if (found->second.attach_zxid != header.attach_zxid.value()) {
    applied->error = ErrorCode::kSessionMoved;
    return nullptr;
  }
  return &found->second;
}

void Model::ApplyRequest(Applied* applied) {
  if (FindAttached(applied) != nullptr) ApplySteps(applied);
}

// Does not model how many answers are kept and how large they are: these clients have few.
void Model::ApplySequenced(std::string_view command, Applied* applied) {
  auto sequenced = tree::DecodeSequencedRequest(command);
  ASSERT(sequenced.ok(), "a committed command decodes");
  applied->request = std::move(sequenced->request);
  applied->client_sequence = sequenced->sequence;
  Session* session = FindAttached(applied);
  if (session == nullptr) return;
  session->acknowledged =
      std::max(session->acknowledged, std::min(sequenced->acknowledged, session->last_sequence));
  session->answers.erase(session->answers.begin(),
                         session->answers.upper_bound(session->acknowledged));
  if (sequenced->sequence <= session->acknowledged) {
    applied->error = ErrorCode::kAlreadyAcknowledged;
  } else if (sequenced->sequence > session->last_sequence + 1) {
    applied->error = ErrorCode::kOutOfSequence;
  } else if (sequenced->sequence <= session->last_sequence) {
    applied->repeated = true;
    applied->steps = session->answers.at(sequenced->sequence).steps;
    applied->branch = session->answers.at(sequenced->sequence).branch;
  } else {
    ApplySteps(applied);
    session->last_sequence = sequenced->sequence;
    session->answers[sequenced->sequence] = {applied->zxid, applied->branch, applied->steps};
  }
}

void Model::ApplySteps(Applied* applied) {
  changed_paths_.clear();
  told_.clear();
  ephemerals_before_.clear();
  for (const auto& [id, session] : sessions_)
    ephemerals_before_.emplace_back(id, session.ephemerals);
  bool failed = false;
  if (applied->request.has_branches) MakeCompares(applied);
  if (applied->branch == tree::Branch::kCompares) return;
  for (const tree::Op& op : tree::OpsOf(applied->request, applied->branch)) {
    applied->steps.push_back(failed ? Failed(ErrorCode::kRuntimeInconsistency)
                                    : ApplyStep(op, applied->header.session.value()));
    failed |= applied->steps.back().error != ErrorCode::kOk;
  }
  if (!failed) return;
  Rollback();
  // Steps before the one that failed report only that they were not executed.
  for (StepResult& step : applied->steps) step = Failed(step.error);
}

StepResult Model::ApplyStep(const tree::Op& op, int64_t session) {
  switch (op.kind) {
    case tree::OpKind::kCreate:
    case tree::OpKind::kCreateIfNotExists:
      return Create(op, session);
    case tree::OpKind::kDelete:
      return Delete(op);
    case tree::OpKind::kCheckNotExists:
      return CheckNotExists(op);
    case tree::OpKind::kCheckStat:
      return CheckStat(op);
    case tree::OpKind::kTryDelete:
      return TryRemove(op);
    case tree::OpKind::kRemoveSubtree:
      return RemoveRecursive(op);
    case tree::OpKind::kRefused:
      return Failed(op.refusal);
    case tree::OpKind::kGet:
    case tree::OpKind::kExists:
    case tree::OpKind::kGetChildren:
      return Read(op);
    default:
      return Alter(op);
  }
}

StepResult Model::Create(const tree::Op& op, int64_t session) {
  const int32_t mode = static_cast<int32_t>(op.mode);
  std::string path(op.path);
  if (mode < 0 || mode > 3 || path.find('/') == std::string::npos) {
    return Failed(ErrorCode::kBadArguments);
  }
  const std::string parent_path = ParentOf(path);
  if (op.with_parents) {
    if (!IsWellFormed(path)) return Failed(ErrorCode::kBadArguments);
    const ErrorCode error = CreateParents(path);
    if (error != ErrorCode::kOk) return Failed(error);
  }
  const Version* parent = Latest(parent_path);
  if (parent == nullptr) return Failed(ErrorCode::kNoNode);
  if (mode >= 2) {
    char number[16];
    std::snprintf(number, sizeof(number), "%010d", parent->created_children);
    path += number;
  }
  if (!IsWellFormed(path)) return Failed(ErrorCode::kBadArguments);
  if (Latest(path) != nullptr) {
    if (op.kind != tree::OpKind::kCreateIfNotExists) return Failed(ErrorCode::kNodeExists);
    StepResult found;
    found.path = path;
    return found;
  }
  if (parent->node.stat.ephemeral_owner != tree::kNoSession) {
    return Failed(ErrorCode::kNoChildrenForEphemerals);
  }
  StepResult result;
  result.path = path;
  result.stat = Add(path, op.has_data, op.data, mode % 2 == 1 ? session : 0);
  return result;
}

tree::Stat Model::Add(const std::string& path, bool has_data, std::string_view data,
                      int64_t owner) {
  const std::string parent_path = ParentOf(path);
  Version& above = Modify(parent_path);
  ++above.created_children;
  ++above.node.stat.num_children;
  ++above.node.stat.cversion;
  above.node.stat.pzxid = tree::Zxid(last_zxid_);
  Version& created = Modify(path);
  created.exists = true;
  created.created_children = 0;
  created.node = Node();
  tree::Stat& stat = created.node.stat;
  stat.czxid = stat.mzxid = stat.pzxid = tree::Zxid(last_zxid_);
  stat.ctime_ms = stat.mtime_ms = time_ms_;
  stat.data_length = static_cast<int32_t>(data.size());
  created.node.has_data = has_data;
  created.node.data = std::make_shared<const std::string>(data);
  if (owner != 0) {
    stat.ephemeral_owner = tree::SessionId(owner);
    sessions_.at(owner).ephemerals.push_back(path);
  }
  const tree::Stat added = stat;
  Tell(path, Table::kData, EventType::kNodeCreated);
  Tell(parent_path, Table::kChild, EventType::kNodeChildrenChanged);
  return added;
}

ErrorCode Model::CreateParents(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string parent = path.substr(0, end);
    if (Latest(parent) != nullptr) continue;
    if (Latest(ParentOf(parent))->node.stat.ephemeral_owner != tree::kNoSession) {
      return ErrorCode::kNoChildrenForEphemerals;
    }
    Add(parent, /*has_data=*/true, {}, 0);
  }
  return ErrorCode::kOk;
}

void Model::MakeCompares(Applied* applied) const {
  applied->branch = tree::Branch::kThen;
  const std::vector<tree::Compare>& compares = applied->request.compares;
  for (size_t i = 0; i < compares.size(); ++i) {
    if (!IsWellFormed(compares[i].path)) {
      applied->branch = tree::Branch::kCompares;
      applied->steps.assign(compares.size(), Failed(ErrorCode::kRuntimeInconsistency));
      std::fill_n(applied->steps.begin(), i, Failed(ErrorCode::kOk));
      applied->steps[i] = Failed(ErrorCode::kBadArguments);
      return;
    }
    if (Holds(compares[i])) continue;
    applied->branch = tree::Branch::kOtherwise;
    return;
  }
}

bool Model::Holds(const tree::Compare& compare) const {
  const Version* version = Latest(compare.path);
  const Node* node = version == nullptr ? nullptr : &version->node;
  const tree::Stat stat = node == nullptr ? tree::Stat() : node->stat;
  int order = 0;
  const auto compare_with = [&](int64_t number) {
    order = number < compare.number ? -1 : number > compare.number ? 1 : 0;
  };
  bool needs_node = false;
  switch (compare.target) {
    case tree::CompareTarget::kExists:
      compare_with(node != nullptr ? 1 : 0);
      break;
    case tree::CompareTarget::kCzxid:
      compare_with(stat.czxid.value());
      break;
    case tree::CompareTarget::kMzxid:
      compare_with(stat.mzxid.value());
      break;
    case tree::CompareTarget::kPzxid:
      compare_with(stat.pzxid.value());
      break;
    case tree::CompareTarget::kVersion:
      compare_with(stat.version);
      needs_node = true;
      break;
    case tree::CompareTarget::kCversion:
      compare_with(stat.cversion);
      needs_node = true;
      break;
    case tree::CompareTarget::kAversion:
      compare_with(stat.aversion);
      needs_node = true;
      break;
    case tree::CompareTarget::kValue:
      order = node == nullptr ? 0 : std::string_view(*node->data).compare(compare.value);
      needs_node = true;
      break;
  }
  if (needs_node && node == nullptr) return false;
  switch (compare.relation) {
    case tree::CompareRelation::kEqual:
      return order == 0;
    case tree::CompareRelation::kNotEqual:
      return order != 0;
    case tree::CompareRelation::kLess:
      return order < 0;
    case tree::CompareRelation::kGreater:
      return order > 0;
  }
  ASSERT(false, "decoding refuses other relations");
}

StepResult Model::Read(const tree::Op& op) const {
  if (!IsWellFormed(op.path)) return Failed(ErrorCode::kBadArguments);
  const Version* version = Latest(op.path);
  if (version == nullptr) {
    return Failed(op.kind == tree::OpKind::kExists ? ErrorCode::kOk : ErrorCode::kNoNode);
  }
  StepResult result;
  result.found = true;
  result.stat = version->node.stat;
  if (op.kind == tree::OpKind::kGet) result.data = *version->node.data;
  if (op.kind == tree::OpKind::kGetChildren) result.children = Children(op.path, last_zxid_);
  return result;
}

StepResult Model::Delete(const tree::Op& op) {
  const std::string path(op.path);
  if (path.find('/') == std::string::npos || IsSystemPath(path)) {
    return Failed(ErrorCode::kBadArguments);
  }
  const Version* node = Latest(path);
  if (node == nullptr || !IsWellFormed(path)) return Failed(ErrorCode::kNoNode);
  if (VersionDiffers(op.version, node->node.stat.version)) return Failed(ErrorCode::kBadVersion);
  if (node->node.stat.num_children > 0) return Failed(ErrorCode::kNotEmpty);
  Unlink(path);
  return StepResult();
}

// setData, setAcl and check.
StepResult Model::Alter(const tree::Op& op) {
  const std::string path(op.path);
  if (!IsWellFormed(path)) return Failed(ErrorCode::kBadArguments);
  const Version* latest = Latest(path);
  if (latest == nullptr) return Failed(ErrorCode::kNoNode);
  const bool of_acl = op.kind == tree::OpKind::kSetAcl;
  const int32_t version = of_acl ? latest->node.stat.aversion : latest->node.stat.version;
  if (VersionDiffers(op.version, version)) return Failed(ErrorCode::kBadVersion);
  StepResult result;
  if (op.kind == tree::OpKind::kCheck) return result;
  Node& node = Modify(path).node;
  if (of_acl) {
    ++node.stat.aversion;
  } else {
    ++node.stat.version;
    node.stat.mzxid = tree::Zxid(last_zxid_);
    node.stat.mtime_ms = time_ms_;
    node.stat.data_length = static_cast<int32_t>(op.data.size());
    node.has_data = op.has_data;
    node.data = std::make_shared<const std::string>(op.data);
    Tell(path, Table::kData, EventType::kNodeDataChanged);
  }
  result.stat = node.stat;
  return result;
}

StepResult Model::CheckNotExists(const tree::Op& op) const {
  if (!IsWellFormed(op.path)) return Failed(ErrorCode::kBadArguments);
  const Version* node = Latest(op.path);
  const bool exists = node != nullptr && !VersionDiffers(op.version, node->node.stat.version);
  return Failed(exists ? ErrorCode::kNodeExists : ErrorCode::kOk);
}

StepResult Model::CheckStat(const tree::Op& op) const {
  if (!IsWellFormed(op.path)) return Failed(ErrorCode::kBadArguments);
  const Version* node = Latest(op.path);
  if (node == nullptr) return Failed(ErrorCode::kNoNode);
  const tree::Stat& stat = node->node.stat;
  // With the fields that match any value taken from the stat, the two must be equal.
  tree::Stat expected = op.expected;
  const auto fill = [](auto* field, auto value) {
    if (*field == decltype(value)(-1)) *field = value;
  };
  fill(&expected.czxid, stat.czxid);
  fill(&expected.mzxid, stat.mzxid);
  fill(&expected.ctime_ms, stat.ctime_ms);
  fill(&expected.mtime_ms, stat.mtime_ms);
  fill(&expected.version, stat.version);
  fill(&expected.cversion, stat.cversion);
  fill(&expected.aversion, stat.aversion);
  fill(&expected.ephemeral_owner, stat.ephemeral_owner);
  fill(&expected.data_length, stat.data_length);
  fill(&expected.num_children, stat.num_children);
  fill(&expected.pzxid, stat.pzxid);
  const bool is_equal = expected == stat && !VersionDiffers(op.version, stat.version);
  return Failed(is_equal ? ErrorCode::kOk : ErrorCode::kBadVersion);
}

// Differs from a delete in that a node that is missing, has another version or has children is no
// error.
StepResult Model::TryRemove(const tree::Op& op) {
  if (!IsWellFormed(op.path)) return Failed(ErrorCode::kBadArguments);
  const ErrorCode error = Delete(op).error;
  return Failed(error == ErrorCode::kBadArguments ? error : ErrorCode::kOk);
}

// Children are removed before their parent, in the order of their names.
StepResult Model::RemoveRecursive(const tree::Op& op) {
  const std::string top(op.path);
  if (!IsWellFormed(top) || IsSystemPath(top) || top == "/keeper") {
    return Failed(ErrorCode::kBadArguments);
  }
  if (Latest(top) == nullptr) return StepResult();
  std::vector<std::string> removed;
  const std::function<void(const std::string&)> collect = [&](const std::string& path) {
    for (const std::string& name : Children(path, last_zxid_)) collect(path + "/" + name);
    removed.push_back(path);
  };
  collect(top);
  // These clients make no subtree that is too large for the servers' own limits.
  ASSERT(removed.size() <= tree::kDeleteRecursiveMax, "a tree of a few names");
  if (removed.size() > op.limit) return Failed(ErrorCode::kNotEmpty);
  for (const std::string& path : removed) Unlink(path);
  return StepResult();
}

void Model::Unlink(const std::string& path) {
  const int64_t owner = Latest(path)->node.stat.ephemeral_owner.value();
  if (owner != 0) std::erase(sessions_.at(owner).ephemerals, path);
  Modify(path).exists = false;
  const std::string parent_path = ParentOf(path);
  Version& above = Modify(parent_path);
  --above.node.stat.num_children;
  ++above.node.stat.cversion;
  above.node.stat.pzxid = tree::Zxid(last_zxid_);
  Tell(path, Table::kData, EventType::kNodeDeleted);
  Tell(path, Table::kChild, EventType::kNodeDeleted);
  Tell(parent_path, Table::kChild, EventType::kNodeChildrenChanged);
}

Model::Version& Model::Modify(const std::string& path) {
  History& versions = nodes_[path];
  Version next = versions.empty() ? Version() : versions.back();
  next.zxid = last_zxid_;
  versions.push_back(std::move(next));
  changed_paths_.push_back(path);
  return versions.back();
}

void Model::Tell(const std::string& path, Table table, EventType type) {
  changes_[{path, table}].push_back({last_zxid_, type});
  if (table == Table::kData) events_.push_back({type, path});
  told_.emplace_back(path, table);
}

void Model::Rollback() {
  for (const std::string& path : changed_paths_) {
    nodes_[path].pop_back();
    if (nodes_[path].empty()) nodes_.erase(path);
  }
  for (const auto& told : told_) changes_[told].pop_back();
  events_.clear();
  for (auto& [id, ephemerals] : ephemerals_before_) {
    sessions_.at(id).ephemerals = std::move(ephemerals);
  }
}

}  // namespace quorate::simulation
