// SPDX-License-Identifier: Apache-2.0

// Random commands for tests, applied to trees and to a simple model. The model is a map from whole
// paths to nodes; before a multi, the model copies the map.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tree {

struct ModelNode {
  bool has_data = true;
  std::string data;
  std::vector<Acl> acl = OpenAcl();
  Zxid czxid, mzxid, pzxid;
  int64_t ctime_ms = 0, mtime_ms = 0;
  int32_t version = 0, creates = 0, aversion = 0;
  SessionId owner;  // session of an ephemeral node
  bool container = false;
  int64_t ttl_ms = 0;  // 0 if the node has no TTL
};

struct ModelAnswer {
  Zxid zxid;
  std::vector<OpResult> ops;
};

struct ModelSession {
  std::string password;
  int32_t timeout_ms = 0;
  Zxid attach_zxid;
  uint16_t member = 0;
  std::vector<std::string> ephemerals;
  uint64_t last_sequence = 0;
  uint64_t acknowledged = 0;
  std::map<uint64_t, ModelAnswer> answers = {};  // the responses to (acknowledged, last_sequence]
};

// The state that a failed multi must not change.
struct State {
  std::map<std::string, ModelNode> nodes;
  std::map<SessionId, ModelSession> sessions;
  std::vector<std::string> events;
};

inline std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

class Model {
 public:
  Model() {
    for (const char* path : {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}) {
      state.nodes[path];
    }
    state.nodes["/zookeeper/config"].aversion = -1;
    state.nodes["/zookeeper/config"].acl = {MakeAcl(1, "world", "anyone")};
  }

  ModelNode* Find(const std::string& path) {
    const auto found = state.nodes.find(path.empty() ? "/" : path);
    return found == state.nodes.end() ? nullptr : &found->second;
  }

  std::vector<std::string> Children(const std::string& path) const {
    const std::string prefix = path == "/" ? "/" : path + "/";
    std::vector<std::string> names;
    for (const auto& [at, node] : state.nodes) {
      if (at.size() > prefix.size() && at.starts_with(prefix) &&
          at.find('/', prefix.size()) == std::string::npos) {
        names.push_back(at.substr(prefix.size()));
      }
    }
    return names;
  }

  Stat StatOf(const std::string& path) {
    const ModelNode& node = *Find(path);
    const int32_t children = static_cast<int32_t>(Children(path).size());
    Stat stat;
    stat.czxid = node.czxid;
    stat.mzxid = node.mzxid;
    stat.pzxid = node.pzxid;
    stat.ctime_ms = node.ctime_ms;
    stat.mtime_ms = node.mtime_ms;
    stat.version = node.version;
    stat.cversion = 2 * node.creates - children;
    stat.aversion = node.aversion;
    stat.ephemeral_owner = node.owner;
    stat.data_length = static_cast<int32_t>(node.data.size());
    stat.num_children = children;
    return stat;
  }

  static bool Allowed(const ModelNode& node, const std::vector<Identity>& who, int32_t wanted) {
    for (const Acl& acl : node.acl) {
      if ((acl.permissions & wanted) == 0) continue;
      if (acl.identity.scheme == "world") return true;
      if (std::find(who.begin(), who.end(), acl.identity) != who.end()) return true;
    }
    return false;
  }

  // Returns whether a path is legal. The paths of this test contain no illegal characters.
  static bool Valid(const std::string& path) {
    if (path == "/") return true;
    if (path.empty() || path[0] != '/') return false;
    std::string rest = path.substr(1) + "/";
    for (size_t at = 0; at < rest.size();) {
      const size_t end = rest.find('/', at);
      const std::string segment = rest.substr(at, end - at);
      if (segment.empty() || segment == "." || segment == "..") return false;
      at = end + 1;
    }
    return true;
  }

  // Resolves an ACL. The lists of this test have entries of world, digest and auth, and one invalid
  // entry.
  static bool Resolve(const std::vector<Acl>& acl, const std::vector<Identity>& who,
                      std::vector<Acl>* out) {
    std::vector<Acl> seen;
    for (const Acl& entry : acl) {
      if (std::find(seen.begin(), seen.end(), entry) != seen.end()) continue;
      seen.push_back(entry);
      if (entry.identity.scheme == "bad") return false;
      if (entry.identity.scheme != "auth") {
        out->push_back(entry);
        continue;
      }
      if (who.empty()) return false;
      for (const Identity& identity : who) out->push_back(Acl{entry.permissions, identity});
    }
    return !out->empty();
  }

  // Returns the longest path that has limits and is `path` or above it; "" if there is none.
  std::string QuotaOf(std::string path) {
    while (path.size() > 1 && Find("/zookeeper/quota" + path + "/zookeeper_limits") == nullptr) {
      path = ParentOf(path);
    }
    return path == "/" ? "" : path;
  }

  // Returns the number behind `key`. The texts of this test have a number behind every key, or no
  // key at all.
  static int64_t NumberIn(const std::string& text, const std::string& key) {
    std::string pairs = "," + text;
    std::replace(pairs.begin(), pairs.end(), ';', ',');
    const size_t at = pairs.find("," + key + "=");
    return at == std::string::npos ? -1 : std::atoll(pairs.c_str() + at + key.size() + 2);
  }

  void AddToQuota(const std::string& path, int64_t bytes, int64_t nodes) {
    const std::string quota = QuotaOf(path);
    ModelNode* stats =
        quota.empty() ? nullptr : Find("/zookeeper/quota" + quota + "/zookeeper_stats");
    if (stats == nullptr) return;
    bytes += NumberIn(stats->data, "bytes");
    nodes += NumberIn(stats->data, "count");
    stats->has_data = true;
    stats->data = "count=" + std::to_string(nodes) + ",bytes=" + std::to_string(bytes);
  }

  ErrorCode CheckQuota(const std::string& path, int64_t bytes, int64_t nodes) {
    const std::string quota = enforces_quota ? QuotaOf(path) : "";
    const std::string prefix = "/zookeeper/quota" + quota;
    if (quota.empty() || Find(prefix + "/zookeeper_stats") == nullptr) return ErrorCode::kOk;
    const std::string limits = Find(prefix + "/zookeeper_limits")->data;
    const std::string stats = Find(prefix + "/zookeeper_stats")->data;
    const int64_t count_limit = NumberIn(limits, "countHardLimit");
    const int64_t byte_limit = NumberIn(limits, "byteHardLimit");
    const bool many = nodes != 0 && NumberIn(stats, "count") + nodes > count_limit;
    const bool large = bytes != 0 && NumberIn(stats, "bytes") + bytes > byte_limit;
    const bool refused = (many && count_limit != -1) || (large && byte_limit != -1);
    return refused ? ErrorCode::kQuotaExceeded : ErrorCode::kOk;
  }

  // Initializes new statistics by counting nodes.
  void CountQuota(const std::string& path) {
    const std::string quota = ParentOf(path).substr(std::string("/zookeeper/quota").size());
    if (quota.empty()) return;
    int64_t count = 0;
    int64_t bytes = 0;
    for (const auto& [at, node] : state.nodes) {
      if (at != quota && !at.starts_with(quota + "/")) continue;
      ++count;
      bytes += static_cast<int64_t>(node.data.size());
    }
    Find(path)->has_data = true;
    Find(path)->data = "count=" + std::to_string(count) + ",bytes=" + std::to_string(bytes);
  }

  void Remove(const std::string& path, Zxid zxid) {
    const ModelNode node = *Find(path);
    if (node.owner != kNoSession) std::erase(state.sessions[node.owner].ephemerals, path);
    state.nodes.erase(path);
    Find(ParentOf(path))->pzxid = zxid;
    state.events.push_back("deleted " + path);
    AddToQuota(path, -static_cast<int64_t>(node.data.size()), -1);
  }

  ErrorCode Create(const Op& op, const std::vector<Identity>& who, SessionId session, Zxid zxid,
                   OpResult* result) {
    std::string path(op.path);
    const int32_t mode = static_cast<int32_t>(op.mode);
    const bool is_local = session != kNoSession && !state.sessions.contains(session);
    if (is_local && (mode == 1 || mode == 3)) return ErrorCode::kEphemeralOnLocalSession;
    const bool has_ttl = op.kind == OpKind::kCreateTtl;
    if (mode < 0 || mode > 6 || (mode >= 5) != has_ttl) return ErrorCode::kBadArguments;
    if (has_ttl && (op.ttl_ms < 1 || op.ttl_ms > 0xFFFFFFFFFF)) return ErrorCode::kBadArguments;
    if (path.find('/') == std::string::npos) return ErrorCode::kBadArguments;
    const bool takes_ephemerals =
        op.kind == OpKind::kCreate || op.kind == OpKind::kCreateIfNotExists;
    const bool ephemeral = takes_ephemerals && (mode == 1 || mode == 3);
    if (ephemeral && session == kNoSession) return ErrorCode::kBadArguments;
    ModelNode node;
    node.acl.clear();
    if (!Resolve(op.acl, who, &node.acl)) return ErrorCode::kInvalidAcl;
    ModelNode* parent = Find(ParentOf(path));
    if (parent == nullptr) return ErrorCode::kNoNode;
    if (!Allowed(*parent, who, permission::kCreate)) return ErrorCode::kNoAuth;
    if (mode == 2 || mode == 3 || mode == 6) {
      char number[16];
      std::snprintf(number, sizeof(number), "%010d", parent->creates);
      path += number;
    }
    if (!Valid(path)) return ErrorCode::kBadArguments;
    if (Find(path) != nullptr) {
      if (op.kind != OpKind::kCreateIfNotExists) return ErrorCode::kNodeExists;
      result->path = path;
      return ErrorCode::kOk;
    }
    if (parent->owner != kNoSession) return ErrorCode::kNoChildrenForEphemerals;
    const int64_t bytes = static_cast<int64_t>(op.data.size());
    if (const ErrorCode error = CheckQuota(path, bytes, 1); error != ErrorCode::kOk) return error;
    node.has_data = op.has_data;
    node.data = op.data;
    node.czxid = node.mzxid = node.pzxid = zxid;
    node.ctime_ms = node.mtime_ms = time_ms;
    if (has_ttl) {
      node.ttl_ms = op.ttl_ms;
    } else if (op.kind == OpKind::kCreateContainer) {
      node.container = true;
    } else if (ephemeral) {
      node.owner = session;
      state.sessions[session].ephemerals.push_back(path);
    }
    ++parent->creates;
    parent->pzxid = zxid;
    state.nodes[path] = node;
    state.events.push_back("created " + path);
    result->path = path;
    result->stat = StatOf(path);
    result->stat.pzxid = zxid;
    const bool is_stats = path.ends_with("/zookeeper_stats");
    if (is_stats && path.starts_with("/zookeeper/quota/")) CountQuota(path);
    AddToQuota(path, bytes, 1);
    return ErrorCode::kOk;
  }

  // Makes the checks that both kinds of delete have in common.
  ErrorCode CheckDelete(const Op& op, const std::vector<Identity>& who) {
    const std::string path(op.path);
    static const std::set<std::string> kSystem = {"/", "/zookeeper", "/zookeeper/quota",
                                                  "/zookeeper/config"};
    if (path.find('/') == std::string::npos || kSystem.count(path) > 0) {
      return ErrorCode::kBadArguments;
    }
    const ModelNode* parent = Find(ParentOf(path));
    if (parent == nullptr) return ErrorCode::kNoNode;
    if (!Allowed(*parent, who, permission::kDelete)) return ErrorCode::kNoAuth;
    const ModelNode* node = Find(path);
    if (node == nullptr) return ErrorCode::kNoNode;
    if (op.version != -1 && op.version != node->version) return ErrorCode::kBadVersion;
    return ErrorCode::kOk;
  }

  ErrorCode Delete(const Op& op, const std::vector<Identity>& who, Zxid zxid) {
    if (const ErrorCode error = CheckDelete(op, who); error != ErrorCode::kOk) return error;
    const std::string path(op.path);
    if (!Children(path).empty()) return ErrorCode::kNotEmpty;
    Remove(path, zxid);
    return ErrorCode::kOk;
  }

  // Returns the node and all nodes below it, each after its children.
  std::vector<std::string> Subtree(const std::string& path) const {
    std::vector<std::string> paths;
    for (const std::string& name : Children(path)) {
      for (const std::string& below : Subtree(path + "/" + name)) paths.push_back(below);
    }
    paths.push_back(path);
    return paths;
  }

  // Does not check the limits: this test has far fewer nodes than one request may remove.
  ErrorCode DeleteRecursive(const Op& op, const std::vector<Identity>& who, Zxid zxid,
                            OpResult* result) {
    if (const ErrorCode error = CheckDelete(op, who); error != ErrorCode::kOk) return error;
    const std::vector<std::string> paths = Subtree(std::string(op.path));
    for (const std::string& path : paths) {
      const bool allowed = Allowed(*Find(path), who, permission::kDelete);
      if (!allowed && !Children(path).empty()) return ErrorCode::kNoAuth;
    }
    for (const std::string& path : paths) Remove(path, zxid);
    result->removed = paths.size();
    return ErrorCode::kOk;
  }

  // Does not check the limits of tree/limits.h, only that of the operation.
  ErrorCode RemoveSubtree(const Op& op, const std::vector<Identity>& who, Zxid zxid,
                          OpResult* result) {
    if (!Valid(std::string(op.path)) || op.path == "/keeper") return ErrorCode::kBadArguments;
    const ErrorCode error = CheckDelete(op, who);
    if (error != ErrorCode::kOk) return error == ErrorCode::kNoNode ? ErrorCode::kOk : error;
    const std::vector<std::string> paths = Subtree(std::string(op.path));
    if (paths.size() > op.limit) return ErrorCode::kNotEmpty;
    for (const std::string& path : paths) {
      if (!Allowed(*Find(path), who, permission::kDelete)) return ErrorCode::kNoAuth;
    }
    for (const std::string& path : paths) Remove(path, zxid);
    result->removed = paths.size();
    return ErrorCode::kOk;
  }

  ErrorCode TryDelete(const Op& op, const std::vector<Identity>& who, Zxid zxid, OpResult* result) {
    if (!Valid(std::string(op.path))) return ErrorCode::kBadArguments;
    const ErrorCode error = Delete(op, who, zxid);
    if (error == ErrorCode::kOk) result->removed = 1;
    const bool refused = error == ErrorCode::kBadArguments || error == ErrorCode::kNoAuth;
    return refused ? error : ErrorCode::kOk;
  }

  ErrorCode CheckNotExists(const Op& op, const std::vector<Identity>& who) {
    if (!Valid(std::string(op.path))) return ErrorCode::kBadArguments;
    const ModelNode* node = Find(std::string(op.path));
    if (node == nullptr) return ErrorCode::kOk;
    if (!Allowed(*node, who, permission::kRead)) return ErrorCode::kNoAuth;
    const bool differs = op.version != -1 && op.version != node->version;
    return differs ? ErrorCode::kOk : ErrorCode::kNodeExists;
  }

  // Calls `call` with each field of a stat.
  template <typename Call>
  static void ForEachField(Stat* stat, Call call) {
    call(&stat->czxid), call(&stat->mzxid), call(&stat->pzxid);
    call(&stat->ctime_ms), call(&stat->mtime_ms);
    call(&stat->version), call(&stat->cversion), call(&stat->aversion);
    call(&stat->ephemeral_owner), call(&stat->data_length), call(&stat->num_children);
  }

  ErrorCode CheckStat(const Op& op, const std::vector<Identity>& who) {
    const std::string path(op.path);
    if (!Valid(path)) return ErrorCode::kBadArguments;
    const ModelNode* node = Find(path);
    if (node == nullptr) return ErrorCode::kNoNode;
    if (!Allowed(*node, who, permission::kRead)) return ErrorCode::kNoAuth;
    if (op.version != -1 && op.version != node->version) return ErrorCode::kBadVersion;
    // A field of -1 in what is expected is replaced by -1 in both.
    Stat expected = op.expected;
    std::vector<bool> is_any;
    ForEachField(&expected, [&](auto* field) {
      is_any.push_back(*field == std::remove_pointer_t<decltype(field)>(-1));
    });
    Stat actual = StatOf(path);
    size_t next = 0;
    ForEachField(&actual, [&](auto* field) {
      if (is_any[next++]) *field = std::remove_pointer_t<decltype(field)>(-1);
    });
    return actual == expected ? ErrorCode::kOk : ErrorCode::kBadVersion;
  }

  bool IsExpired(const std::string& path, int64_t now_ms) {
    const ModelNode& node = *Find(path);
    const bool due =
        node.container ? node.creates > 0 : node.ttl_ms > 0 && now_ms - node.mtime_ms > node.ttl_ms;
    return due && Children(path).empty();
  }

  void DeleteContainer(const std::string& path, Zxid zxid) {
    if (Find(path) != nullptr && IsExpired(path, time_ms)) Remove(path, zxid);
  }

  // Applies a setData, check or setAcl.
  ErrorCode Change(const Op& op, const std::vector<Identity>& who, Zxid zxid, OpResult* result) {
    const std::string path(op.path);
    if (!Valid(path)) return ErrorCode::kBadArguments;
    std::vector<Acl> acl;
    const bool set_acl = op.kind == OpKind::kSetAcl;
    if (set_acl && !Resolve(op.acl, who, &acl)) return ErrorCode::kInvalidAcl;
    ModelNode* node = Find(path);
    if (node == nullptr) return ErrorCode::kNoNode;
    const int32_t wanted = set_acl                     ? permission::kAdmin
                           : op.kind == OpKind::kCheck ? permission::kRead
                                                       : permission::kWrite;
    if (!Allowed(*node, who, wanted)) return ErrorCode::kNoAuth;
    const bool set_data = op.kind == OpKind::kSetData;
    const int64_t bytes = static_cast<int64_t>(op.data.size() - node->data.size());
    if (set_data && CheckQuota(path, bytes, 0) != ErrorCode::kOk) return ErrorCode::kQuotaExceeded;
    int32_t& version = set_acl ? node->aversion : node->version;
    if (op.version != -1 && op.version != version) return ErrorCode::kBadVersion;
    if (op.kind == OpKind::kCheck) return ErrorCode::kOk;
    ++version;
    if (set_acl) {
      node->acl = acl;
    } else {
      node->has_data = op.has_data;
      node->data = op.data;
      node->mzxid = zxid;
      node->mtime_ms = time_ms;
      state.events.push_back("changed " + path);
    }
    result->stat = StatOf(path);
    if (set_data) AddToQuota(path, bytes, 0);
    return ErrorCode::kOk;
  }

  // Returns whether the node exists and has children, other than the system nodes.
  static bool ParentOfSome(const State& state, std::string_view path) {
    const auto below = state.nodes.lower_bound(std::string(path) + "/");
    return path.size() > 1 && !path.starts_with("/zookeeper") && below != state.nodes.end() &&
           below->first.starts_with(std::string(path) + "/");
  }

  ErrorCode CheckAbsent(const Op& op) {
    const std::string path(op.path);
    if (!Valid(path)) return ErrorCode::kBadArguments;
    return Find(path) == nullptr ? ErrorCode::kOk : ErrorCode::kNodeExists;
  }

  ErrorCode CheckCreated(const Op& op) {
    const std::string path(op.path);
    if (!Valid(path)) return ErrorCode::kBadArguments;
    const ModelNode* node = Find(path);
    if (node == nullptr) return ErrorCode::kNoNode;
    return node->czxid == op.created_zxid ? ErrorCode::kOk : ErrorCode::kBadVersion;
  }

  static bool IsCreate(OpKind kind) {
    return kind == OpKind::kCreate || kind == OpKind::kCreateContainer ||
           kind == OpKind::kCreateTtl || kind == OpKind::kCreateIfNotExists;
  }

  ErrorCode ApplyOp(const Op& op, const std::vector<Identity>& who, SessionId session, Zxid zxid,
                    OpResult* result) {
    if (IsCreate(op.kind)) return Create(op, who, session, zxid, result);
    if (op.kind == OpKind::kDelete) return Delete(op, who, zxid);
    if (op.kind == OpKind::kDeleteRecursive) return DeleteRecursive(op, who, zxid, result);
    if (op.kind == OpKind::kCheckAbsent) return CheckAbsent(op);
    if (op.kind == OpKind::kCheckCreated) return CheckCreated(op);
    if (op.kind == OpKind::kRefused) return op.refusal;
    if (op.kind == OpKind::kCheckNotExists) return CheckNotExists(op, who);
    if (op.kind == OpKind::kRemoveSubtree) return RemoveSubtree(op, who, zxid, result);
    if (op.kind == OpKind::kCheckStat) return CheckStat(op, who);
    if (op.kind == OpKind::kTryDelete) return TryDelete(op, who, zxid, result);
    return Change(op, who, zxid, result);
  }

  ErrorCode CheckSession(SessionId session, Zxid attach_zxid) {
    const auto found = state.sessions.find(session);
    if (found == state.sessions.end()) return ErrorCode::kSessionExpired;
    return found->second.attach_zxid == attach_zxid ? ErrorCode::kOk : ErrorCode::kSessionMoved;
  }

  ErrorCode ApplyRequest(const Request& request, SessionId session, Zxid attach_zxid, Zxid zxid,
                         std::vector<OpResult>* results) {
    const bool is_local = !state.sessions.contains(session) && attach_zxid == Zxid(0);
    const bool has_session = (session != kNoSession || attach_zxid != Zxid(0)) && !is_local;
    const ErrorCode refused = has_session ? CheckSession(session, attach_zxid) : ErrorCode::kOk;
    if (refused != ErrorCode::kOk) return refused;
    const State before = state;
    enforces_quota = request.enforces_quota;
    results->resize(request.ops.size());
    for (size_t i = 0; i < request.ops.size(); ++i) {
      OpResult* result = &(*results)[i];
      result->error = ApplyOp(request.ops[i], request.identities, session, zxid, result);
      if (result->error == ErrorCode::kOk) continue;
      state = before;
      for (size_t j = 0; j < i; ++j) (*results)[j] = OpResult{};
      for (size_t j = i + 1; j < results->size(); ++j) {
        (*results)[j].error = ErrorCode::kRuntimeInconsistency;
      }
      break;
    }
    return ErrorCode::kOk;
  }

  // Applies a numbered request. Does not check the limits for responses: this test stays far below
  // them.
  ApplyResult ApplySequenced(const SequencedRequest& sequenced, SessionId session, Zxid attach_zxid,
                             Zxid zxid) {
    ApplyResult result;
    result.zxid = zxid;
    result.client_sequence = sequenced.sequence;
    result.error = CheckSession(session, attach_zxid);
    if (result.error != ErrorCode::kOk) return result;
    ModelSession& known = state.sessions[session];
    known.acknowledged =
        std::max(known.acknowledged, std::min(sequenced.acknowledged, known.last_sequence));
    known.answers.erase(known.answers.begin(), known.answers.upper_bound(known.acknowledged));
    if (sequenced.sequence <= known.acknowledged) {
      result.error = ErrorCode::kAlreadyAcknowledged;
    } else if (sequenced.sequence > known.last_sequence + 1) {
      result.error = ErrorCode::kOutOfSequence;
    } else if (const auto at = known.answers.find(sequenced.sequence); at != known.answers.end()) {
      result.repeated = true;
      result.zxid = at->second.zxid;
      result.ops = at->second.ops;
    } else {
      ApplyRequest(sequenced.request, session, attach_zxid, zxid, &result.ops);
      // `known` must not be used here: a failed request replaces the state, and with it the
      // session.
      ModelSession& after = state.sessions[session];
      after.last_sequence = sequenced.sequence;
      after.answers[sequenced.sequence] = {zxid, result.ops};
    }
    return result;
  }

  ErrorCode OpenSession(bool create, SessionId id, const std::string& password, int32_t timeout_ms,
                        uint16_t member, Zxid zxid) {
    auto found = state.sessions.find(id);
    if (found == state.sessions.end() && create) {
      found = state.sessions.emplace(id, ModelSession{password, 0, Zxid(0), 0, {}}).first;
    }
    if (found == state.sessions.end() || found->second.password != password) {
      return ErrorCode::kSessionExpired;
    }
    found->second.timeout_ms = timeout_ms;
    found->second.attach_zxid = zxid;
    found->second.member = member;
    state.events.push_back("attached " + std::to_string(id.value()));
    return ErrorCode::kOk;
  }

  ErrorCode EndSession(bool close, SessionId id, Zxid attach_zxid, Zxid zxid) {
    const auto found = state.sessions.find(id);
    if (found == state.sessions.end()) return ErrorCode::kSessionExpired;
    if (attach_zxid != found->second.attach_zxid && !(close && attach_zxid == Zxid(0))) {
      return ErrorCode::kSessionMoved;
    }
    const std::vector<std::string> ephemerals = found->second.ephemerals;
    for (const std::string& path : ephemerals) Remove(path, zxid);
    state.sessions.erase(id);
    state.events.push_back("closed " + std::to_string(id.value()));
    return ErrorCode::kOk;
  }

  State state;
  int64_t time_ms = 0;
  bool enforces_quota = false;
};

// Makes random commands, and applies each to the model and to two trees. Where one tree gets a
// duplicate command, the other gets an entry without a command.
class Run {
 public:
  explicit Run(uint64_t seed) : random_(seed) {}

  void Step() {
    model_.state.events.clear();
    listener_ = RecordingListener();
    time_ms_ += static_cast<int64_t>(Pick(5)) - 1;
    model_.time_ms = std::max(model_.time_ms, time_ms_);
    const uint64_t what = Pick(100);
    if (what < 3) {
      OpenSession(true);
    } else if (what < 5) {
      OpenSession(false);
    } else if (what < 7) {
      EndSession();
    } else if (what < 10 && !sent_.empty()) {
      Duplicate();
    } else if (what < 16) {
      DeleteContainer();
    } else if (what < 32) {
      DoSequenced();
    } else {
      DoRequest();
    }
    if (++steps_ % 16 == 0) Compare();
  }

  // Returns a tree, which the caller may replace by an equal one.
  std::unique_ptr<Tree>& first() { return first_; }
  std::unique_ptr<Tree>& second() { return second_; }

  void Compare() {
    REQUIRE(first_->digest() == first_->ComputeDigest());
    REQUIRE(first_->digest() == second_->digest());
    REQUIRE(first_->time_ms() == model_.time_ms);
    const std::vector<Identity> super = {{"super", ""}};
    size_t data_bytes = 0;
    size_t ephemerals = 0;
    for (const auto& [path, node] : model_.state.nodes) {
      CAPTURE(path);
      Stat stat;
      std::string_view data;
      bool has_data = false;
      REQUIRE(first_->GetData(path, super, &data, &has_data, &stat) == ErrorCode::kOk);
      REQUIRE(stat == model_.StatOf(path));
      REQUIRE(data == node.data);
      REQUIRE(has_data == node.has_data);
      std::vector<Acl> acl;
      REQUIRE(first_->GetAcl(path, super, &acl, &stat) == ErrorCode::kOk);
      REQUIRE(acl == node.acl);
      std::vector<std::string> names;
      const auto add = [&names](std::string_view name) { names.emplace_back(name); };
      REQUIRE(first_->GetChildren(path, super, add, &stat) == ErrorCode::kOk);
      std::sort(names.begin(), names.end());
      REQUIRE(names == model_.Children(path));
      data_bytes += path.size() - path.rfind('/') - 1 + data.size();
      ephemerals += node.owner == kNoSession ? 0 : 1;
    }
    CompareExpired();
    REQUIRE(first_->node_count() == model_.state.nodes.size());
    REQUIRE(first_->data_bytes() == data_bytes);
    REQUIRE(first_->ephemeral_count() == ephemerals);
    REQUIRE(first_->session_count() == model_.state.sessions.size());
    for (const auto& [id, session] : model_.state.sessions) {
      SessionInfo info;
      REQUIRE(first_->FindSession(id, &info));
      REQUIRE(info.timeout_ms == session.timeout_ms);
      REQUIRE(info.attach_zxid == session.attach_zxid);
      REQUIRE(info.member == session.member);
      REQUIRE(info.ephemerals == session.ephemerals.size());
      REQUIRE(info.last_sequence == session.last_sequence);
      REQUIRE(info.acknowledged == session.acknowledged);
      REQUIRE(first_->CheckPassword(id, session.password));
      REQUIRE(first_->Ephemerals(id) == session.ephemerals);
    }
  }

  // Checks that FindExpired returns the nodes that a search through all nodes finds, in the same
  // order.
  void CompareExpired() {
    const int64_t now_ms = model_.time_ms + static_cast<int64_t>(Pick(100));
    std::set<std::string> expected;
    for (const auto& [path, node] : model_.state.nodes) {
      if (model_.IsExpired(path, now_ms)) expected.insert(path);
    }
    const std::vector<std::string> found = first_->FindExpired(now_ms, 1000);
    REQUIRE(std::set<std::string>(found.begin(), found.end()) == expected);
    REQUIRE(found.size() == expected.size());
    REQUIRE(second_->FindExpired(now_ms, 1000) == found);
  }

  // Return how often a deleteContainer removed a node, how often one operation removed a node with
  // others below it, and how often a sequenced request was repeated.
  int expired() const { return expired_; }
  int subtrees() const { return subtrees_; }
  int repeated() const { return repeated_; }
  // Returns how often each error occurred: a run that never fails or never succeeds tests little.
  const std::map<ErrorCode, int>& errors() const { return errors_; }
  // Returns how often each kind of operation had each outcome, outside multis.
  const std::map<std::pair<OpKind, ErrorCode>, int>& outcomes() const { return outcomes_; }

 private:
  uint64_t Pick(uint64_t below) { return random_() % below; }
  SessionId PickSession() { return SessionId(1 + static_cast<int64_t>(Pick(4))); }
  template <typename T>
  T PickFrom(const std::vector<T>& from) {
    return from[Pick(from.size())];
  }

  // Returns a path: mostly a legal path from few names, so that paths coincide; sometimes an
  // illegal one.
  std::string PickPath() {
    static const std::vector<std::string> kNames = {"a", "b", "c", "n0000000001", "zookeeper"};
    static const std::vector<std::string> kSpoilt = {"",      "/",   "//",   "a",
                                                     "//a",   "/a/", "/a//", "/a/.",
                                                     "/../a", "a/b", "/b/",  "/zookeeper/config"};
    static const std::vector<std::string> kQuotas = {"/a",
                                                     "/a/b",
                                                     "/a/zookeeper_limits",
                                                     "/a/zookeeper_stats",
                                                     "/a/b/zookeeper_limits",
                                                     "/a/b/zookeeper_stats"};
    if (Pick(20) == 0) return PickFrom(kSpoilt);
    if (Pick(6) == 0) return "/zookeeper/quota" + PickFrom(kQuotas);
    if (Pick(2) == 0) {
      // Picks an existing path.
      auto at = model_.state.nodes.begin();
      std::advance(at, static_cast<ptrdiff_t>(Pick(model_.state.nodes.size())));
      if (Pick(3) == 0) return (at->first == "/" ? "" : at->first) + "/" + PickFrom(kNames);
      return at->first;
    }
    std::string path;
    for (uint64_t depth = 1 + Pick(3); depth > 0; --depth) path += "/" + PickFrom(kNames);
    return path;
  }

  std::string PickData(const std::string& path) {
    static const std::vector<std::string> kLimits = {
        "count=3,bytes=100=;byteHardLimit=0",
        "count=-1,bytes=-1=;byteHardLimit=300;countHardLimit=2",
        "count=2,bytes=5=;countHardLimit=0", "junk"};
    static const std::vector<std::string> kStats = {"count=0,bytes=0", "count=5,bytes=-70", "junk"};
    if (path.ends_with("/zookeeper_limits")) return PickFrom(kLimits);
    if (path.ends_with("/zookeeper_stats")) return PickFrom(kStats);
    return std::string(Pick(300), 'd');
  }

  std::vector<Acl> PickAcl() {
    static const std::vector<std::vector<Acl>> kLists = {
        {MakeAcl(31, "digest", "alice:x")},
        {MakeAcl(31, "digest", "alice:x"), MakeAcl(7, "world", "anyone")},
        {MakeAcl(31, "world", "anyone"), MakeAcl(31, "world", "anyone")},
        {MakeAcl(31, "auth", "")},
        {MakeAcl(29, "world", "anyone")},
        {MakeAcl(1, "world", "anyone"), MakeAcl(30, "auth", "")},
        {MakeAcl(31, "bad", "id")},
        {},
    };
    return Pick(3) > 0 ? OpenAcl() : PickFrom(kLists);
  }

  Op PickOp(std::string_view path, std::string_view data) {
    Op op;
    static const std::vector<OpKind> kKinds = {OpKind::kCreate,
                                               OpKind::kCreate,
                                               OpKind::kCreateContainer,
                                               OpKind::kCreateTtl,
                                               OpKind::kDelete,
                                               OpKind::kDelete,
                                               OpKind::kDelete,
                                               OpKind::kSetData,
                                               OpKind::kSetData,
                                               OpKind::kSetData,
                                               OpKind::kCheck,
                                               OpKind::kSetAcl,
                                               OpKind::kCheckAbsent,
                                               OpKind::kCheckCreated,
                                               OpKind::kRefused,
                                               OpKind::kCheckNotExists,
                                               OpKind::kCreateIfNotExists,
                                               OpKind::kCreateIfNotExists,
                                               OpKind::kRemoveSubtree,
                                               OpKind::kCheckStat,
                                               OpKind::kTryDelete};
    op.kind = PickFrom(kKinds);
    // Setting a quota needs several creates in one request.
    const bool makes_quota = path.starts_with("/zookeeper/quota/") && Pick(20) > 0;
    if (makes_quota) op.kind = Pick(3) == 0 ? OpKind::kSetData : OpKind::kCreate;
    op.path = path;
    // Picks a recursive delete rarely, so that the tree can grow, and mostly for a node with
    // children.
    if (Model::ParentOfSome(model_.state, path) && Pick(6) == 0) {
      op.kind = Pick(2) == 0 ? OpKind::kDeleteRecursive : OpKind::kRemoveSubtree;
    }
    const bool creates = Model::IsCreate(op.kind);
    if (creates || op.kind == OpKind::kSetData) {
      op.has_data = Pick(5) > 0;
      if (op.has_data) op.data = data;
    }
    if (creates || op.kind == OpKind::kSetAcl) op.acl = makes_quota ? OpenAcl() : PickAcl();
    if (creates) {
      const uint64_t usual = op.kind == OpKind::kCreateTtl ? 5 + Pick(2) : Pick(5);
      op.mode = static_cast<CreateMode>(makes_quota ? 0 : Pick(20) == 0 ? Pick(9) : usual);
      if (op.kind == OpKind::kCreateTtl) op.ttl_ms = static_cast<int64_t>(Pick(60));
    } else if (op.kind == OpKind::kCheckCreated) {
      const ModelNode* node = model_.Find(std::string(path));
      op.created_zxid = node != nullptr && Pick(3) > 0 ? node->czxid : Zxid(1);
    } else if (op.kind == OpKind::kRefused) {
      op.refusal = Pick(2) == 0 ? ErrorCode::kNoSpace : ErrorCode::kTooLarge;
    } else if (op.kind == OpKind::kRemoveSubtree) {
      op.limit = static_cast<uint32_t>(Pick(3) == 0 ? Pick(4) : 1000);
    } else if (op.kind != OpKind::kCheckAbsent && Pick(3) == 0) {
      op.version = static_cast<int32_t>(Pick(3));
    }
    if (op.kind == OpKind::kCheckStat) op.expected = PickExpected(std::string(path));
    return op;
  }

  // Returns some fields of the node's stat, if there is a node, and sometimes a wrong one.
  Stat PickExpected(const std::string& path) {
    const uint64_t kept = Pick(6);
    Stat stat = model_.Find(path) == nullptr ? Stat() : model_.StatOf(path);
    Model::ForEachField(&stat, [&](auto* field) {
      if (Pick(6) >= kept) *field = std::remove_pointer_t<decltype(field)>(-1);
    });
    if (Pick(5) == 0) stat.data_length = 1;
    return stat;
  }

  CommandHeader Next(SessionId session) {
    CommandHeader header;
    const uint16_t member = static_cast<uint16_t>(1 + Pick(2));
    if (Pick(200) == 0) {
      ++incarnation_[member];
      sequence_[member] = 0;
    }
    header.proposer = Proposer{member, incarnation_[member]};
    header.sequence = ++sequence_[member];
    header.time_ms = time_ms_;
    header.session = session;
    const auto found = model_.state.sessions.find(session);
    if (found != model_.state.sessions.end()) header.attach_zxid = found->second.attach_zxid;
    if (Pick(50) == 0) header.attach_zxid = Zxid(static_cast<int64_t>(Pick(3)));
    return header;
  }

  Zxid NextZxid() const { return first_->last_zxid() + 1; }

  // Applies a command to both trees. `expected` is the model's result, whose header is not
  // compared.
  void Apply(const CommandHeader& header, const std::string& command, const ApplyResult& expected) {
    const Zxid zxid = NextZxid();
    first_->Apply(zxid, command, header.proposer, &listener_);
    RecordingListener other;
    second_->Apply(zxid, command, Proposer{9, 9}, &other);
    sent_.push_back(command);
    REQUIRE(listener_.events == model_.state.events);
    REQUIRE(other.events == model_.state.events);
    REQUIRE_FALSE(other.result.has_value());
    REQUIRE(listener_.result.has_value());
    const ApplyResult& result = *listener_.result;
    REQUIRE(result.zxid == expected.zxid);
    REQUIRE(result.error == expected.error);
    REQUIRE(result.client_sequence == expected.client_sequence);
    REQUIRE(result.repeated == expected.repeated);
    REQUIRE(result.ops.size() == expected.ops.size());
    repeated_ += result.repeated ? 1 : 0;
    ++errors_[result.error];
    for (size_t i = 0; i < result.ops.size(); ++i) {
      CAPTURE(i);
      REQUIRE(result.ops[i] == expected.ops[i]);
      ++errors_[result.ops[i].error];
      subtrees_ += result.ops[i].removed > 1 ? 1 : 0;
    }
  }
  void Apply(const CommandHeader& header, const std::string& command, ErrorCode error) {
    ApplyResult expected;
    expected.zxid = NextZxid();
    expected.error = error;
    Apply(header, command, expected);
  }

  // Returns a random request. `*strings` receives the strings to which the request points.
  Request PickRequest(std::vector<std::string>* strings) {
    Request request;
    request.multi = Pick(4) == 0;
    request.enforces_quota = Pick(3) > 0;
    const uint64_t count = request.multi ? Pick(8) : 1;
    if (Pick(3) > 0) request.identities.push_back(Identity{"digest", "alice:x"});
    if (Pick(4) == 0) request.identities.push_back(Identity{"digest", "bob:y"});
    strings->reserve(count * 2);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string& path = strings->emplace_back(PickPath());
      const std::string& data = strings->emplace_back(PickData(path));
      request.ops.push_back(PickOp(path, data));
    }
    return request;
  }

  void DoRequest() {
    std::vector<std::string> strings;
    const Request request = PickRequest(&strings);
    const SessionId session = Pick(16) == 0 ? kNoSession : PickSession();
    const CommandHeader header = Next(session);
    std::string command;
    AppendRequest(header, request, &command);
    ApplyResult expected;
    expected.zxid = NextZxid();
    expected.error =
        model_.ApplyRequest(request, session, header.attach_zxid, NextZxid(), &expected.ops);
    Apply(header, command, expected);
    if (request.multi || expected.ops.empty()) return;
    ++outcomes_[{request.ops[0].kind, expected.ops[0].error}];
  }

  void DoSequenced() {
    std::vector<std::string> strings;
    SequencedRequest sequenced;
    sequenced.request = PickRequest(&strings);
    const SessionId session = PickSession();
    const CommandHeader header = Next(session);
    const auto found = model_.state.sessions.find(session);
    const uint64_t last = found == model_.state.sessions.end() ? 0 : found->second.last_sequence;
    sequenced.sequence = Pick(3) > 0 ? last + 1 : 1 + Pick(last + 3);
    // Mostly acknowledges all but a few responses; rarely more responses than there are.
    sequenced.acknowledged = Pick(30) == 0 ? Pick(last + 5) : last - std::min(last, Pick(6));
    std::string command;
    AppendSequencedRequest(header, sequenced.sequence, sequenced.acknowledged, sequenced.request,
                           &command);
    Apply(header, command,
          model_.ApplySequenced(sequenced, session, header.attach_zxid, NextZxid()));
  }

  void OpenSession(bool create) {
    const SessionId session = PickSession();
    const CommandHeader header = Next(session);
    const std::string password = Pick(4) == 0 ? "wrong" : std::string(kPassword);
    const int32_t timeout_ms = 1000 + static_cast<int32_t>(Pick(9));
    std::string command;
    if (create) {
      AppendCreateSession(header, timeout_ms, password, &command);
    } else {
      AppendAttachSession(header, timeout_ms, password, &command);
    }
    const ErrorCode error = model_.OpenSession(create, session, password, timeout_ms,
                                               header.proposer.member, NextZxid());
    Apply(header, command, error);
  }

  void EndSession() {
    CommandHeader header = Next(PickSession());
    const bool close = Pick(2) == 0;
    header.kind = close ? CommandKind::kCloseSession : CommandKind::kExpireSession;
    if (Pick(3) == 0) header.attach_zxid = Zxid(0);
    std::string command;
    AppendCloseSession(header, &command);
    const ErrorCode error =
        model_.EndSession(close, header.session, header.attach_zxid, NextZxid());
    Apply(header, command, error);
  }

  // Applies a deleteContainer for an expired node or for any other node.
  void DeleteContainer() {
    CommandHeader header;
    header.kind = CommandKind::kDeleteContainer;
    header.time_ms = time_ms_;
    const std::vector<std::string> expired = first_->FindExpired(time_ms_, 4);
    const std::string path = expired.empty() || Pick(3) == 0 ? PickPath() : PickFrom(expired);
    std::string command;
    AppendDeleteContainer(header, path, &command);
    model_.DeleteContainer(path, NextZxid());
    expired_ += static_cast<int>(model_.state.events.size());
    const Zxid zxid = NextZxid();
    RecordingListener other;
    first_->Apply(zxid, command, Proposer{1, 1}, &listener_);
    second_->Apply(zxid, command, Proposer{9, 9}, &other);
    REQUIRE(listener_.events == model_.state.events);
    REQUIRE(other.events == model_.state.events);
    REQUIRE_FALSE(listener_.result.has_value());
  }

  // Applies a command that was sent before, or one that skips a number.
  void Duplicate() {
    std::string command = PickFrom(sent_);
    if (Pick(3) == 0) {
      const uint16_t member = DecodeHeader(command)->proposer.member;
      StampSequence(command.data(), sequence_[member] + 2 + Pick(2));
    }
    // The command is rejected, so that its time has no effect.
    model_.time_ms = first_->time_ms();
    const Zxid zxid = NextZxid();
    first_->Apply(zxid, command, DecodeHeader(command)->proposer, &listener_);
    second_->Skip(zxid);
    REQUIRE(listener_.events.empty());
    REQUIRE_FALSE(listener_.result.has_value());
  }

  std::mt19937_64 random_;
  Model model_;
  std::unique_ptr<Tree> first_ = std::make_unique<Tree>();
  std::unique_ptr<Tree> second_ = std::make_unique<Tree>();
  RecordingListener listener_;
  std::vector<std::string> sent_;
  std::map<uint16_t, uint64_t> incarnation_ = {{1, 1}, {2, 1}};
  std::map<uint16_t, uint64_t> sequence_;
  std::map<ErrorCode, int> errors_;
  std::map<std::pair<OpKind, ErrorCode>, int> outcomes_;
  int64_t time_ms_ = kStartMs;
  int expired_ = 0;
  int subtrees_ = 0;
  int repeated_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace quorate::tree
