// What must hold of consensus in every run, whatever happens: seen from outside, over all members
// and all their lives.
//
// - one leader a term: at most one member speaks as the leader of a term
// - one vote a term: a member votes for at most one member in a term, also across restarts
// - leaders are complete: the log of the leader of a term has every entry that was committed in an
//   earlier term: the same term and the same bytes at each index
// - equal logs: at an index, all members apply the same entry, and never another one
// - equal trees: after an index, the trees of all members have the same digest
// - nothing is skipped: a member applies each index once in a life, in order
// - promises are durable: what a member acknowledges, and whom it votes for, is on its disk,
//   whatever a power failure at that moment would leave of it
// - commits are durable: what a leader commits, and what is applied anywhere, is on the disks of a
//   quorum of a membership that is in force there
// - memberships intersect: no two sets of members can decide apart from each other in two
//   memberships that follow each other
// - nothing goes back: term and commit index of a process
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/types.h"
#include "consensus/log/data_dir.h"
#include "consensus/log/fault_env.h"
#include "tests/simulation/sim_environment.h"
#include "tests/simulation/sim_peer_network.h"
#include "tests/simulation/simulation.h"

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
  void AddMachine(Machine* machine);

  // Is told of whoever begins to lead.
  void OnElection(std::function<void(size_t member)> call) { on_election_ = std::move(call); }

  // A message leaves a member.
  void OnMessage(size_t member, const consensus::Message& message) override;
  void OnDigestNote(size_t member, size_t to, const rpc::DigestNote& note) override;
  void OnDiskReport(size_t member, size_t to, const rpc::DiskReport& report) override;
  // Is told of each entry that a member is the first to apply.
  void OnFirstApplied(std::function<void(size_t member)> call) {
    on_first_applied_ = std::move(call);
  }
  // A process has found out who takes part, by its directory and its configuration.
  void OnMembershipLoaded(size_t member, const consensus::Membership& membership);
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
  // What members go by, or went by when they were last seen, and what was committed last.
  std::vector<consensus::Membership> MembershipsInForce() const;
  // How many leaders there were, each in a term of its own.
  size_t leaders() const { return leaders_.size(); }
  // Compares a member's log on disk with what was committed. REQUIRES: last <= committed().
  void CheckLog(size_t member, consensus::DataDir& data_dir, consensus::Index last);

 private:
  struct Committed {
    consensus::Term term;
    uint64_t hash = 0;  // of kind and payload
    uint64_t digest = 0;
  };
  // A leader that must hold entries which nobody has applied yet: only their indexes are known.
  struct Awaited {
    consensus::MemberId leader;
    consensus::Term term;
    consensus::Index required;             // the last of them
    std::vector<consensus::TermRun> runs;  // of the leader's log
  };
  void OnLeader(consensus::MemberId leader, consensus::Term term);
  void CheckComplete(consensus::MemberId leader, consensus::Term term);
  // Compares entries of a member's log on disk with what was committed. REQUIRES: first and last
  // are in the log, last <= committed().
  void CompareLog(std::string_view invariant, size_t member, const consensus::SegmentLog& log,
                  consensus::Index first, consensus::Index last);
  // Compares the term of a leader's entry with that of the committed one. REQUIRES: index <=
  // committed().
  void CheckTerm(const Awaited& leader, consensus::Index index);
  // The entry was applied, by the first member.
  void RecordCommitted(const consensus::Entry& entry);
  void CheckIntersection(const consensus::Membership& before, const consensus::Membership& after,
                         std::string_view where);
  // What a leader of `term` must hold: everything known to be committed in an earlier term. Not all
  // that was committed earlier in time: who won and then stood still may speak of it after a leader
  // of a later term has committed more.
  consensus::Index CommittedBefore(consensus::Term term) const;
  // Fails if one of them is of a version that knows nothing of it.
  void CheckKnows(size_t member, size_t to, std::string_view what);
  void OnVote(consensus::MemberId voter, consensus::Term term, consensus::MemberId candidate);
  void CheckPromise(size_t member, const consensus::Message& message);
  // Checks that the entry at `index`, which `member` has committed or applied, is on the disks of a
  // quorum of a membership in force there. `term`: of the entry, if that is known.
  void CheckCommitIsDurable(size_t member, consensus::Index index,
                            std::optional<consensus::Term> term, std::string_view what);
  void RecordMembership(consensus::Membership membership);
  // The membership that holds at `index` by the committed entries.
  const consensus::Membership& MembershipAt(consensus::Index index) const;
  // A disk as a power failure leaves it at least, and its directory.
  struct DurableDisk {
    // Of what: the disk, and what has changed it.
    const consensus::FaultEnv* of = nullptr;
    uint64_t operations = 0;
    uint64_t other_changes = 0;
    std::unique_ptr<consensus::FaultEnv> env;
    std::unique_ptr<consensus::DataDir> data_dir;
  };
  // What a power failure at this moment leaves at least; nullptr if there is no directory then.
  // Valid until the next call for that member.
  DurableDisk* OpenDurable(size_t member);
  // Up to where the newest checkpoint of a member goes that a power failure leaves. `env`: what it
  // leaves of the disk.
  consensus::Index DurableCheckpoint(size_t member, consensus::FaultEnv* env);
  static uint64_t HashOf(const consensus::Entry& entry);

  Simulation& simulation_;
  std::vector<ServerObserver*>& observers_;
  Random& random_;
  std::vector<Machine*> machines_;
  std::function<void(size_t member)> on_election_;
  std::function<void(size_t member)> on_first_applied_;
  std::map<consensus::Term, consensus::MemberId> leaders_;
  std::map<std::pair<consensus::MemberId, consensus::Term>, consensus::MemberId> votes_;
  std::vector<Committed> entries_;  // of index 1 and on
  // The highest commit index that was seen in a process of a term: those entries were committed in
  // this term or before.
  std::map<consensus::Term, consensus::Index> commits_;
  // By the commit index to which a leader advanced: the membership in its log as it did.
  std::map<consensus::Index, consensus::Membership> decided_under_;
  std::map<size_t, consensus::Index> acknowledged_;  // by member, the highest
  std::vector<Awaited> awaited_;
  // The committed memberships, by the index of their entries; the one at 0 is that of the
  // bootstrap.
  std::map<consensus::Index, consensus::Membership> memberships_;
  // By member: the membership that it went by after its last step; nothing before its first.
  std::map<size_t, consensus::Membership> in_force_;
  // All that any member ever went by: what was bootstrapped, and what a leader appended.
  std::vector<consensus::Membership> known_;
  std::map<size_t, DurableDisk> durable_disks_;  // the newest of each member
};

}  // namespace quorate::simulation
