// SPDX-License-Identifier: Apache-2.0

// Compares the trees of the members by their digests at the same zxid, while the cluster serves.
//
// The leader periodically asks the voters for their digests at a zxid that it has applied. Each
// voter answers as soon as it has applied that zxid. If a majority of the voters has the same
// digest, that digest is correct. The leader then sends it to all members (the verdict), and each
// member compares its own digest with it, even a member that was too far behind to answer in time.
// A member whose digest differs has a wrong tree, whether it is the leader or not. The digest of a
// majority at a zxid never changes, so a verdict is valid whichever leader sends it and whenever it
// arrives.
//
// If no digest has a majority, it is unknown which members are wrong; the leader reports that
// repeatedly.
//
// The next comparison begins after a number of entries, or after some time if anything was applied
// since the last one. An idle cluster is therefore compared only once. A member that comes back
// later is sent the verdict of that comparison.
//
// Pure decisions: no thread, clock or I/O.
//
// Thread-safety: none; all calls come from the node thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "consensus/core/types.h"
#include "rpc/member/checkpoints/divergence_marker.h"
#include "rpc/peer/frame.h"
#include "tree/types.h"

namespace quorate::rpc {

struct DigestComparisonOptions {
  // A comparison begins after this many entries since the last one, or after this time.
  int64_t entries = 10'000;
  int64_t interval_ms = 1000;
  // After this time, voters that have not answered are asked again, and members that have not
  // confirmed the verdict are sent it again.
  int64_t ask_again_ms = 2000;
  // After this time without a majority, a comparison is given up for the next one.
  int64_t patience_ms = 30'000;
  // The interval at which a missing majority is reported.
  int64_t complaint_ms = 60'000;
};

class DigestComparison {
 public:
  using Digests = std::map<consensus::MemberId, std::optional<uint64_t>>;

  // The actions of a comparison; implemented by the server.
  class Actions {
   public:
    virtual ~Actions() = default;
    // Returns the digest of this member's tree at `zxid`, which is applied; nullopt if it is not
    // known any more.
    virtual std::optional<uint64_t> DigestAt(tree::Zxid zxid) = 0;
    // Sends `note` to member `to`; does nothing if that member does not understand it.
    virtual void SendDigest(consensus::MemberId to, const DigestNote& note) = 0;
    // Called once, when this member's tree differs from a majority's.
    virtual void OnDiverged(const Divergence& divergence) = 0;
    // Called at a leader when the tree of another member differs from a majority's. The leader also
    // sends that member the verdict.
    virtual void OnOtherDiverged(consensus::MemberId member, const Divergence& divergence) = 0;
    // Called at a leader when the digests at `zxid` differ and none of them has a majority.
    virtual void OnUndecided(tree::Zxid zxid, const Digests& digests) = 0;
  };

  DigestComparison(consensus::MemberId self, DigestComparisonOptions options, Actions* actions);

  // Called when the tree has applied everything up to `zxid`.
  void OnApplied(tree::Zxid zxid);
  void OnNote(consensus::MemberId from, const DigestNote& note,
              const consensus::Membership& membership);
  // Called periodically. `elapsed_ms` is the time since the last call, and `leads` says whether
  // this member is the leader.
  void OnTick(int64_t elapsed_ms, bool leads, const consensus::Membership& membership);
  // Called when a link to `member` is established: messages on an earlier link may be lost.
  void OnPeerUp(consensus::MemberId member);

  // Returns the last zxid at which this member had the digest of a majority; 0 if there was none.
  tree::Zxid compared() const { return compared_; }
  // Returns how often a member (this one, or, at a leader, another) differed from a majority.
  uint64_t mismatches() const { return mismatches_; }
  // At a leader: returns whether members differ and there is no majority.
  bool undecided() const { return undecided_; }

 private:
  struct Round {
    tree::Zxid zxid;
    // The digests with which voters answered; nullopt if the voter does not know its digest at
    // `zxid` any more. Once there is a majority, also the digests that other members confirmed
    // with.
    Digests digests;
    std::optional<uint64_t> majority;
    std::set<consensus::MemberId> confirmed;  // members that confirmed the verdict
    int64_t age_ms = 0;
    int64_t asked_ms_ago = 0;  // since the question or the verdict was last sent
  };
  struct Question {
    consensus::MemberId from;
    tree::Zxid zxid;
  };
  struct Verdict {
    consensus::MemberId from;
    uint64_t majority = 0;
  };

  bool IsDue() const;
  void Begin(const consensus::Membership& membership);
  // Sends the question to the voters that have not answered.
  void Ask(const consensus::Membership& membership);
  // Sends `to` this member's digest at `zxid`, as a note of `kind`.
  void Say(DigestNote::Kind kind, consensus::MemberId to, tree::Zxid zxid);
  void Follow(tree::Zxid zxid, const Verdict& verdict);
  void OnAnswer(consensus::MemberId from, std::optional<uint64_t> digest,
                const consensus::Membership& membership);
  // Calls Decide if a majority has the same digest, and Complain otherwise.
  void Compare(const consensus::Membership& membership);
  void Decide(uint64_t majority, const consensus::Membership& membership);
  // Reports that the voters' digests differ without a majority, once all voters have answered or
  // ask_again_ms have passed. Repeats the report after complaint_ms.
  void Complain(const consensus::Membership& membership);
  void CompareOther(consensus::MemberId member, uint64_t digest);
  void CompareSelf(tree::Zxid zxid, uint64_t majority);
  // Sends the verdict to the members that have not confirmed it.
  void Tell(const consensus::Membership& membership);
  void Tell(consensus::MemberId member);
  void OnConfirmation(consensus::MemberId from, std::optional<uint64_t> digest);

  const consensus::MemberId self_;
  const DigestComparisonOptions options_;
  Actions* const actions_;

  tree::Zxid applied_;
  tree::Zxid compared_;
  uint64_t mismatches_ = 0;
  bool diverged_ = false;
  // The question and the verdicts for zxids that this member has not applied yet.
  std::optional<Question> question_;
  std::map<tree::Zxid, Verdict> verdicts_;

  // Used only at a leader.
  std::optional<Round> round_;
  int64_t leads_ms_ = 0;
  bool undecided_ = false;
  int64_t complained_ms_ago_ = 0;
};

}  // namespace quorate::rpc
