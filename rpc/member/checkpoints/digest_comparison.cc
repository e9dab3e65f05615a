// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/digest_comparison.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "consensus/core/quorum.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using consensus::Membership;
using tree::Zxid;

// The most verdicts that a member keeps for zxids that it has not applied. Any one of them would be
// enough to find a wrong tree.
constexpr size_t kVerdictsMax = 64;

std::vector<MemberId> OtherMembers(MemberId self, const Membership& membership) {
  std::vector<MemberId> members = membership.Members();
  std::erase(members, self);
  return members;
}

}  // namespace

DigestComparison::DigestComparison(MemberId self, DigestComparisonOptions options, Actions* actions)
    : self_(self), options_(options), actions_(actions) {
  ASSERT(options.entries > 0);
  ASSERT(options.interval_ms > 0);
}

// --- At every member -----------------------------------------------------------------------------

void DigestComparison::OnApplied(Zxid zxid) {
  applied_ = zxid;
  if (question_.has_value() && question_->zxid <= applied_) {
    const Question question = *std::exchange(question_, std::nullopt);
    Say(DigestNote::Kind::kAnswer, question.from, question.zxid);
  }
  while (!verdicts_.empty() && verdicts_.begin()->first <= applied_) {
    const auto [at, verdict] = *verdicts_.begin();
    verdicts_.erase(verdicts_.begin());
    Follow(at, verdict);
  }
}

void DigestComparison::OnNote(MemberId from, const DigestNote& note, const Membership& membership) {
  const Zxid zxid(note.zxid);
  switch (note.kind) {
    case DigestNote::Kind::kQuestion:
      if (zxid <= applied_) return Say(DigestNote::Kind::kAnswer, from, zxid);
      question_ = Question{from, zxid};
      return;
    case DigestNote::Kind::kAnswer:
      if (round_.has_value() && round_->zxid == zxid) OnAnswer(from, note.digest, membership);
      return;
    case DigestNote::Kind::kVerdict:
      if (zxid <= applied_) return Follow(zxid, {from, *note.digest});
      if (verdicts_.size() < kVerdictsMax) verdicts_[zxid] = {from, *note.digest};
      return;
    case DigestNote::Kind::kConfirmation:
      if (round_.has_value() && round_->zxid == zxid) OnConfirmation(from, note.digest);
      return;
  }
}

void DigestComparison::Say(DigestNote::Kind kind, MemberId to, Zxid zxid) {
  actions_->SendDigest(to, {kind, zxid.value(), actions_->DigestAt(zxid)});
}

void DigestComparison::Follow(Zxid zxid, const Verdict& verdict) {
  Say(DigestNote::Kind::kConfirmation, verdict.from, zxid);
  CompareSelf(zxid, verdict.majority);
}

void DigestComparison::CompareSelf(Zxid zxid, uint64_t majority) {
  const std::optional<uint64_t> own = actions_->DigestAt(zxid);
  if (!own.has_value() || diverged_) return;
  if (*own == majority) {
    compared_ = std::max(compared_, zxid);
    return;
  }
  diverged_ = true;
  ++mismatches_;
  actions_->OnDiverged({zxid.value(), *own, majority});
}

// --- At the leader -------------------------------------------------------------------------------

void DigestComparison::OnTick(int64_t elapsed_ms, bool leads, const Membership& membership) {
  if (!leads) {
    round_.reset();
    undecided_ = false;
    leads_ms_ = 0;
    return;
  }
  leads_ms_ += elapsed_ms;
  complained_ms_ago_ += elapsed_ms;
  if (round_.has_value()) {
    round_->age_ms += elapsed_ms;
    round_->asked_ms_ago += elapsed_ms;
  }
  if (IsDue()) {
    Begin(membership);
  } else if (round_.has_value()) {
    const bool again = round_->asked_ms_ago >= options_.ask_again_ms;
    if (round_->majority.has_value()) {
      if (again) Tell(membership);
    } else {
      if (again) Ask(membership);
      Compare(membership);
    }
  }
}

bool DigestComparison::IsDue() const {
  if (!round_.has_value()) return leads_ms_ >= options_.interval_ms && applied_ > Zxid(0);
  if (applied_ <= round_->zxid) return false;
  if (!round_->majority.has_value()) return round_->age_ms >= options_.patience_ms;
  return round_->age_ms >= options_.interval_ms || applied_ - round_->zxid >= options_.entries;
}

void DigestComparison::Begin(const Membership& membership) {
  if (OtherMembers(self_, membership).empty()) return;
  const std::optional<uint64_t> own = actions_->DigestAt(applied_);
  if (!own.has_value()) return;  // later entries have displaced it
  round_ = Round{};
  round_->zxid = applied_;
  if (membership.IsVoter(self_)) round_->digests[self_] = own;
  Ask(membership);
  Compare(membership);
}

void DigestComparison::Ask(const Membership& membership) {
  round_->asked_ms_ago = 0;
  for (MemberId member : OtherMembers(self_, membership)) {
    if (!membership.IsVoter(member) || round_->digests.contains(member)) continue;
    actions_->SendDigest(member, {DigestNote::Kind::kQuestion, round_->zxid.value()});
  }
}

void DigestComparison::OnAnswer(MemberId from, std::optional<uint64_t> digest,
                                const Membership& membership) {
  if (!membership.IsVoter(from) || !round_->digests.emplace(from, digest).second) return;
  if (!round_->majority.has_value()) {
    Compare(membership);
  } else if (digest.has_value()) {
    CompareOther(from, *digest);
  }
}

void DigestComparison::Compare(const Membership& membership) {
  for (const auto& answer : round_->digests) {
    const std::optional<uint64_t>& digest = answer.second;
    if (!digest.has_value()) continue;
    const bool is_majority = consensus::Quorum(membership).Has([&](MemberId other) {
      const auto found = round_->digests.find(other);
      return found != round_->digests.end() && found->second == digest;
    });
    if (is_majority) return Decide(*digest, membership);
  }
  Complain(membership);
}

void DigestComparison::Decide(uint64_t majority, const Membership& membership) {
  round_->majority = majority;
  undecided_ = false;
  Tell(membership);
  for (const auto& [member, digest] : round_->digests) {
    if (member != self_ && digest.has_value()) CompareOther(member, *digest);
  }
  CompareSelf(round_->zxid, majority);
}

void DigestComparison::Complain(const Membership& membership) {
  std::optional<uint64_t> first;
  bool differ = false;
  for (const auto& [member, digest] : round_->digests) {
    if (!digest.has_value()) continue;
    if (!first.has_value()) first = digest;
    differ |= *first != *digest;
  }
  if (!differ) return;
  const std::vector<MemberId> members = membership.Members();
  const bool all = std::all_of(members.begin(), members.end(), [&](MemberId member) {
    return !membership.IsVoter(member) || round_->digests.contains(member);
  });
  // The missing answers may be on their way, and one digest may then have a majority.
  if (!all && round_->age_ms < options_.ask_again_ms) return;
  if (undecided_ && complained_ms_ago_ < options_.complaint_ms) return;
  undecided_ = true;
  complained_ms_ago_ = 0;
  actions_->OnUndecided(round_->zxid, round_->digests);
}

void DigestComparison::CompareOther(MemberId member, uint64_t digest) {
  if (digest == *round_->majority) return;
  ++mismatches_;
  actions_->OnOtherDiverged(member, {round_->zxid.value(), digest, *round_->majority});
}

void DigestComparison::Tell(const Membership& membership) {
  round_->asked_ms_ago = 0;
  for (MemberId member : OtherMembers(self_, membership)) {
    if (!round_->confirmed.contains(member)) Tell(member);
  }
}

void DigestComparison::Tell(MemberId member) {
  actions_->SendDigest(member,
                       {DigestNote::Kind::kVerdict, round_->zxid.value(), round_->majority});
}

void DigestComparison::OnConfirmation(MemberId from, std::optional<uint64_t> digest) {
  if (!round_->majority.has_value()) return;
  round_->confirmed.insert(from);
  if (digest.has_value() && round_->digests.emplace(from, digest).second)
    CompareOther(from, *digest);
}

void DigestComparison::OnPeerUp(MemberId member) {
  if (!round_.has_value() || !round_->majority.has_value()) return;
  // The member may have been restarted, and may have lost the verdict.
  round_->confirmed.erase(member);
  Tell(member);
}

}  // namespace quorate::rpc
