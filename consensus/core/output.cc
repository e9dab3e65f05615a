// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/output.h"

#include "consensus/core/describe.h"

namespace quorate::consensus {

std::string ToString(const ApplyRange& range) {
  std::string out = "apply " + Describe(range.first) + ".." + Describe(range.last);
  return out + (range.entries.empty() ? " from the log" : " " + DescribeEntries(range.entries));
}

std::string ToString(const LogReadRequest& request) {
  return "read log " + Describe(request.first) + ".." + Describe(request.last) + " for " +
         Describe(request.follower) + " bytes<=" + std::to_string(request.bytes_max);
}

std::string ToString(const SnapshotReadRequest& request) {
  return "read snapshot " + Describe(request.index) + " offset=" + std::to_string(request.offset) +
         " for " + Describe(request.follower) + " bytes<=" + std::to_string(request.bytes_max);
}

std::string ToString(const SnapshotWriteRequest& request) {
  return "stage snapshot {" + ToString(request.meta) +
         "} offset=" + std::to_string(request.offset) +
         " bytes=" + std::to_string(request.bytes.size()) + (request.last ? " last" : "");
}

std::string ToString(const SnapshotRejection& rejection) {
  return Describe(rejection.follower) + " rejected snapshot " + Describe(rejection.index) + ": " +
         rejection.reason;
}

std::string ToString(const ReadResult& result) {
  std::string out = "read " + std::to_string(result.request_id);
  return out + (result.ok ? " at " + Describe(result.index) : " failed");
}

std::string ToString(const Status& status) {
  std::string out = "status " + ToString(status.role) + " term=" + Describe(status.term) +
                    " leader=" + Describe(status.leader);
  if (status.leader_established) out += " established";
  if (status.member_state != MemberState::kNormal) out += " " + ToString(status.member_state);
  if (status.version != kVersionBase) out += " version=" + std::to_string(status.version);
  if (status.removed) out += " removed";
  if (status.lost_last > Index{0}) {
    out += " lost=" + Describe(status.lost_first) + ".." + Describe(status.lost_last);
  }
  if (status.later_directory_epoch != 0)
    out += " later_directory_epoch=" + std::to_string(status.later_directory_epoch);
  if (status.refused_by != kNoMember) out += " refused_by=" + Describe(status.refused_by);
  if (status.differs_from != kNoMember) {
    out +=
        " differs_from=" + Describe(status.differs_from) + " " + ToString(status.other_configured);
  }
  if (status.version_needed != 0) out += " version_needed=" + std::to_string(status.version_needed);
  return out;
}

std::string ToString(const Output& output) {
  std::string out;
  auto line = [&out](const std::string& text) {
    out += text;
    out += '\n';
  };
  if (output.status) line(ToString(*output.status));
  if (output.membership) line("membership " + ToString(*output.membership));
  if (output.persist_id) {
    std::string text = "persist #" + Describe(*output.persist_id);
    if (output.directory_epoch)
      text += " directory_epoch=" + std::to_string(*output.directory_epoch);
    if (output.hard_state) text += " {" + ToString(*output.hard_state) + "}";
    if (output.truncate_after) text += " truncate_after=" + Describe(*output.truncate_after);
    if (!output.entries.empty()) text += " " + DescribeEntries(output.entries);
    line(text);
  }
  for (const Message& message : output.messages_after_persist) {
    line("send after #" + Describe(*output.persist_id) + " " + ToString(message));
  }
  for (const Message& message : output.messages_now) line("send " + ToString(message));
  if (output.apply) line(ToString(*output.apply));
  for (const LogReadRequest& request : output.log_reads) line(ToString(request));
  for (const SnapshotReadRequest& request : output.snapshot_reads) line(ToString(request));
  if (output.discard_staging) line("discard what is staged");
  for (const SnapshotWriteRequest& write : output.snapshot_writes) line(ToString(write));
  if (output.install) line("install {" + ToString(*output.install) + "}");
  if (output.compact_to) line("compact to " + Describe(*output.compact_to));
  if (output.checkpoint_wanted) line("checkpoint at " + Describe(*output.checkpoint_wanted));
  for (const SnapshotRejection& rejection : output.snapshot_rejections) line(ToString(rejection));
  for (const ReadResult& result : output.reads) line(ToString(result));
  return out;
}

}  // namespace quorate::consensus
