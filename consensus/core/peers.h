// SPDX-License-Identifier: Apache-2.0

// What this member knows of each other member from its messages: the data directory that it uses,
// the version of its program, and whether it votes. Decides which messages are handled when a
// member's directory is another one than before; data_loss.cc says why.
//
// Thread-safety: none; a value of Raft.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "consensus/core/message.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// Returns the lowest directory epoch that may be chosen in `term`. It is greater than the epochs
// that are chosen in earlier terms (fewer than 2^16 in each), and than those that earlier versions
// derived from the time.
uint64_t FirstDirectoryEpochOf(Term term);

class Peers {
 public:
  struct Peer {
    uint64_t directory_epoch = kNoDirectoryEpoch;  // the greatest of its messages
    uint32_t version = 0;      // newest that it understands, from its last recorded message
    uint64_t heard_ticks = 0;  // last time of a message with that epoch
    bool voting = false;       // Message::voting of its last message, dropped or not
  };
  enum class Sender : uint8_t {
    kDropped,       // the message must be dropped
    kUnrecorded,    // handle the message, which does not change what is known of its sender
    kKnown,         // handle it: its sender is known, or new
    kNewDirectory,  // handle it: another directory has replaced the one before, whose
                    // acknowledgements no longer count
  };
  struct Received {
    Sender sender = Sender::kKnown;
    // An answer for the sender of a dropped message.
    std::optional<DirectoryEpochResponse> answer;
  };

  // After a message from a directory, the directory counts as in use for `alive_ticks`.
  explicit Peers(uint64_t alive_ticks) : alive_ticks_(alive_ticks) {}

  // Records the sender of `message`, which was received at `now_ticks` in `own_term`.
  Received Receive(const Message& message, Term own_term, uint64_t now_ticks);

  // Returns what is known of `member`; nullptr if nothing was received from it.
  const Peer* Find(MemberId member) const;
  // Returns the newest version that `member` understands; 0 if nothing was received from it.
  uint32_t VersionOf(MemberId member) const;

 private:
  bool IsAlive(const Peer& peer, uint64_t now_ticks) const;
  // Returns whether to handle a message whose directory epoch is not the one known of its sender.
  bool Admit(const Message& message, const Peer& peer, Term own_term, uint64_t now_ticks,
             std::optional<DirectoryEpochResponse>* answer) const;

  uint64_t alive_ticks_;
  std::map<MemberId, Peer> peers_;
};

}  // namespace quorate::consensus
