// Compares the trees of the members by their digests at the same zxid, while the cluster serves.
//
// The leader periodically asks the voters for their digests at a zxid that it has applied, and each
// answers when it has applied that zxid. As soon as a majority of them has the same digest, that
// one is correct: the leader sends it to all members (the verdict), and each compares its own with
// it, even a member that was too far behind to answer in time. A member that differs is wrong,
// whether it leads or not. The digest of a majority at a zxid never changes, so that a verdict is
// valid whichever leader sends it, and whenever it arrives.
//
// Without a majority it is unknown which members are wrong: the leader logs that repeatedly.
//
// The next comparison begins after a number of entries, or after some time if anything was applied
// since the last one. So an idle cluster is compared once, and a member that comes back later is
// sent the verdict of that comparison.
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
  // A comparison without a majority is abandoned for the next one after this time.
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
    // Sends `note`, if `to` understands it.
    virtual void SendDigest(consensus::MemberId to, const DigestNote& note) = 0;
    // This member's tree differs from a majority's. Called once.
    virtual void OnDiverged(const Divergence& divergence) = 0;
    // At a leader: the tree of another member differs from a majority's. That member is sent the
    // verdict.
    virtual void OnOtherDiverged(consensus::MemberId member, const Divergence& divergence) = 0;
    // At a leader: the members do not all have the same digest at `zxid`, and no digest has a
    // majority.
    virtual void OnUndecided(tree::Zxid zxid, const Digests& digests) = 0;
  };

  DigestComparison(consensus::MemberId self, DigestComparisonOptions options, Actions* actions);

  // The tree holds everything up to `zxid`.
  void OnApplied(tree::Zxid zxid);
  void OnNote(consensus::MemberId from, const DigestNote& note,
              const consensus::Membership& membership);
  // `elapsed_ms` have passed. `leads`: this member leads.
  void OnTick(int64_t elapsed_ms, bool leads, const consensus::Membership& membership);
  // The link to `member` is new: what was sent on the old one may be lost.
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
    // The digests that voters answered; nullopt: the voter does not know it any more. Once there is
    // a majority, also those of other members.
    Digests digests;
    std::optional<uint64_t> majority;
    std::set<consensus::MemberId> confirmed;  // those that have confirmed the verdict
    int64_t age_ms = 0;
    int64_t asked_ms_ago = 0;  // asked or sent the verdict
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
  // Asks the voters that have not answered.
  void Ask(const consensus::Membership& membership);
  // Sends the digest of this member at `zxid` to `to`.
  void Say(DigestNote::Kind kind, consensus::MemberId to, tree::Zxid zxid);
  void Follow(tree::Zxid zxid, const Verdict& verdict);
  void OnAnswer(consensus::MemberId from, std::optional<uint64_t> digest,
                const consensus::Membership& membership);
  // Calls Decide if a majority has the same digest, or else Complain.
  void Compare(const consensus::Membership& membership);
  void Decide(uint64_t majority, const consensus::Membership& membership);
  // Reports that voters differ without a majority, once all have answered or ask_again_ms have
  // passed; again after complaint_ms.
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
  // A question and verdicts for zxids that are not applied here yet.
  std::optional<Question> question_;
  std::map<tree::Zxid, Verdict> verdicts_;

  // At a leader.
  std::optional<Round> round_;
  int64_t leads_ms_ = 0;
  bool undecided_ = false;
  int64_t complained_ms_ago_ = 0;
};

}  // namespace quorate::rpc
