// SPDX-License-Identifier: Apache-2.0

// The dedup table: the sequence number of the last applied command of each proposer. It rejects
// commands that were sent twice, and commands that overtook a lost one.
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

  // Returns whether the command is to be applied. That is the case if it has no proposer, or if it
  // is its proposer's next command: one more than the last number of the incarnation, or number 1
  // of a greater incarnation. If the command has a proposer and is accepted, records it as the
  // proposer's last and updates `*digest`.
  bool Accept(const Proposer& proposer, uint64_t sequence, uint64_t* digest);

  // Returns all entries, ascending by member.
  const Map& all() const { return last_; }
  // Replaces the table. REQUIRES: no member is kNoMember, and no sequence is 0.
  void Restore(Map last) { last_ = std::move(last); }

  // Returns the table's part of the digest, computed from scratch.
  uint64_t Hash() const;

 private:
  static uint64_t HashOne(uint16_t member, const Last& last);

  Map last_;
};

}  // namespace quorate::tree
