// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/recovery.h"

#include <algorithm>
#include <iterator>

#include "consensus/core/peers.h"

namespace quorate::consensus {
namespace {

template <class Container>
bool ContainsAll(const Container& container, const Recovery::Members& members) {
  return std::all_of(members.begin(), members.end(),
                     [&](MemberId member) { return container.contains(member); });
}

}  // namespace

bool Recovery::Tick(int election_ticks, int heartbeat_ticks) {
  if (++ticks_since_read_ >= election_ticks) request_id_.reset();
  return ++ticks_since_request_ >= heartbeat_ticks;
}

Recovery::Members Recovery::TakeMembersToAsk(const Members& members, bool has_epoch) {
  ticks_since_request_ = 0;
  Members unanswered;
  std::copy_if(members.begin(), members.end(), std::back_inserter(unanswered),
               [&](MemberId member) {
                 return has_epoch ? !acknowledged_.contains(member) : !known_.contains(member);
               });
  return unanswered;
}

bool Recovery::AllHaveAnswered(const Members& needed) const { return ContainsAll(known_, needed); }

uint64_t Recovery::ChooseEpoch(Term term) {
  uint64_t known = FirstDirectoryEpochOf(term) - 1;
  for (const auto& [member, directory_epoch] : known_) known = std::max(known, directory_epoch);
  acknowledged_.clear();
  return known + 1;
}

bool Recovery::AllHaveAcknowledged(const Members& needed) const {
  return ContainsAll(acknowledged_, needed);
}

void Recovery::BeginRead(uint64_t request_id, MemberId leader, Term term) {
  request_id_ = request_id;
  ticks_since_read_ = 0;
  leader_ = leader;
  term_ = term;
  acknowledged_before_ = acknowledged_;
}

bool Recovery::RecordRead(uint64_t request_id, MemberId from, Term term, Index index) {
  if (request_id_ != request_id) return false;
  if (from == leader_ && term == term_) index_ = index;
  return true;
}

void Recovery::KeepReadOf(MemberId leader, Term term, const Members& needed) {
  if (leader == leader_ && term == term_ && ContainsAll(acknowledged_before_, needed)) return;
  index_.reset();
  request_id_.reset();
}

}  // namespace quorate::consensus
