// SPDX-License-Identifier: Apache-2.0

// A simple model of the tree, for tests: a map from whole paths to nodes, which is copied before each
// request, so that one that fails can be undone.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
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
  Branch branch = Branch::kNone;
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

  // Creates the missing parents of a create, each as a create of its own that needs no permission of
  // a parent that was created with it. Does not check the limits of tree/limits.h.
  ErrorCode CreateParents(const Op& op, const std::vector<Identity>& who, Zxid zxid, bool* any) {
    *any = false;
    const bool numbered = static_cast<int>(op.mode) == 2 || static_cast<int>(op.mode) == 3 ||
                          static_cast<int>(op.mode) == 6;
    if (!Valid(std::string(op.path) + (numbered ? "0" : ""))) return ErrorCode::kBadArguments;
    for (size_t end = op.path.find('/', 1); end != std::string_view::npos;
         end = op.path.find('/', end + 1)) {
      if (Find(std::string(op.path.substr(0, end))) != nullptr) continue;
      Op parent = MakeCreate(op.path.substr(0, end), "", CreateMode::kPersistent, op.acl);
      OpResult ignored;
      const ErrorCode error = Create(parent, who, kNoSession, zxid, &ignored, *any);
      if (error != ErrorCode::kOk) return error;
      *any = true;
    }
    return ErrorCode::kOk;
  }

  ErrorCode Create(const Op& op, const std::vector<Identity>& who, SessionId session, Zxid zxid,
                   OpResult* result, bool parent_is_new = false) {
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
    if (op.with_parents) {
      const size_t before = state.nodes.size();
      const ErrorCode error = CreateParents(op, who, zxid, &parent_is_new);
      if (error != ErrorCode::kOk) return error;
      result->added_parents = state.nodes.size() - before;
    }
    ModelNode* parent = Find(ParentOf(path));
    if (parent == nullptr) return ErrorCode::kNoNode;
    if (!parent_is_new && !Allowed(*parent, who, permission::kCreate)) return ErrorCode::kNoAuth;
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

  // Does not check the limits of tree/limits.h.
  ErrorCode Read(const Op& op, const std::vector<Identity>& who, OpResult* result) {
    const std::string path(op.path);
    if (!Valid(path)) return ErrorCode::kBadArguments;
    const ModelNode* node = Find(path);
    const bool is_exists = op.kind == OpKind::kExists;
    if (node == nullptr) return is_exists ? ErrorCode::kOk : ErrorCode::kNoNode;
    if (!is_exists && !Allowed(*node, who, permission::kRead)) return ErrorCode::kNoAuth;
    result->found = true;
    result->stat = StatOf(path);
    if (op.kind == OpKind::kGet) result->data = node->data;
    if (op.kind == OpKind::kGetChildren) result->children = Children(path);
    std::sort(result->children.begin(), result->children.end());
    return ErrorCode::kOk;
  }

  // Sets `*outcome` to whether the compare holds.
  ErrorCode MakeCompare(const Compare& compare, const std::vector<Identity>& who, bool* outcome) {
    const std::string path(compare.path);
    if (!Valid(path)) return ErrorCode::kBadArguments;
    const ModelNode* node = Find(path);
    const Stat stat = node == nullptr ? Stat() : StatOf(path);
    const std::map<CompareTarget, int64_t> numbers = {
        {CompareTarget::kExists, node != nullptr},   {CompareTarget::kCzxid, stat.czxid.value()},
        {CompareTarget::kMzxid, stat.mzxid.value()}, {CompareTarget::kPzxid, stat.pzxid.value()},
        {CompareTarget::kVersion, stat.version},     {CompareTarget::kCversion, stat.cversion},
        {CompareTarget::kAversion, stat.aversion},   {CompareTarget::kValue, 0}};
    const bool is_open =
        compare.target == CompareTarget::kExists || compare.target == CompareTarget::kCzxid;
    if (node != nullptr && !is_open && !Allowed(*node, who, permission::kRead)) {
      return ErrorCode::kNoAuth;
    }
    *outcome = false;
    if (node == nullptr && compare.target >= CompareTarget::kVersion) return ErrorCode::kOk;
    const int64_t number = numbers.at(compare.target);
    int order = number < compare.number ? -1 : number > compare.number ? 1 : 0;
    if (compare.target == CompareTarget::kValue) {
      const std::string value(compare.value);
      order = node->data < value ? -1 : node->data > value ? 1 : 0;
    }
    *outcome = compare.relation == CompareRelation::kEqual      ? order == 0
               : compare.relation == CompareRelation::kNotEqual ? order != 0
               : compare.relation == CompareRelation::kLess     ? order < 0
                                                                : order > 0;
    return ErrorCode::kOk;
  }

  Branch MakeCompares(const Request& request, std::vector<OpResult>* results) {
    for (size_t i = 0; i < request.compares.size(); ++i) {
      bool holds = false;
      const ErrorCode error = MakeCompare(request.compares[i], request.identities, &holds);
      if (error != ErrorCode::kOk) {
        results->resize(request.compares.size());
        SetFailed(error, i, *results);
        return Branch::kCompares;
      }
      if (!holds) return Branch::kOtherwise;
    }
    return Branch::kThen;
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
    if (op.kind >= OpKind::kGet) return Read(op, who, result);
    return Change(op, who, zxid, result);
  }

  ErrorCode CheckSession(SessionId session, Zxid attach_zxid) {
    const auto found = state.sessions.find(session);
    if (found == state.sessions.end()) return ErrorCode::kSessionExpired;
    return found->second.attach_zxid == attach_zxid ? ErrorCode::kOk : ErrorCode::kSessionMoved;
  }

  ErrorCode ApplyRequest(const Request& request, SessionId session, Zxid attach_zxid, Zxid zxid,
                         Branch* branch, std::vector<OpResult>* results) {
    const bool is_local = !state.sessions.contains(session) && attach_zxid == Zxid(0);
    const bool has_session = (session != kNoSession || attach_zxid != Zxid(0)) && !is_local;
    const ErrorCode refused = has_session ? CheckSession(session, attach_zxid) : ErrorCode::kOk;
    if (refused != ErrorCode::kOk) return refused;
    const State before = state;
    enforces_quota = request.enforces_quota;
    *branch = request.has_branches ? MakeCompares(request, results) : Branch::kNone;
    if (*branch == Branch::kCompares) return ErrorCode::kOk;
    const std::span<const Op> ops = OpsOf(request, *branch);
    results->resize(ops.size());
    for (size_t i = 0; i < ops.size(); ++i) {
      OpResult* result = &(*results)[i];
      result->error = ApplyOp(ops[i], request.identities, session, zxid, result);
      if (result->error == ErrorCode::kOk) continue;
      state = before;
      const ErrorCode error = result->error;
      for (size_t j = 0; j <= i; ++j) (*results)[j] = OpResult{};
      result->error = error;
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
      result.branch = at->second.branch;
      result.ops = at->second.ops;
    } else {
      ApplyRequest(sequenced.request, session, attach_zxid, zxid, &result.branch, &result.ops);
      // `known` must not be used here: a failed request replaces the state, and with it the
      // session.
      ModelSession& after = state.sessions[session];
      after.last_sequence = sequenced.sequence;
      after.answers[sequenced.sequence] = {zxid, result.branch, result.ops};
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

}  // namespace quorate::tree
