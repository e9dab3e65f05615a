// SPDX-License-Identifier: Apache-2.0

// A test server around a tree: numbers commands and records the calls to its listener.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tree/command.h"
#include "tree/limits.h"
#include "tree/tree.h"

namespace quorate::tree {

inline std::ostream& operator<<(std::ostream& out, ErrorCode code) { return out << ToString(code); }
inline std::ostream& operator<<(std::ostream& out, EventType type) {
  return out << "event " << static_cast<int32_t>(type);
}
inline std::ostream& operator<<(std::ostream& out, const Acl& acl) {
  return out << acl.permissions << ":" << acl.identity.scheme << ":" << acl.identity.id;
}
inline std::ostream& operator<<(std::ostream& out, const Stat& s) {
  return out << "{czxid " << s.czxid << ", mzxid " << s.mzxid << ", ctime " << s.ctime_ms
             << ", mtime " << s.mtime_ms << ", version " << s.version << ", cversion " << s.cversion
             << ", aversion " << s.aversion << ", owner " << s.ephemeral_owner << ", data "
             << s.data_length << ", children " << s.num_children << ", pzxid " << s.pzxid << "}";
}

inline std::ostream& operator<<(std::ostream& out, const OpResult& result) {
  return out << "{" << result.error << ", path '" << result.path << "', " << result.stat
             << ", removed " << result.removed << "}";
}

inline constexpr SessionId kSession{0x0100000000000001};
inline constexpr SessionId kOtherSession{0x0100000000000002};
inline constexpr std::string_view kPassword = "0123456789abcdef";
inline constexpr int64_t kStartMs = 1'700'000'000'000;

inline Acl MakeAcl(int32_t permissions, std::string scheme, std::string id) {
  return Acl{permissions, Identity{std::move(scheme), std::move(id)}};
}

inline Op MakeCreate(std::string_view path, std::string_view data = "",
                     CreateMode mode = CreateMode::kPersistent, std::vector<Acl> acl = OpenAcl()) {
  Op op;
  op.kind = OpKind::kCreate;
  op.path = path;
  op.has_data = true;
  op.data = data;
  op.mode = mode;
  op.acl = std::move(acl);
  return op;
}

inline Op MakeCreateContainer(std::string_view path, CreateMode mode = CreateMode::kContainer) {
  Op op = MakeCreate(path, "", mode);
  op.kind = OpKind::kCreateContainer;
  return op;
}

inline Op MakeCreateTtl(std::string_view path, int64_t ttl_ms,
                        CreateMode mode = CreateMode::kPersistentWithTtl) {
  Op op = MakeCreate(path, "", mode);
  op.kind = OpKind::kCreateTtl;
  op.ttl_ms = ttl_ms;
  return op;
}

inline Op MakeSetData(std::string_view path, std::string_view data, int32_t version = kAnyVersion) {
  Op op;
  op.kind = OpKind::kSetData;
  op.path = path;
  op.has_data = true;
  op.data = data;
  op.version = version;
  return op;
}

inline Op MakeDelete(std::string_view path, int32_t version = kAnyVersion) {
  Op op;
  op.kind = OpKind::kDelete;
  op.path = path;
  op.version = version;
  return op;
}

inline Op MakeCheck(std::string_view path, int32_t version = kAnyVersion) {
  Op op;
  op.kind = OpKind::kCheck;
  op.path = path;
  op.version = version;
  return op;
}

inline Op MakeSetAcl(std::string_view path, std::vector<Acl> acl, int32_t version = kAnyVersion) {
  Op op;
  op.kind = OpKind::kSetAcl;
  op.path = path;
  op.acl = std::move(acl);
  op.version = version;
  return op;
}

// Records the calls to it, in order.
class RecordingListener : public ApplyListener {
 public:
  void OnNodeEvent(EventType type, std::string_view path, Zxid zxid,
                   const EventAcls& acls) override {
    static constexpr std::string_view kNames[] = {"created ", "deleted ", "changed "};
    const auto index = static_cast<size_t>(type) - 1;
    REQUIRE(index < 3);
    events.push_back(std::string(kNames[index]) + std::string(path));
    last_event_zxid = zxid;
    last_event_acl.assign(acls.node.begin(), acls.node.end());
    last_event_parent_acl.assign(acls.parent.begin(), acls.parent.end());
  }
  bool WantsNodeValues() const override { return wants_values; }
  void OnNodeValues(const EventValues& node) override {
    const auto text = [](const std::optional<std::string_view>& data) {
      return data.has_value() ? std::string(*data) : std::string("none");
    };
    values.push_back(text(node.previous) + " -> " + text(node.value) +
                     (node.changes_acls ? ", with an ACL" : ""));
  }
  void OnSessionAttached(const SessionInfo& session) override {
    events.push_back("attached " + std::to_string(session.id.value()));
    attached.push_back(session);
  }
  void OnSessionClosed(SessionId session, Zxid zxid) override {
    events.push_back("closed " + std::to_string(session.value()));
    last_event_zxid = zxid;
  }
  void OnQuotaExceeded(const QuotaExcess& excess) override {
    excesses.push_back(std::string(excess.path) + (excess.is_hard ? " hard " : " soft ") +
                       (excess.is_bytes ? "bytes " : "count ") + std::to_string(excess.value) +
                       " > " + std::to_string(excess.limit));
  }
  void OnTimeLeap(int64_t from_ms, int64_t to_ms) override {
    events.push_back("leap " + std::to_string(to_ms - from_ms));
  }
  void OnResult(ApplyResult applied) override {
    REQUIRE_FALSE(result.has_value());
    result = std::move(applied);
    if (!result->repeated) return;
    REQUIRE(result->ops.empty());
    ExpandRepeated(kAnswerOperationsMax, &*result);
  }

  bool wants_values = false;
  std::vector<std::string> events;
  std::vector<std::string> values;  // of the events, if wants_values
  std::vector<std::string> excesses;
  std::vector<SessionInfo> attached;
  Zxid last_event_zxid;
  std::vector<Acl> last_event_acl;
  std::vector<Acl> last_event_parent_acl;
  std::optional<ApplyResult> result;
};

class Server {
 public:
  const Tree& tree() const { return tree_; }
  Tree& mutable_tree() { return tree_; }
  const std::vector<std::string>& events() const { return listener_.events; }
  const RecordingListener& listener() const { return listener_; }

  // Returns the header for the next command.
  CommandHeader Next(SessionId session = kNoSession, Zxid attach_zxid = Zxid(0)) {
    CommandHeader header;
    header.proposer = proposer;
    header.sequence = ++sequence;
    header.time_ms = time_ms;
    header.bounds_time = bounds_time;
    header.session = session;
    header.attach_zxid = attach_zxid;
    return header;
  }

  // Applies a command. Returns its result, or nullopt if the command was not applied or has another
  // proposer. Then checks the digest against one computed from scratch, unless !computes_digest.
  std::optional<ApplyResult> ApplyBytes(std::string_view command) {
    listener_ = RecordingListener();
    listener_.wants_values = wants_values;
    tree_.Apply(tree_.last_zxid() + 1, command, self, &listener_);
    if (computes_digest) REQUIRE(tree_.digest() == tree_.ComputeDigest());
    return listener_.result;
  }
  void Skip() { tree_.Skip(tree_.last_zxid() + 1); }

  ApplyResult ApplyOwn(std::string_view command) {
    std::optional<ApplyResult> result = ApplyBytes(command);
    REQUIRE(result.has_value());
    REQUIRE((result->repeated || result->zxid == tree_.last_zxid()));
    return *std::move(result);
  }

  ApplyResult OpenSession(SessionId session = kSession, std::string_view password = kPassword,
                          int32_t timeout_ms = 4000) {
    std::string command;
    AppendCreateSession(Next(session), timeout_ms, password, &command);
    return ApplyOwn(command);
  }
  ApplyResult AttachSession(SessionId session = kSession, std::string_view password = kPassword,
                            int32_t timeout_ms = 4000) {
    std::string command;
    AppendAttachSession(Next(session), timeout_ms, password, &command);
    return ApplyOwn(command);
  }
  ApplyResult EndSession(CommandKind kind, SessionId session, Zxid attach_zxid) {
    CommandHeader header = Next(session, attach_zxid);
    header.kind = kind;
    std::string command;
    AppendCloseSession(header, &command);
    return ApplyOwn(command);
  }

  // Applies a deleteContainer as the leader proposes it: without a proposer, so that it has no
  // result.
  void DeleteContainer(std::string_view path) {
    CommandHeader header;
    header.time_ms = time_ms;
    header.bounds_time = bounds_time;
    std::string command;
    AppendDeleteContainer(header, path, &command);
    REQUIRE_FALSE(ApplyBytes(command).has_value());
  }

  Zxid AttachZxid(SessionId session = kSession) const {
    SessionInfo info;
    return tree_.FindSession(session, &info) ? info.attach_zxid : Zxid(0);
  }

  ApplyResult DoRequest(const Request& request, SessionId session = kSession) {
    std::string command;
    AppendRequest(Next(session, AttachZxid(session)), request, &command);
    return ApplyOwn(command);
  }
  // Applies the session's numbered write `number`, which acknowledges the responses up to
  // `acknowledged`.
  ApplyResult DoSequenced(uint64_t number, uint64_t acknowledged, const Request& request,
                          SessionId session = kSession) {
    std::string command;
    AppendSequencedRequest(Next(session, AttachZxid(session)), number, acknowledged, request,
                           &command);
    return ApplyOwn(command);
  }
  OpResult Do(const Op& op, SessionId session = kSession) {
    const ApplyResult result = DoRequest(Request{false, {op}, identities, enforces_quota}, session);
    REQUIRE(result.error == ErrorCode::kOk);
    REQUIRE(result.ops.size() == 1);
    return result.ops[0];
  }
  std::vector<OpResult> DoMulti(std::vector<Op> ops, SessionId session = kSession) {
    const ApplyResult result =
        DoRequest(Request{true, std::move(ops), identities, enforces_quota}, session);
    REQUIRE(result.error == ErrorCode::kOk);
    return result.ops;
  }

  Stat StatOf(std::string_view path) const {
    Stat stat;
    REQUIRE(tree_.FindStat(path, &stat));
    return stat;
  }
  bool Has(std::string_view path) const {
    Stat stat;
    return tree_.FindStat(path, &stat);
  }
  // Returns the data of a node; nullopt if it is null.
  std::optional<std::string> DataOf(std::string_view path) const {
    std::string_view data;
    bool has_data = false;
    Stat stat;
    REQUIRE(tree_.GetData(path, identities, &data, &has_data, &stat) == ErrorCode::kOk);
    return has_data ? std::optional<std::string>(data) : std::nullopt;
  }

  Proposer proposer{1, 7};
  Proposer self{1, 7};
  uint64_t sequence = 0;
  int64_t time_ms = kStartMs;
  bool computes_digest = true;
  bool wants_values = false;  // whether the listener wants the data of changed nodes
  std::vector<Identity> identities;
  bool enforces_quota = false;
  bool bounds_time = false;

 private:
  Tree tree_;
  RecordingListener listener_;
};

}  // namespace quorate::tree
