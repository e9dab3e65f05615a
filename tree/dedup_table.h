// Which command of each server was applied last: what makes a command that was sent twice count
// once, and one that overtook a lost one count not at all.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "tree/command.h"

namespace quorate::tree {

// Nobody's commands carry this: they have no sequence and are always applied.
inline constexpr uint16_t kNoMember = 0;

class DedupTable {
 public:
  struct Last {
    uint64_t incarnation = 0;
    uint64_t sequence = 0;
  };
  using Map = std::map<uint16_t, Last>;

  // Whether the command is nobody's, or else the next of its proposer: one more than the last of
  // its incarnation, or number 1 of a greater one. Then it is its proposer's last from now on.
  // `*digest` follows the table.
  bool Accept(const Proposer& proposer, uint64_t sequence, uint64_t* digest);

  // Ascending by member.
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
