// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/routing/write_router.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/assert.h"

namespace quorate::rpc {
namespace {

// The most bytes of commands in one frame to the leader, or in one proposal, before the last
// command.
constexpr size_t kForwardBytesMax = 1u << 20;

// Copies commands into log entries, because the bytes in the log must not change when the same
// commands are stamped and sent again.
class EntryBuilder {
 public:
  // `bounds_time` says whether every member understands commands that bound the time.
  EntryBuilder(int64_t now_ms, bool bounds_time) : now_ms_(now_ms), bounds_time_(bounds_time) {}

  void Add(std::string_view command) {
    const size_t offset = bytes_.size();
    bytes_.append(command);
    tree::StampTime(bytes_.data() + offset, now_ms_, bounds_time_);
    ranges_.push_back({offset, command.size()});
  }
  std::vector<Slice> Finish() {
    auto buffer = std::make_shared<const std::string>(std::move(bytes_));
    std::vector<Slice> slices;
    slices.reserve(ranges_.size());
    for (const auto& range : ranges_) slices.emplace_back(buffer, range.offset, range.size);
    return slices;
  }

 private:
  const int64_t now_ms_;
  const bool bounds_time_;
  std::string bytes_;
  std::vector<CommandBatch::Range> ranges_;
};

}  // namespace

WriteRouter::WriteRouter(tree::Proposer proposer, int resend_ticks, Actions* actions,
                         size_t forward_window_bytes)
    : proposer_(proposer),
      resend_ticks_(resend_ticks),
      forward_window_bytes_(forward_window_bytes),
      actions_(actions) {
  ASSERT(proposer.member != 0);
  ASSERT(forward_window_bytes > 0);
  ASSERT(resend_ticks > 0);
}

void WriteRouter::Submit(CommandBatch batch) {
  for (const CommandBatch::Range& range : batch.commands) {
    tree::StampSequence(batch.bytes->data() + range.offset, next_sequence_);
    waiting_.push_back({next_sequence_, range, batch.bytes});
    waiting_bytes_ += range.size;
    ++next_sequence_;
  }
  if (ReadyToSend()) SendUnsent();
}

bool WriteRouter::ReadyToSend() const {
  return status_.leader != consensus::kNoMember && applied_term_ == status_.term;
}

void WriteRouter::SendUnsent() {
  if (status_.role == consensus::Role::kLeader) {
    while (sent_count_ < waiting_.size() && ProposeUnsent()) {
    }
  } else {
    while (sent_count_ < waiting_.size() && sent_bytes_ < forward_window_bytes_) ForwardUnsent();
  }
  if (sent_count_ > 0) ReportSent();
}

void WriteRouter::ReportSent() {
  const auto report = [this](uint64_t sequence) {
    reported_ = sequence;
    actions_->OnSent(sequence);
  };
  if (status_.leader != reported_leader_ || status_.term != reported_term_) {
    reported_leader_ = status_.leader;
    reported_term_ = status_.term;
    // What is applied was not sent again: it keeps the time at which it was sent.
    const uint64_t applied = waiting_.front().sequence - 1;
    if (reported_ > applied) report(applied);
  }
  // Commands that are sent again to the same leader were on their way to it before.
  const uint64_t sent = waiting_[sent_count_ - 1].sequence;
  if (sent > reported_) report(sent);
}

bool WriteRouter::ProposeUnsent() {
  EntryBuilder entries(actions_->NowMs(), actions_->ClusterVersion() >= tree::kVersionBoundedTime);
  size_t bytes = 0;
  size_t end = sent_count_;
  for (; end < waiting_.size() && bytes < kForwardBytesMax; ++end) {
    entries.Add(waiting_[end].view());
    bytes += waiting_[end].range.size;
  }
  if (!actions_->Propose(entries.Finish()).ok()) return false;  // retried at the next tick
  sent_count_ = end;
  sent_bytes_ += bytes;
  return true;
}

void WriteRouter::ForwardUnsent() {
  std::vector<std::string_view> commands;
  size_t bytes = 0;
  while (sent_count_ < waiting_.size() && bytes < kForwardBytesMax &&
         sent_bytes_ < forward_window_bytes_) {
    const Waiting& next = waiting_[sent_count_++];
    commands.push_back(next.view());
    bytes += next.range.size;
    sent_bytes_ += next.range.size;
  }
  actions_->Forward(status_.leader, commands);
}

void WriteRouter::SendAllAgain() {
  sent_count_ = 0;
  sent_bytes_ = 0;
  ticks_without_progress_ = 0;
  if (ReadyToSend()) SendUnsent();
}

void WriteRouter::OnForward(const ForwardedCommands& forward) {
  if (status_.role != consensus::Role::kLeader) return;
  const uint32_t version = actions_->ClusterVersion();
  EntryBuilder entries(actions_->NowMs(), version >= tree::kVersionBoundedTime);
  auto next = taken_;
  bool any = false;
  for (const ForwardedCommands::Command& command : forward.commands()) {
    // A correct sender forwards such a command only after it has applied the newer cluster version,
    // which happens later than here.
    if (command.version_needed > version) {
      spdlog::error(
          "server {} forwards command number {}, which needs version {}; the cluster version is {}",
          command.proposer.member, command.sequence, command.version_needed, version);
      break;
    }
    Taken& taken = next[command.proposer.member];
    const uint64_t sequence = command.sequence;
    // A command that was proposed in this term cannot be lost in this term, so it is not proposed
    // again. A gap means that a frame was lost. The sender notices that, and sends again from the
    // lost command, whose number may be below the first one taken in this term.
    const bool begins = taken.incarnation != command.proposer.incarnation || sequence < taken.first;
    if (!begins && sequence != taken.next) continue;
    if (begins) taken = {command.proposer.incarnation, sequence, sequence};
    taken.next = sequence + 1;
    entries.Add(forward.view(command));
    any = true;
  }
  if (any && actions_->Propose(entries.Finish()).ok()) taken_ = std::move(next);
}

void WriteRouter::OnStatus(const consensus::Status& status) {
  const bool changed = status.term != status_.term || status.leader != status_.leader;
  status_ = status;
  if (!changed) return;
  taken_.clear();
  SendAllAgain();
}

void WriteRouter::OnTermApplied(consensus::Term term) {
  applied_term_ = term;
  SendAllAgain();
}

void WriteRouter::OnApplied(uint64_t sequence) {
  while (!waiting_.empty() && waiting_.front().sequence <= sequence) {
    const size_t bytes = waiting_.front().range.size;
    waiting_bytes_ -= bytes;
    waiting_.pop_front();
    if (sent_count_ > 0) {
      --sent_count_;
      sent_bytes_ -= bytes;
    }
    ticks_without_progress_ = 0;
  }
  // At a follower, unsent commands wait for the window. At a leader they wait because Propose
  // refused them, and the next tick retries that.
  const bool is_open = sent_bytes_ <= forward_window_bytes_ / 2;
  if (sent_count_ < waiting_.size() && is_open && ReadyToSend() &&
      status_.role != consensus::Role::kLeader) {
    SendUnsent();
  }
}

void WriteRouter::OnPeerUp(consensus::MemberId member) {
  if (member == status_.leader) SendAllAgain();
}

void WriteRouter::OnTick() {
  if (waiting_.empty() || !ReadyToSend()) return;
  if (sent_count_ < waiting_.size()) SendUnsent();
  // Commands that this member has proposed itself, as the leader, may be slow but are not lost.
  if (status_.role == consensus::Role::kLeader) return;
  if (actions_->IsSending(status_.leader)) return;
  if (++ticks_without_progress_ >= resend_ticks_) SendAllAgain();
}

}  // namespace quorate::rpc
