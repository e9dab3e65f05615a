// SPDX-License-Identifier: Apache-2.0

// The reference model: the tree at every zxid, according to the committed log. A map from whole
// paths to the versions of a node, written from the rules of ZooKeeper and not from the tree's
// code, and kept as simple as they allow. Access control is left out: simulated clients use open
// lists only.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/core/types.h"
#include "tests/simulation/clients/operation.h"
#include "tree/command.h"
#include "tree/types.h"

namespace quorate::simulation {

class Model {
 public:
  struct Session {
    std::string password;
    int32_t timeout_ms = 0;
    int64_t attach_zxid = 0;
    std::vector<std::string> ephemerals;  // in the order of creation
    // Of its numbered writes: the number of the last one, the number up to which the client has
    // acknowledged the answers, and the answers behind that.
    uint64_t last_sequence = 0;
    uint64_t acknowledged = 0;
    struct Answer {
      int64_t zxid = 0;
      tree::Branch branch = tree::Branch::kNone;
      std::vector<StepResult> steps;
    };
    std::map<uint64_t, Answer> answers;
  };
  struct EndedSession {
    int64_t zxid = 0;
    bool expired = false;
  };

  struct NodeEvent {
    tree::EventType type = tree::EventType::kNodeCreated;
    std::string path;
  };

  // What an entry did.
  struct Applied {
    int64_t zxid = 0;
    // False for an entry without a command, and for a command that is rejected as a duplicate or
    // because an earlier one is missing.
    bool counts = false;
    tree::CommandHeader header;
    tree::Request request;  // views into the entry
    tree::ErrorCode error = tree::ErrorCode::kOk;
    std::vector<StepResult> steps;  // as Reply::steps of a multi; one if not a multi
    // Which operations, or compares, `steps` are those of.
    tree::Branch branch = tree::Branch::kNone;
    // Of a numbered write.
    uint64_t client_sequence = 0;
    bool repeated = false;  // it took effect before; `steps` are the results of that time
    // One event for each changed node. Those of a session that ended are in any order.
    std::vector<NodeEvent> events;
  };

  // A change that fires watches.
  struct Change {
    int64_t zxid = 0;
    tree::EventType type = tree::EventType::kNodeCreated;
  };
  enum class Table : uint8_t { kData, kChild };

  Model();

  // Applies the next entry. REQUIRES: entries come in order, without a gap.
  Applied Apply(const consensus::Entry& entry);

  int64_t last_zxid() const { return last_zxid_; }

  // The reply to a read at this zxid; to a listRecursive all paths below the node, ascending,
  // whatever their maximum number. REQUIRES: zxid <= last_zxid().
  Reply Read(const Request& request, int64_t zxid) const;
  // The events that setWatches fires at this zxid, in the order of the request, and no others.
  std::vector<WatchEvent> FindMissed(const Request& set_watches, int64_t zxid) const;
  // The first change of a path after `zxid` that fires a watch in `table`.
  std::optional<Change> FirstChange(std::string_view path, Table table, int64_t zxid) const;

  // By id; without ended sessions.
  const std::map<int64_t, Session>& sessions() const { return sessions_; }
  const std::map<int64_t, EndedSession>& ended_sessions() const { return ended_; }

  struct Node {
    tree::Stat stat;
    bool has_data = false;
    std::shared_ptr<const std::string> data;
  };
  // nullptr if the node does not exist at this zxid.
  const Node* Find(std::string_view path, int64_t zxid) const;
  // Whether the node had this stat, if any is given, and this data at some zxid from `from_zxid` to
  // `to_zxid`.
  bool WasSo(std::string_view path, const tree::Stat* stat, const std::optional<std::string>* data,
             int64_t from_zxid, int64_t to_zxid) const;
  // All paths that ever existed, ascending.
  std::vector<std::string> Paths() const;

 private:
  struct Version {
    int64_t zxid = 0;
    bool exists = false;
    int32_t created_children = 0;
    Node node;
  };

  using History = std::vector<Version>;

  bool Counts(const tree::CommandHeader& header);
  const Version* FindVersion(std::string_view path, int64_t zxid) const;
  static const Version* FindVersion(const History& versions, int64_t zxid);
  // Latest: the newest version of a path. Modify: a copy of that version for the current zxid,
  // which the caller may change.
  const Version* Latest(std::string_view path) const;
  Version& Modify(const std::string& path);
  // The names of the node's children at this zxid, ascending.
  std::vector<std::string> Children(std::string_view path, int64_t zxid) const;
  void ListChildren(const Request& request, Reply* reply) const;
  void Tell(const std::string& path, Table table, tree::EventType type);
  void Unlink(const std::string& path);

  void ApplyMembership(std::string_view payload);
  void OpenSession(std::string_view command, Applied* applied);
  void EndSession(Applied* applied);
  void ApplyRequest(Applied* applied);
  void ApplySequenced(std::string_view command, Applied* applied);
  // nullptr, with the reason in `applied`, if the session may not make requests.
  Session* FindAttached(Applied* applied);
  void ApplySteps(Applied* applied);
  StepResult ApplyStep(const tree::Op& op, int64_t session);
  StepResult Create(const tree::Op& op, int64_t session);
  // Creates the parents of the path that do not exist.
  tree::ErrorCode CreateParents(const std::string& path);
  // Creates a node, and returns its stat.
  tree::Stat Add(const std::string& path, bool has_data, std::string_view data, int64_t owner);
  // Makes the compares of a request. Sets the branch, and the steps if one cannot be made.
  void MakeCompares(Applied* applied) const;
  bool Holds(const tree::Compare& compare) const;
  StepResult Read(const tree::Op& op) const;
  StepResult Delete(const tree::Op& op);
  // The writes of ClickHouse Keeper.
  StepResult CheckNotExists(const tree::Op& op) const;
  StepResult CheckStat(const tree::Op& op) const;
  StepResult TryRemove(const tree::Op& op);
  StepResult RemoveRecursive(const tree::Op& op);
  StepResult Alter(const tree::Op& op);
  void Rollback();

  int64_t last_zxid_ = 0;
  int64_t time_ms_ = 0;
  std::map<std::string, History, std::less<>> nodes_;
  std::map<std::pair<std::string, Table>, std::vector<Change>> changes_;
  std::map<int64_t, Session> sessions_;
  std::map<int64_t, EndedSession> ended_;
  struct Proposer {
    uint64_t incarnation = 0;
    uint64_t sequence = 0;
  };
  std::map<uint16_t, Proposer> dedup_table_;
  // Of the request that is being applied.
  std::vector<std::string> changed_paths_;
  std::vector<std::pair<std::string, Table>> told_;
  std::vector<NodeEvent> events_;
  std::vector<std::pair<int64_t, std::vector<std::string>>> ephemerals_before_;
};

}  // namespace quorate::simulation
