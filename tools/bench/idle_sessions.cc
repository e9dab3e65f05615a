// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/idle_sessions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "tools/bench/workload.h"

namespace quorate::tools::bench {
namespace {

// The time without a new session or watch after which Open gives up.
constexpr int64_t kSilenceMaxNs = 30 * kNsInSecond;

}  // namespace

IdleSessions::IdleSessions(size_t sessions, size_t watches, std::string root,
                           const std::vector<Endpoint>& servers, Engine* engine)
    : watches_(watches),
      root_(std::move(root)),
      engine_(*engine),
      connections_(engine->Add(sessions, servers, this)) {
  ASSERT(sessions > 0);
}

IdleSessions::~IdleSessions() { engine_.Remove(connections_); }

absl::Status IdleSessions::Open() {
  const auto is_done = [this] {
    return !status_.ok() ||
           std::all_of(connections_->begin(), connections_->end(), [](const auto& connection) {
             return connection->is_up() && connection->pending() == 0;
           });
  };
  progress_ns_ = NowNs();
  while (!engine_.RunUntil(progress_ns_ + kSilenceMaxNs, is_done)) {
    if (NowNs() < progress_ns_ + kSilenceMaxNs) continue;
    return absl::UnavailableError(
        absl::StrCat("not all of the ", connections_->size(), " idle sessions and ", watches_,
                     " watches could be created: ", engine_.last_failure(),
                     " (the servers may limit connections: maxClientCnxns)"));
  }
  return status_;
}

void IdleSessions::OnUp(Connection& connection, int64_t now_ns) {
  progress_ns_ = now_ns;
  // Watches do not survive their connection, so they are set again on each later connection, too.
  for (size_t i = connection.number(); i < watches_; i += connections_->size()) {
    wire::RequestWriter to = engine_.Send(connection, wire::kExists, 0, 0, now_ns);
    wire::WriteRead(NumberedPath(root_, 'w', static_cast<uint32_t>(i)), true, to.body());
  }
}

void IdleSessions::OnReply(Connection&, const Request&, tree::ErrorCode error, std::string_view,
                           int64_t now_ns) {
  progress_ns_ = now_ns;
  if (error == tree::ErrorCode::kNoNode) return;
  status_ = absl::InternalError(absl::StrCat("an idle session cannot watch a path below ", root_,
                                             ": ", std::string(tree::ToString(error))));
}

}  // namespace quorate::tools::bench
