// What must hold of consensus in every run, whatever happens: seen from outside, over all members
// and all their lives.
//
//   one leader a term        at most one member speaks as the leader of a term
//   one vote a term          a member votes for at most one in a term, also across restarts
//   leaders are complete     who leads in a term has every entry that was committed in an earlier
//   term equal logs               at an index, all members apply the same entry, and no other ever
//   again equal trees              at an index, all members' trees have the same digest nothing is
//   skipped       a member applies each index once in a life, in order promises are durable what a
//   member acknowledges or votes is on its disk, whatever a power
//                            failure at that moment would leave of it
//   commits are durable      what is applied anywhere is on the disks of a majority
//   nothing goes back        term and commit index of a process
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/types.h"
#include "consensus/log/data_dir.h"
#include "consensus/log/fault_env.h"
#include "tests/simulation/peer_fabric.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/world.h"

namespace quorate::simulation {

class Machine;

class ClusterChecker : public MessageObserver {
 public:
  // `observers` are told what is applied. Both must outlive the checker.
  ClusterChecker(Simulation* simulation, std::vector<ServerObserver*>* observers)
      : simulation_(*simulation),
        observers_(*observers),
        random_(simulation->random("cluster checker")) {}

  // In the order of their numbers; before anything happens.
  void AddMachine(Machine* machine) { machines_.push_back(machine); }

  // Is told of whoever begins to lead.
  void OnElection(std::function<void(size_t member)> call) { on_election_ = std::move(call); }

  // A message leaves a member.
  void OnMessage(size_t member, const consensus::Message& message) override;
  void OnDigestNote(size_t member, size_t to, const rpc::DigestNote& note) override;
  void OnDiskReport(size_t member, size_t to, const rpc::DiskReport& report) override;
  // A process has opened its directory.
  void OnStart(size_t member, consensus::DataDir& data_dir);
  // Its tree is that of a checkpoint or of another member, or new and empty.
  void OnStateLoaded(size_t member, consensus::Index applied, uint64_t digest);
  void OnApplied(size_t member, const consensus::Entry& entry, uint64_t digest);
  // For the observers.
  void OnSessionAttached(size_t member, const tree::SessionInfo& session);
  void OnSessionClosed(size_t member, tree::SessionId session, tree::Zxid zxid, bool expired);
  void OnResult(size_t member, const tree::ApplyResult& result);
  // At some moment of a process, in which `previous` was its state before.
  struct Progress {
    consensus::Term term;
    consensus::Index commit;
    bool leads;
  };
  void OnStoodStill(size_t member, int64_t from_us);
  void OnProgress(size_t member, const Progress& previous, const Progress& now);

  // The last index that was applied by any member.
  consensus::Index committed() const { return consensus::Index(entries_.size()); }
  // What a member must have to be one who never lost anything: all that was committed by now or
  // that it acknowledged.
  consensus::Index Needed(size_t member) const;
  // Compares a member's log on disk with what was committed. REQUIRES: last <= committed().
  void CheckLog(size_t member, consensus::DataDir& data_dir, consensus::Index last);

 private:
  struct Committed {
    consensus::Term term;
    uint64_t hash = 0;  // of kind and payload
    uint64_t digest = 0;
  };
  void OnLeader(consensus::MemberId leader, consensus::Term term);
  // What a leader of `term` must hold: everything known to be committed in an earlier term. Not all
  // that was committed earlier in time: who won and then stood still may speak of it after a leader
  // of a later term has committed more.
  consensus::Index CommittedBefore(consensus::Term term) const;
  // Fails if one of them is of a version that knows nothing of it.
  void CheckKnows(size_t member, size_t to, std::string_view what);
  void OnVote(consensus::MemberId voter, consensus::Term term, consensus::MemberId candidate);
  void CheckPromise(size_t member, const consensus::Message& message);
  void CheckCommitIsDurable(const consensus::Entry& entry);
  // What a power failure at this moment leaves at least; nullptr if there is no directory then.
  std::unique_ptr<consensus::DataDir> OpenDurable(size_t member,
                                                  std::unique_ptr<consensus::FaultEnv>* env);
  static uint64_t HashOf(const consensus::Entry& entry);

  Simulation& simulation_;
  std::vector<ServerObserver*>& observers_;
  Random& random_;
  std::vector<Machine*> machines_;
  std::function<void(size_t member)> on_election_;
  std::map<consensus::Term, consensus::MemberId> leaders_;
  std::map<std::pair<consensus::MemberId, consensus::Term>, consensus::MemberId> votes_;
  std::vector<Committed> entries_;  // of index 1 and on
  // The highest commit index that was seen in a process of a term: those entries were committed in
  // this term or before.
  std::map<consensus::Term, consensus::Index> commits_;
  std::map<size_t, consensus::Index> acknowledged_;  // by member, the highest
};

}  // namespace quorate::simulation
