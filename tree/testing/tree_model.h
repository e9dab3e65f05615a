// SPDX-License-Identifier: Apache-2.0

// Random commands for tests, applied to trees and to the model of tree/testing/model.h.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tree/testing/model.h"
#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tree {

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
  const std::map<Branch, int>& branches() const { return branches_; }
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
                                               OpKind::kTryDelete,
                                               OpKind::kGet,
                                               OpKind::kExists,
                                               OpKind::kGetChildren};
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
      op.with_parents = Pick(4) == 0;
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

  // Returns a compare that holds as often as not. `path` and `value` outlive it.
  tree::Compare PickCompare(std::string_view path, std::string_view value) {
    tree::Compare compare;
    compare.target = static_cast<CompareTarget>(1 + Pick(8));
    compare.relation = static_cast<CompareRelation>(1 + Pick(4));
    compare.path = path;
    const ModelNode* node = model_.Find(std::string(path));
    const Stat stat = node == nullptr ? Stat() : model_.StatOf(std::string(path));
    const int64_t numbers[] = {1,
                               stat.czxid.value(),
                               stat.mzxid.value(),
                               stat.pzxid.value(),
                               stat.version,
                               stat.cversion,
                               stat.aversion,
                               0};
    compare.number = numbers[static_cast<size_t>(compare.target) - 1];
    if (Pick(3) == 0) compare.number += static_cast<int64_t>(Pick(3)) - 1;
    if (compare.target == CompareTarget::kValue) {
      compare.number = 0;
      compare.value = value;
    }
    return compare;
  }

  // Gives the request branches. `*strings` as in PickRequest.
  void AddBranches(Request* request, std::vector<std::string>* strings) {
    request->has_branches = true;
    request->then_count = Pick(request->ops.size() + 1);
    for (uint64_t count = Pick(3); count > 0; --count) {
      const std::string& path = strings->emplace_back(PickPath());
      const ModelNode* node = model_.Find(path);
      const bool is_same = node != nullptr && Pick(2) == 0;
      const std::string& value =
          strings->emplace_back(is_same ? node->data : std::string(Pick(300), 'd'));
      request->compares.push_back(PickCompare(path, value));
    }
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
    REQUIRE(result.branch == expected.branch);
    REQUIRE(result.ops.size() == expected.ops.size());
    ++branches_[result.branch];
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
    strings->reserve(count * 2 + 4);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string& path = strings->emplace_back(PickPath());
      const std::string& data = strings->emplace_back(PickData(path));
      request.ops.push_back(PickOp(path, data));
    }
    if (request.multi && Pick(2) == 0) AddBranches(&request, strings);
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
    expected.error = model_.ApplyRequest(request, session, header.attach_zxid, NextZxid(),
                                         &expected.branch, &expected.ops);
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
  std::map<Branch, int> branches_;
  std::map<std::pair<OpKind, ErrorCode>, int> outcomes_;
  int64_t time_ms_ = kStartMs;
  int expired_ = 0;
  int subtrees_ = 0;
  int repeated_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace quorate::tree
