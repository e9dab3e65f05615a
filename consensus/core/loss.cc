// A follower whose log has lost entries that it had acknowledged. A disk that forgets what it had
// reported as written leaves a log that looks like one that was not written to the end when the
// power failed (consensus/log/recovery.cc): the member starts, and does not know that anything is
// missing. Its leader does, as soon as the member rejects what it had acknowledged, and tells it.
//
// The entries come again at once. Until they are there the member judges votes as if it still had
// them: it votes only for those whose log is as complete as its own was, and does not campaign. So
// what a majority held with its help is not lost as long as it knows. It goes on to count
// otherwise: what it acknowledges it has, and a leader must not need more members than before
// because of it. (It does not know it any more after a restart, or if its leader died before it
// could tell.)
//
// A later leader may have replaced what was lost, if it was not committed: the loss is made up for
// as well when an entry of a later term is committed here.
#include <algorithm>

#include "base/assert.h"
#include "consensus/core/raft_impl.h"

namespace quorate::consensus {

void Raft::Impl::TellLoss(MemberId member, Index acknowledged) {
  ASSERT(role() == Role::kLeader);
  if (version_of(member) < kVersionLossNotice) return;
  const Index known = std::max(acknowledged, base_index());
  Send(member, LossNotice{acknowledged, terms_.TermAt(known)});
}

void Raft::Impl::Handle(MemberId from, const LossNotice& notice) {
  if (standing_ != Standing::kFull || notice.term > term_ || !AcceptLeader(from)) return;
  // It may have come again, or late.
  if (installing_ || notice.index <= last_index()) return;
  lost_ = Loss{last_index() + 1, notice.index, notice.term, term_};
}

void Raft::Impl::AdvanceLoss() {
  if (!lost_) return;
  const auto* follower = std::get_if<FollowerRole>(&role_);
  ASSERT(follower != nullptr, "it does not campaign");
  const bool has_all = std::min(follower->matched, durable_) >= lost_->last;
  const bool is_replaced =
      term_ > lost_->told_in && terms_.TermAt(commit_) > lost_->told_in && commit_ <= durable_;
  if (has_all || is_replaced || IsOnlyVoter()) lost_.reset();
}

}  // namespace quorate::consensus
