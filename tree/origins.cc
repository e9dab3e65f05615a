#include "tree/origins.h"

#include "base/assert.h"
#include "base/planted_fault.h"
#include "tree/digest.h"

namespace quorate::tree {

bool OriginTable::Accept(const Origin& origin, uint64_t sequence, uint64_t* digest) {
  ASSERT(digest != nullptr);
  if (origin.member == kNoMember || PlantedFault("duplicates are applied")) return true;
  const auto found = last_.find(origin.member);
  if (found == last_.end()) {
    if (sequence != 1) return false;
  } else {
    const Last& last = found->second;
    if (origin.incarnation < last.incarnation) return false;
    const uint64_t next = origin.incarnation == last.incarnation ? last.sequence + 1 : 1;
    if (sequence != next) return false;
    *digest -= HashOne(origin.member, last);
  }
  const Last now{origin.incarnation, sequence};
  last_.insert_or_assign(origin.member, now);
  *digest += HashOne(origin.member, now);
  return true;
}

uint64_t OriginTable::Hash() const {
  uint64_t sum = 0;
  for (const auto& [member, last] : last_) sum += HashOne(member, last);
  return sum;
}

uint64_t OriginTable::HashOne(uint16_t member, const Last& last) {
  ASSERT(last.sequence > 0, "the first command of an incarnation is number 1");
  return HashNumbers<3>(kOriginTerm, {uint64_t{member}, last.incarnation, last.sequence});
}

}  // namespace quorate::tree
