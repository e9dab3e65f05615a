// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/order_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace quorate::simulation {

OrderChecker::OrderChecker(History* history) : history_(history) { history->AddListener(this); }

OrderChecker::State& OrderChecker::StateOf(const Link& link) { return sessions_[link.session]; }

void OrderChecker::OnLinkOpened(const Link& link) {
  State& state = StateOf(link);
  state.link = link.id;
  state.answered = 0;
  state.event_zxid = 0;
  // The zxid that the client sent in the handshake; it is greater than what this session has seen
  // only if it comes from an earlier session.
  state.seen_zxid = std::max(state.seen_zxid, link.last_zxid_sent);
}

void OrderChecker::CheckZxid(const Link& link, int64_t zxid) {
  State& state = StateOf(link);
  if (zxid < state.seen_zxid) {
    history_->Fail("a session does not see time go back", link,
                   absl::StrCat("a reply has zxid ", zxid, " after one of ", state.seen_zxid));
  }
  if (zxid < state.event_zxid) {
    history_->Fail(
        "a reply is not older than an event before it", link,
        absl::StrCat("a reply has zxid ", zxid, " after an event of ", state.event_zxid));
  }
  state.seen_zxid = zxid;
}

void OrderChecker::OnAnswered(const Operation& operation) {
  const Link& link = history_->link(operation.link);
  State& state = StateOf(link);
  if (state.link != link.id) {
    history_->Fail("only the newest connection of a session is answered", operation,
                   absl::StrCat("the session is on link ", state.link));
  }
  const OperationId next = link.operations.at(state.answered++);
  if (next != operation.id) {
    history_->Fail("replies come in the order of the requests", operation,
                   absl::StrCat("before it: ", history_->Describe(history_->operation(next))));
  }
  CheckZxid(link, operation.reply.zxid);
}

void OrderChecker::OnPong(const Link& link, int64_t zxid) { CheckZxid(link, zxid); }

void OrderChecker::OnEvent(const Link& link, const WatchEvent& event) {
  if (event.zxid <= 0) return;
  State& state = StateOf(link);
  if (event.zxid < state.event_zxid) {
    history_->Fail("events come in the order of their zxids", link,
                   absl::StrCat(ToString(event), " after an event of ", state.event_zxid));
  }
  if (event.zxid <= state.seen_zxid) {
    history_->Fail("an event comes before any reply that shows its change", link,
                   absl::StrCat(ToString(event), " after a reply of zxid ", state.seen_zxid));
  }
  state.event_zxid = event.zxid;
}

}  // namespace quorate::simulation
