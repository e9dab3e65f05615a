// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/health.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace quorate::rpc::admin {
namespace {

using consensus::MemberId;

// Returns why the server does not serve; empty if it does.
std::string ReasonNotReady(const ServerStatus& status, int64_t contact_limit_ms) {
  if (!status.leader_known) {
    return status.read_only ? "there is no leader; only read-only clients are served"
                            : "there is no leader";
  }
  if (!status.caught_up) return "this server has not caught up with the leader yet";
  // The status says "in touch" for ever if the thread that renews it hangs; its age then grows.
  if (!status.in_touch || status.leader_contact_age_ms > contact_limit_ms) {
    return absl::StrCat(status.is_leader || status.standalone
                            ? "this server has not renewed its status for "
                            : "the leader was not heard from for ",
                        status.leader_contact_age_ms, " ms");
  }
  return "";
}

HttpResponse Verdict(std::string reason) {
  return reason.empty() ? TextResponse(200, "ok") : TextResponse(503, std::move(reason));
}

}  // namespace

std::string ReasonNotToStop(MemberId member, const ServerStatus& status, const ClusterView& view,
                            int64_t contact_limit_ms) {
  const auto found =
      std::find_if(view.members.begin(), view.members.end(),
                   [member](const ClusterView::Member& other) { return other.id == member; });
  if (status.standalone || view.members.size() <= 1) return "it is the only server";
  if (found == view.members.end()) {
    return absl::StrCat("member ", member.value(), " is not in the cluster");
  }
  if (std::string reason = ReasonNotReady(status, contact_limit_ms); !reason.empty()) return reason;
  if (found->observer) return "";
  if (!view.is_leader) {
    return absl::StrCat("only the leader knows whether the others have all entries; ask member ",
                        view.leader.value(), ", with ?member=", member.value());
  }
  if (view.changing) return "a change of voters is under way";
  size_t voters = 0;
  size_t ready = 0;
  for (const ClusterView::Member& other : view.members) {
    if (other.observer) continue;
    ++voters;
    // The leader commits what a majority of the others has, even if its own disk is behind.
    const bool has_all = (other.id == view.self || other.reachable) && other.in_sync;
    ready += other.id != member && has_all ? 1 : 0;
  }
  const size_t majority = voters / 2 + 1;
  if (ready >= majority) return "";
  return absl::StrCat("without member ", member.value(), ", ", ready,
                      " voters are up to date, and ", majority, " of ", voters, " are needed");
}

std::optional<HttpResponse> HealthResponse(const RequestTarget& target, const ServerStatus& status,
                                           const ClusterView& view, int64_t contact_limit_ms) {
  if (target.path == "/health/live") return Verdict("");
  if (target.path == "/health/startup") {
    return Verdict(status.caught_up ? "" : "this server has not caught up with a leader yet");
  }
  if (target.path == "/health/ready") return Verdict(ReasonNotReady(status, contact_limit_ms));
  if (target.path != "/health/safe-to-stop") return std::nullopt;
  uint32_t member = view.self.value();
  const std::optional<std::string_view> text = target.Find("member");
  if (text.has_value() && !absl::SimpleAtoi(ToAbsl(*text), &member)) {
    return TextResponse(400, "?member has to be the number of a server.N line");
  }
  return Verdict(ReasonNotToStop(MemberId(member), status, view, contact_limit_ms));
}

}  // namespace quorate::rpc::admin
