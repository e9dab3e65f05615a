// SPDX-License-Identifier: Apache-2.0

#include "tree/dedup_table.h"

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "tree/digest.h"

namespace quorate::tree {

bool DedupTable::Accept(const Proposer& proposer, uint64_t sequence, uint64_t* digest) {
  ASSERT(digest != nullptr);
  if (proposer.member == kNoMember || SeededBug("duplicates are applied")) return true;
  const auto found = last_.find(proposer.member);
  if (found == last_.end()) {
    if (sequence != 1) return false;
  } else {
    const Last& last = found->second;
    if (proposer.incarnation < last.incarnation) return false;
    const uint64_t next = proposer.incarnation == last.incarnation ? last.sequence + 1 : 1;
    if (sequence != next) return false;
    *digest -= HashOne(proposer.member, last);
  }
  const Last now{proposer.incarnation, sequence};
  last_.insert_or_assign(proposer.member, now);
  *digest += HashOne(proposer.member, now);
  return true;
}

uint64_t DedupTable::Hash() const {
  uint64_t sum = 0;
  for (const auto& [member, last] : last_) sum += HashOne(member, last);
  return sum;
}

uint64_t DedupTable::HashOne(uint16_t member, const Last& last) {
  ASSERT(last.sequence > 0, "the first command of an incarnation is number 1");
  return HashNumbers<3>(kProposerTerm, {uint64_t{member}, last.incarnation, last.sequence});
}

}  // namespace quorate::tree
