// SPDX-License-Identifier: Apache-2.0

#include "tree/testing/tree_model.h"

#include <catch2/catch.hpp>
#include <map>
#include <utility>

#include "tree/testing/tree_test_util.h"

namespace quorate::tree {
namespace {

TEST_CASE("trees agree with a model and with each other") {
  std::map<ErrorCode, int> errors;
  std::map<std::pair<OpKind, ErrorCode>, int> outcomes;
  std::map<Branch, int> branches;
  int expired = 0;
  int subtrees = 0;
  int repeated = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Run run(seed);
    for (int step = 0; step < 2000; ++step) {
      CAPTURE(step);
      run.Step();
    }
    run.Compare();
    for (const auto& [error, count] : run.errors()) errors[error] += count;
    for (const auto& [branch, count] : run.branches()) branches[branch] += count;
    for (const auto& [outcome, count] : run.outcomes()) outcomes[outcome] += count;
    expired += run.expired();
    subtrees += run.subtrees();
    repeated += run.repeated();
  }
  for (ErrorCode error :
       {ErrorCode::kOk, ErrorCode::kRuntimeInconsistency, ErrorCode::kBadArguments,
        ErrorCode::kNoNode, ErrorCode::kNoAuth, ErrorCode::kBadVersion,
        ErrorCode::kNoChildrenForEphemerals, ErrorCode::kNodeExists, ErrorCode::kNotEmpty,
        ErrorCode::kSessionExpired, ErrorCode::kInvalidAcl, ErrorCode::kSessionMoved,
        ErrorCode::kQuotaExceeded, ErrorCode::kAlreadyAcknowledged, ErrorCode::kOutOfSequence}) {
    CAPTURE(error);
    CHECK(errors[error] > 20);
  }
  const std::pair<OpKind, ErrorCode> kOfKeeper[] = {
      {OpKind::kCheckNotExists, ErrorCode::kOk},
      {OpKind::kCheckNotExists, ErrorCode::kNodeExists},
      {OpKind::kCheckNotExists, ErrorCode::kNoAuth},
      {OpKind::kCreateIfNotExists, ErrorCode::kOk},
      {OpKind::kCreateIfNotExists, ErrorCode::kQuotaExceeded},
      {OpKind::kRemoveSubtree, ErrorCode::kOk},
      {OpKind::kRemoveSubtree, ErrorCode::kNotEmpty},
      {OpKind::kRemoveSubtree, ErrorCode::kNoAuth},
      {OpKind::kCheckStat, ErrorCode::kOk},
      {OpKind::kCheckStat, ErrorCode::kBadVersion},
      {OpKind::kCheckStat, ErrorCode::kNoAuth},
      {OpKind::kTryDelete, ErrorCode::kOk},
      {OpKind::kTryDelete, ErrorCode::kNoAuth},
      {OpKind::kGet, ErrorCode::kOk},
      {OpKind::kGet, ErrorCode::kNoAuth},
      {OpKind::kExists, ErrorCode::kOk},
      {OpKind::kGetChildren, ErrorCode::kOk},
      {OpKind::kGetChildren, ErrorCode::kNoAuth},
  };
  for (const auto& outcome : kOfKeeper) {
    CAPTURE(outcome.first, outcome.second);
    CHECK(outcomes[outcome] > 1);
  }
  for (const Branch branch :
       {Branch::kNone, Branch::kThen, Branch::kOtherwise, Branch::kCompares}) {
    CAPTURE(branch);
    CHECK(branches[branch] > 20);
  }
  CHECK(expired > 100);
  CHECK(subtrees > 10);
  CHECK(repeated > 100);
}

}  // namespace
}  // namespace quorate::tree
