// SPDX-License-Identifier: Apache-2.0

// The part of a replica that compares the members' trees.
#include <spdlog/spdlog.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/member/replica.h"

namespace quorate::rpc {

using consensus::MemberId;

std::optional<uint64_t> Replica::DigestAt(tree::Zxid zxid) { return replicated_.DigestAt(zxid); }

void Replica::SendDigest(MemberId to, const DigestNote& note) {
  if (options_.node.raft.version < kVersionDigests) return;
  if (node_->raft().version_of(to) < kVersionDigests) return;
  links_->SendDigest(to, note);
}

void Replica::OnDiverged(const Divergence& divergence) { host_->OnDiverged(divergence); }

void Replica::OnOtherDiverged(MemberId member, const Divergence& divergence) {
  spdlog::error(
      "server {} has another tree than a majority: at zxid 0x{:x} its digest is {:016x}, theirs "
      "{:016x}. It stops, and has to be rebuilt",
      member.value(), divergence.zxid, divergence.own_digest, divergence.majority_digest);
}

void Replica::OnUndecided(tree::Zxid zxid, const DigestComparison::Digests& digests) {
  std::string text;
  for (const auto& [member, digest] : digests) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "server ", member.value(), " ",
                    digest.has_value() ? absl::StrFormat("%016x", *digest) : "unknown");
  }
  spdlog::error(
      "the servers' trees differ at zxid 0x{:x}, and none is that of a majority, so that nobody "
      "can say which is wrong: digests are {}. Find out whose data is right, and rebuild the "
      "others (quorate rebuild)",
      zxid.value(), text);
}

}  // namespace quorate::rpc
