// Compares the trees of members by their digests, at the same zxid and while everything goes on.
//
// The leader asks the voters now and then for their digests at a zxid that it has applied, and each
// answers when it has applied that much. As soon as a majority of them has the same digest there,
// it is what the tree has to be: the leader tells it to all members, and each holds its own against
// it, also one that was too far behind to answer in time. Who differs is wrong, whether it leads or
// not. That a majority holds at a zxid is true for ever, so that it does not matter who says it,
// and when.
//
// Without a majority nobody can say who is wrong: that is said to people, again and again.
//
// After so many entries there is a next comparison, or after so much time if anything was applied
// since the last: a quiet cluster is compared once, and a member that comes back then is told what
// the majority had.
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
#include "rpc/peer/frame.h"
#include "rpc/server/divergence_marker.h"
#include "tree/types.h"

namespace quorate::rpc {

struct DigestComparisonOptions {
  // A comparison follows on the last after so many entries, or so much time.
  int64_t entries = 10'000;
  int64_t interval_ms = 1000;
  // Voters that have not answered are asked again after this time, and who has not confirmed what
  // the majority has is told again.
  int64_t ask_again_ms = 2000;
  // A comparison that has no majority for so long makes way for the next.
  int64_t patience_ms = 30'000;
  // How often it is said that there is no majority.
  int64_t complaint_ms = 60'000;
};

class DigestComparison {
 public:
  using Digests = std::map<consensus::MemberId, std::optional<uint64_t>>;

  // How it acts; implemented by the server.
  class Actions {
   public:
    virtual ~Actions() = default;
    // Of this member's tree, where everything up to `zxid` is applied; nullopt if it is not known
    // any more.
    virtual std::optional<uint64_t> DigestAt(tree::Zxid zxid) = 0;
    // Sends a note, if `to` understands it.
    virtual void SendDigest(consensus::MemberId to, const DigestNote& note) = 0;
    // This member differs from a majority. Called once.
    virtual void OnDiverged(const Divergence& divergence) = 0;
    // At a leader: another one does; it is told.
    virtual void OnOtherDiverged(consensus::MemberId member, const Divergence& divergence) = 0;
    // At a leader: not all have the same digest at `zxid`, and none has a majority.
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

  // The last at which this member has had the digest of a majority; 0 if there was none.
  tree::Zxid compared() const { return compared_; }
  // How often a member, this one or at a leader another, differed from a majority.
  uint64_t mismatches() const { return mismatches_; }
  // At a leader: members differ, and there is no majority.
  bool undecided() const { return undecided_; }

 private:
  struct Round {
    tree::Zxid zxid;
    // Of voters, as they answered; without a value: it is not known there. Once there is a majority
    // also of others.
    Digests digests;
    std::optional<uint64_t> majority;
    std::set<consensus::MemberId> confirmed;  // they know it
    int64_t age_ms = 0;
    int64_t asked_ms_ago = 0;  // or told
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
  // Those voters that have not answered.
  void Ask(const consensus::Membership& membership);
  // Says the digest of this member at `zxid`.
  void Say(DigestNote::Kind kind, consensus::MemberId to, tree::Zxid zxid);
  void Follow(tree::Zxid zxid, const Verdict& verdict);
  void OnAnswer(consensus::MemberId from, std::optional<uint64_t> digest,
                const consensus::Membership& membership);
  // Looks for a majority.
  void Compare(const consensus::Membership& membership);
  void Decide(uint64_t majority, const consensus::Membership& membership);
  // Says so if it cannot be decided.
  void Complain(const consensus::Membership& membership);
  void CompareOther(consensus::MemberId member, uint64_t digest);
  void CompareSelf(tree::Zxid zxid, uint64_t majority);
  // Tells the verdict to those that have not confirmed it.
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
  // Of zxids that are not applied yet.
  std::optional<Question> question_;
  std::map<tree::Zxid, Verdict> verdicts_;

  // At a leader.
  std::optional<Round> round_;
  int64_t leads_ms_ = 0;
  bool undecided_ = false;
  int64_t complained_ms_ago_ = 0;
};

}  // namespace quorate::rpc
