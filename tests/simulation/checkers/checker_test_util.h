// SPDX-License-Identifier: Apache-2.0

// Histories written by hand, for the tests of the checkers.
//
// Thread-safety: none.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "consensus/core/membership.h"
#include "tests/simulation/checkers/history.h"
#include "tests/simulation/checkers/replay_checker.h"
#include "tests/simulation/clients/fake_environment.h"
#include "tests/simulation/clients/operation.h"
#include "tree/command.h"

namespace quorate::simulation {

// Records what clients and servers do, call by call. Each call advances the time by a millisecond.
class Script {
 public:
  FakeEnvironment environment{1};
  History history{&environment};

  void Wait(int64_t us) { environment.RunUntil(environment.now_us() + us); }

  // --- Clients -----------------------------------------------------------------------------------
  LinkId Open(int64_t session, size_t client = 0, int64_t last_zxid = 0) {
    Link link;
    link.client = client;
    link.session = session;
    link.password = Password(session);
    link.timeout_ms = 1000;
    link.last_zxid_sent = last_zxid;
    Wait(1000);
    return history.OpenLink(link);
  }
  OperationId Ask(LinkId link, Request request) {
    Wait(1000);
    return history.Invoke(link, ++xid_, std::move(request));
  }
  void Answer(OperationId operation, Reply reply) {
    Wait(1000);
    history.Answer(operation, std::move(reply));
  }
  void Answer(OperationId operation, int64_t zxid, tree::ErrorCode error = tree::ErrorCode::kOk) {
    Reply reply;
    reply.zxid = zxid;
    reply.error = error;
    Answer(operation, std::move(reply));
  }
  // Answers a single write that succeeded.
  void AnswerStep(OperationId operation, int64_t zxid, std::string path, tree::Stat stat) {
    Reply reply;
    reply.zxid = zxid;
    reply.steps.push_back({tree::ErrorCode::kOk, std::move(path), stat});
    Answer(operation, std::move(reply));
  }
  void AnswerData(OperationId operation, int64_t zxid, std::string data, tree::Stat stat) {
    Reply reply;
    reply.zxid = zxid;
    reply.has_data = true;
    reply.data = std::move(data);
    reply.stat = stat;
    Answer(operation, std::move(reply));
  }

  // --- The log -----------------------------------------------------------------------------------
  int64_t LogNoOp(uint64_t term = 1) {
    consensus::Entry entry;
    entry.kind = consensus::EntryKind::kNoOp;
    term_ = term;
    return Log(std::move(entry));
  }
  int64_t LogMembership(const consensus::Membership& membership) {
    consensus::Entry entry;
    entry.kind = consensus::EntryKind::kMembership;
    entry.payload = Slice(consensus::EncodeMembership(membership));
    return Log(std::move(entry));
  }
  int64_t LogSession(int64_t session, bool attach = false) {
    std::string command;
    const auto kind =
        attach ? tree::CommandKind::kAttachSession : tree::CommandKind::kCreateSession;
    const tree::CommandHeader header = Header(kind, session);
    attach ? tree::AppendAttachSession(header, 1000, Password(session), &command)
           : tree::AppendCreateSession(header, 1000, Password(session), &command);
    attach_zxids_[session] = LogCommand(std::move(command));
    return attach_zxids_[session];
  }
  int64_t LogEnd(int64_t session, bool expire) {
    tree::CommandHeader header = Header(
        expire ? tree::CommandKind::kExpireSession : tree::CommandKind::kCloseSession, session);
    if (expire) {
      header.proposer = {};
      header.sequence = 0;
    }
    std::string command;
    tree::AppendCloseSession(header, &command);
    return LogCommand(std::move(command));
  }
  // Logs a request as the server of `link` does. `attach_zxid` 0: the newest of the session.
  int64_t LogRequest(LinkId link, const Request& request, int64_t attach_zxid = 0) {
    tree::Request logged;
    logged.multi = request.kind == OperationKind::kMulti;
    for (const Step& step : request.steps) {
      tree::Op op;
      op.kind = KindOf(step);
      op.path = step.path;
      if (IsCreate(step.kind) || op.kind == tree::OpKind::kSetData) {
        op.has_data = step.has_data;
        op.data = step.data;
      }
      if (IsCreate(step.kind) || op.kind == tree::OpKind::kSetAcl) {
        op.acl = tree::OpenAcl();
      }
      op.mode = step.mode;
      op.version = step.version;
      op.limit = step.limit;
      op.expected = step.expected;
      logged.ops.push_back(op);
    }
    const std::string credentials = LinkCredentials(link);
    logged.identities = {{"ip", "1.2.3.4"},
                         {"digest", credentials.substr(0, credentials.find(':')) + ":hash"}};
    tree::CommandHeader header = Header(tree::CommandKind::kRequest, history.link(link).session);
    if (attach_zxid != 0) header.attach_zxid = tree::Zxid(attach_zxid);
    std::string command;
    tree::AppendRequest(header, logged, &command);
    return LogCommand(std::move(command));
  }
  // Logs a numbered write of a session.
  int64_t LogNumbered(int64_t session, uint64_t number, uint64_t acknowledged,
                      const tree::Request& request) {
    std::string command;
    tree::AppendSequencedRequest(Header(tree::CommandKind::kSequencedRequest, session), number,
                                 acknowledged, request, &command);
    return LogCommand(std::move(command));
  }
  // Logs the last command once more, as if a server had sent it again.
  int64_t LogAgain() { return LogCommand(last_command_); }

  static std::string Password(int64_t session) {
    return std::string(tree::kPasswordBytes, static_cast<char>('a' + session % 26));
  }

 private:
  static tree::OpKind KindOf(const Step& step) {
    switch (step.kind) {
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

  tree::CommandHeader Header(tree::CommandKind kind, int64_t session) {
    tree::CommandHeader header;
    header.kind = kind;
    header.proposer = {1, 1};
    header.sequence = kind == tree::CommandKind::kExpireSession ? 0 : ++sequence_;
    header.time_ms = environment.now_us() / 1000;
    header.session = tree::SessionId(session);
    const auto attached = attach_zxids_.find(session);
    if (attached != attach_zxids_.end()) header.attach_zxid = tree::Zxid(attached->second);
    return header;
  }
  int64_t LogCommand(std::string command) {
    last_command_ = command;
    consensus::Entry entry;
    entry.payload = Slice(std::move(command));
    return Log(std::move(entry));
  }
  int64_t Log(consensus::Entry entry) {
    Wait(1000);
    entry.index = consensus::Index(++index_);
    entry.term = consensus::Term(term_);
    environment.Commit(entry);
    return static_cast<int64_t>(index_);
  }

  int32_t xid_ = 0;
  uint64_t index_ = 0;
  uint64_t term_ = 1;
  uint64_t sequence_ = 0;
  std::map<int64_t, int64_t> attach_zxids_;
  std::string last_command_;
};

inline tree::Stat MakeStat(int64_t czxid, int64_t mzxid, int32_t version) {
  tree::Stat stat;
  stat.czxid = tree::Zxid(czxid);
  stat.mzxid = tree::Zxid(mzxid);
  stat.pzxid = tree::Zxid(czxid);
  stat.version = version;
  return stat;
}

// Runs `what`; returns the invariant that it broke, or an empty string.
template <class What>
std::string Broken(const What& what) {
  try {
    what();
  } catch (const InvariantFailure& failure) {
    return failure.invariant;
  }
  return "";
}

}  // namespace quorate::simulation
