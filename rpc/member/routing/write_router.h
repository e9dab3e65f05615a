// SPDX-License-Identifier: Apache-2.0

// Brings the writes of this server's clients into the log, so that each is applied exactly once.
// Proposes them if this member leads, and forwards them to the leader if another member does. After
// a change of leader, submits again the writes that were not seen applied. That is always safe,
// because the tree drops commands that it has already applied (tree/command.h); this class ensures
// that commands are sent in order and none is forgotten.
//
// Pure decisions: no thread, no clock, no I/O.
//
// Thread-safety: none; all calls come from the node thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/slice.h"
#include "consensus/core/output.h"
#include "consensus/core/types.h"
#include "rpc/member/routing/forwarded_commands.h"
#include "rpc/peer/frame.h"
#include "tree/command.h"

namespace quorate::rpc {

// The flow control of forwarded writes: while this many bytes are forwarded and not seen applied,
// the next writes wait. So a new leader does not receive all pending writes of its followers at
// once. The window is large enough for a leader some 100 ms away.
inline constexpr size_t kForwardWindowBytes = 8u << 20;

class WriteRouter {
 public:
  // The actions of the router; implemented by the server.
  class Actions {
   public:
    virtual ~Actions() = default;
    // Proposes `commands`, which have their time stamps, at this member. Errors as Raft::Propose.
    virtual absl::Status Propose(std::vector<Slice> commands) = 0;
    virtual void Forward(consensus::MemberId leader,
                         const std::vector<std::string_view>& commands) = 0;
    // Called when commands of this server up to number `sequence` were proposed or forwarded to this
    // leader in this term for the first time. Before that, if commands after `sequence` were proposed or
    // forwarded in another term or to another leader, and are not applied: called with the lower number,
    // because they are proposed or forwarded again.
    virtual void OnSent(uint64_t sequence) = 0;
    // Returns whether commands that were forwarded to `leader` have not left this process yet.
    virtual bool IsSending(consensus::MemberId leader) const = 0;
    // Returns the cluster version, which every member understands.
    virtual uint32_t ClusterVersion() = 0;
    // Returns the wall clock, in milliseconds since the epoch.
    virtual int64_t NowMs() = 0;
  };

  // Commands that were forwarded and are not applied within `resend_ticks` are forwarded again.
  // Ticks at which the link to the leader still holds unsent bytes do not count, so that the same
  // commands are not sent twice on a slow link. The next command is sent whole even if only one
  // byte of the window is free. REQUIRES: forward_window_bytes > 0.
  WriteRouter(tree::Proposer proposer, int resend_ticks, Actions* actions,
              size_t forward_window_bytes = kForwardWindowBytes);

  // Takes commands of this server's clients, in order. REQUIRES: they decode, and need no newer
  // version than the cluster version here.
  void Submit(CommandBatch batch);
  // Proposes commands that another server forwarded to this member as the leader. Ignores them if
  // this member does not lead. Takes the commands of each proposer only without a gap, and only up
  // to the first one that needs a newer version than the cluster version.
  void OnForward(const ForwardedCommands& forward);

  // Takes the new status of Raft. If the term or the leader has changed, submits all waiting
  // commands again.
  void OnStatus(const consensus::Status& status);
  // Called when this member has applied the no-op with which a leader began `term`, and so all
  // surviving entries of earlier terms.
  void OnTermApplied(consensus::Term term);
  // Called when this server's commands up to `sequence` were applied.
  void OnApplied(uint64_t sequence);
  // Called when the connection to `member` is new: frames on the old one may be lost.
  void OnPeerUp(consensus::MemberId member);
  void OnTick();

  // Returns whether writes wait because the window of forwarded writes is full.
  bool window_is_full() const {
    return sent_count_ < waiting_.size() && sent_bytes_ >= forward_window_bytes_;
  }
  size_t waiting_count() const { return waiting_.size(); }
  size_t waiting_bytes() const { return waiting_bytes_; }

 private:
  struct Waiting {
    uint64_t sequence = 0;
    CommandBatch::Range range;
    std::shared_ptr<std::string> bytes;
    std::string_view view() const {
      return std::string_view(*bytes).substr(range.offset, range.size);
    }
  };

  bool ReadyToSend() const;
  void SendUnsent();
  bool ProposeUnsent();
  void ForwardUnsent();
  void SendAllAgain();
  // Reports up to which command all were sent. REQUIRES: sent_count_ > 0.
  void ReportSent();

  const tree::Proposer proposer_;
  const int resend_ticks_;
  const size_t forward_window_bytes_;
  Actions* const actions_;

  consensus::Status status_;
  consensus::Term applied_term_;
  uint64_t next_sequence_ = 1;
  std::deque<Waiting> waiting_;  // not seen applied, ascending by sequence
  size_t waiting_bytes_ = 0;
  // The commands at the front of waiting_ that were sent: their number, and their bytes.
  size_t sent_count_ = 0;
  size_t sent_bytes_ = 0;
  int ticks_without_progress_ = 0;
  // The last number that was reported as sent, and the leader and the term to which it counts.
  uint64_t reported_ = 0;
  consensus::MemberId reported_leader_ = consensus::kNoMember;
  consensus::Term reported_term_;
  // At a leader: the commands of one server that were proposed in this term. Their numbers are
  // `first` to `next` - 1, without a gap.
  struct Taken {
    uint64_t incarnation = 0;
    uint64_t first = 0;
    uint64_t next = 0;
  };
  std::map<uint16_t, Taken> taken_;  // by member
};

}  // namespace quorate::rpc
