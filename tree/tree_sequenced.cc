// SPDX-License-Identifier: Apache-2.0

// The functions of Tree::Impl for numbered writes.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "tree/limits.h"
#include "tree/response_cache.h"
#include "tree/tree_impl.h"

namespace quorate::tree {

void ExpandRepeated(size_t results_max, ApplyResult* result) {
  ASSERT(result->repeated && results_max > 0);
  const bool decoded =
      DecodeAnswer(result->kept, &result->zxid, &result->branch, &result->ops, results_max);
  ASSERT(decoded, "the cache holds encoded responses");
}

void Tree::Impl::ApplySequencedRequest(const CommandHeader& header, std::string_view command,
                                       Zxid zxid, bool wanted, ApplyListener* listener,
                                       ApplyResult* result) {
  const absl::StatusOr<SequencedRequest> sequenced = DecodeSequencedRequest(command);
  ASSERT(sequenced.ok(), "a committed command decodes, or memory or log is damaged");
  const Request& request = sequenced->request;
  result->client_sequence = sequenced->sequence;
  Session* session = nullptr;
  result->error = FindAttached(header, &session);
  if (result->error != ErrorCode::kOk) return;
  Acknowledge(session, sequenced->acknowledged);
  result->error = CheckSequence(*session, sequenced->sequence, result);
  result->session_ephemerals = session->ephemeral_count;
  if (result->error != ErrorCode::kOk || result->repeated) return;

  const Context context{zxid,
                        session,
                        request.identities,
                        request.enforces_quota,
                        wanted ? listener : nullptr,
                        /*is_local=*/false,
                        kNumberedReadCostMax};
  // Every server stores the response, including those that do not send it.
  std::vector<OpResult>& results = wanted ? result->ops : results_;
  const Totals before = totals_;
  bool applied = TryOps(request, context, &result->branch, &results);
  CountVisits(request);
  EncodeAnswer(zxid, result->branch, results, &answer_);
  if (ResponseCache::IsTooLarge(answer_)) {
    // The response would never fit, however long the client waited. Therefore the request fails.
    ASSERT(applied, "the response of a failed request is short");
    Rollback(before);
    applied = false;
    // Earlier versions have named the first operation, whichever was too much.
    const bool names_first = VersionNeeded(request) < kVersionTransactions;
    SetFailed(ErrorCode::kTooLarge, names_first ? 0 : PlaceOfExcess(zxid, results), results);
    EncodeAnswer(zxid, result->branch, results, &answer_);
  }
  if (session->answers != nullptr && !session->answers->HasRoom(answer_)) {
    if (applied) Rollback(before);
    result->error = ErrorCode::kTooManyUnacknowledged;
    result->ops.clear();
    return;
  }
  KeepAnswer(session);
  if (applied) CommitRequest(zxid, listener);
  result->session_ephemerals = session->ephemeral_count;
}

void Tree::Impl::Acknowledge(Session* session, uint64_t sequence) {
  if (std::min(sequence, session->last_sequence()) <= session->acknowledged()) return;
  changes_.BeforeSessionChange(session->id);
  totals_.digest -= session->answers->Hash();
  answer_bytes_ -= session->answers->memory_bytes();
  session->answers->Acknowledge(sequence);
  answer_bytes_ += session->answers->memory_bytes();
  totals_.digest += session->answers->Hash();
}

ErrorCode Tree::Impl::CheckSequence(const Session& session, uint64_t sequence,
                                    ApplyResult* result) {
  if (sequence <= session.acknowledged()) return ErrorCode::kAlreadyAcknowledged;
  if (sequence <= session.last_sequence()) {
    if (SeededBug("a repeated write is made again")) return ErrorCode::kOk;
    result->repeated = true;
    result->kept = session.answers->Find(sequence);
    visited_nodes_ += result->kept.size() / kReadChildCost;
    const bool decoded = DecodeAnswerHead(result->kept, &result->zxid, &result->branch);
    ASSERT(decoded, "the cache holds encoded responses");
    return ErrorCode::kOk;
  }
  if (sequence - session.last_sequence() > 1) return ErrorCode::kOutOfSequence;
  // This is checked here so that the operations are not tried in vain.
  const bool full = session.last_sequence() - session.acknowledged() == kAnswersMax;
  return full ? ErrorCode::kTooManyUnacknowledged : ErrorCode::kOk;
}

void Tree::Impl::KeepAnswer(Session* session) {
  changes_.BeforeSessionChange(session->id);
  if (session->answers == nullptr) {
    session->answers = std::make_unique<ResponseCache>(session->id);
  } else {
    totals_.digest -= session->answers->Hash();
    answer_bytes_ -= session->answers->memory_bytes();
  }
  session->answers->Append(answer_);
  answer_bytes_ += session->answers->memory_bytes();
  totals_.digest += session->answers->Hash();
}

}  // namespace quorate::tree
