// The dedup table: the number of the last applied command of each proposer. It rejects commands
// that were sent twice, and commands that overtook a lost one.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "tree/command.h"

namespace quorate::tree {

// The member id of commands without a proposer: they have no sequence and are always applied.
inline constexpr uint16_t kNoMember = 0;

class DedupTable {
 public:
  struct Last {
    uint64_t incarnation = 0;
    uint64_t sequence = 0;
  };
  using Map = std::map<uint16_t, Last>;

  // Returns whether to apply a command: it has no proposer, or it is its proposer's next: one more
  // than the last of the incarnation, or number 1 of a greater incarnation. Then records it as the
  // proposer's last, and updates `*digest`.
  bool Accept(const Proposer& proposer, uint64_t sequence, uint64_t* digest);

  // All entries, ascending by member.
  const Map& all() const { return last_; }
  // Replaces the table. REQUIRES: no member is kNoMember, no sequence 0.
  void Restore(Map last) { last_ = std::move(last); }

  // The table's part of the digest, computed from scratch.
  uint64_t Hash() const;

 private:
  static uint64_t HashOne(uint16_t member, const Last& last);

  Map last_;
};

}  // namespace quorate::tree
