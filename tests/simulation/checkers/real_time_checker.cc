// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/real_time_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace quorate::simulation {

RealTimeChecker::RealTimeChecker(History* history, ReplayChecker* replay) : history_(history) {
  history->AddListener(this);
  replay->AddListener(this);
}

void RealTimeChecker::See(int64_t zxid) { seen_zxid_ = std::max(seen_zxid_, zxid); }

void RealTimeChecker::OnInvoked(const Operation& operation) {
  const OperationKind kind = operation.request.kind;
  if (IsLogged(kind) || kind == OperationKind::kSync) seen_before_[operation.id] = seen_zxid_;
}

void RealTimeChecker::OnLogged(const Operation& operation, int64_t zxid) {
  const auto found = seen_before_.find(operation.id);
  if (found == seen_before_.end()) return;
  if (zxid <= found->second) {
    history_->Fail("a write comes after everything that was seen before it began", operation,
                   absl::StrCat("it is in the log at zxid ", zxid, ", and zxid ", found->second,
                                " had been seen by some client when it began"));
  }
  seen_before_.erase(found);
}

void RealTimeChecker::OnAnswered(const Operation& operation) {
  const auto found = seen_before_.find(operation.id);
  if (operation.request.kind == OperationKind::kSync && found != seen_before_.end()) {
    if (operation.reply.zxid < found->second) {
      history_->Fail(
          "a sync shows everything that was seen before it began", operation,
          absl::StrCat("zxid ", found->second, " had been seen by some client when it began"));
    }
    seen_before_.erase(found);
  }
  See(operation.reply.zxid);
}

void RealTimeChecker::OnPong(const Link&, int64_t zxid) { See(zxid); }

void RealTimeChecker::OnEvent(const Link&, const WatchEvent& event) { See(event.zxid); }

}  // namespace quorate::simulation
