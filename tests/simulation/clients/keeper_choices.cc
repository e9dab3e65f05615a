// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/keeper_choices.h"

#include <iterator>
#include <utility>
#include <vector>

#include "tests/simulation/checkers/replay_checker.h"

namespace quorate::simulation {
namespace {

using tree::CreateMode;
using tree::ErrorCode;

constexpr double kAskChance = 0.3;
// The maximum numbers of nodes that a recursive removal removes, or that a recursive list has.
constexpr uint32_t kCounts[] = {0, 1, 2, 3, 10, 1000, UINT32_MAX};

}  // namespace

bool KeeperChoices::Asks(LinkId link) { return !IsServedOn(link) && random_.Chance(kAskChance); }

Request KeeperChoices::AskRequest() { return MakeRead(OperationKind::kGetData, kKeeperFlagsPath); }

void KeeperChoices::OnAsked(const Operation& operation) {
  if (operation.outcome != Outcome::kAnswered || operation.reply.error != ErrorCode::kOk) return;
  served_on_ = operation.link;
}

Step KeeperChoices::PickStep(std::string path, std::string value, int32_t version) {
  switch (random_.Below(8)) {
    case 0:
    case 1: {
      Step step = MakeStep(OperationKind::kCreateIfNotExists, std::move(path), std::move(value));
      step.has_data = random_.Chance(0.9);
      if (!step.has_data) step.data.clear();
      if (random_.Chance(0.2)) step.mode = static_cast<CreateMode>(random_.Below(4));
      return step;
    }
    case 2:
      return MakeStep(OperationKind::kCheckNotExists, std::move(path), "", version);
    case 3: {
      Step step = MakeStep(OperationKind::kCheckStat, std::move(path), "", version);
      step.expected = PickExpected(step.path);
      return step;
    }
    case 4: {
      Step step = MakeStep(OperationKind::kRemoveRecursive, std::move(path));
      step.limit = kCounts[random_.Below(std::size(kCounts))];
      return step;
    }
    default:
      return MakeStep(OperationKind::kTryRemove, std::move(path), "", version);
  }
}

// Some fields of a stat that was read before, which may have changed since.
tree::Stat KeeperChoices::PickExpected(const std::string& path) {
  tree::Stat expected = AnyStat();
  const auto found = stats_.find(path);
  const tree::Stat known = found == stats_.end() ? tree::Stat() : found->second;
  const auto maybe = [this](auto* field, auto value) {
    if (random_.Chance(0.15)) *field = value;
  };
  maybe(&expected.czxid, known.czxid);
  maybe(&expected.mzxid, known.mzxid);
  maybe(&expected.ctime_ms, known.ctime_ms);
  maybe(&expected.mtime_ms, known.mtime_ms);
  maybe(&expected.version, known.version);
  maybe(&expected.cversion, known.cversion);
  maybe(&expected.aversion, known.aversion);
  maybe(&expected.ephemeral_owner, known.ephemeral_owner);
  maybe(&expected.data_length, known.data_length);
  maybe(&expected.num_children, known.num_children);
  maybe(&expected.pzxid, known.pzxid);
  return expected;
}

Request KeeperChoices::PickRead(std::string path, bool watch) {
  const uint64_t pick = random_.Below(4);
  if (pick == 0) {
    return MakeListRecursive(std::move(path), kCounts[random_.Below(std::size(kCounts))]);
  }
  Request request =
      MakeRead(pick == 1 ? OperationKind::kFilteredList : OperationKind::kFilteredListDetailed,
               std::move(path), watch);
  request.child_kind = static_cast<ChildKind>(random_.Below(3));
  if (pick == 1) return request;
  request.wants_child_stats = random_.Chance(0.7);
  request.wants_child_data = random_.Chance(0.7);
  return request;
}

Request KeeperChoices::PickEphemeral(const std::string& path, std::string value) {
  switch (random_.Below(3)) {
    case 0:
      return MakeWrite(MakeStep(OperationKind::kTryRemove, path));
    case 1: {
      Step create = MakeStep(OperationKind::kCreateIfNotExists, path, std::move(value));
      create.mode = CreateMode::kEphemeral;
      return MakeWrite(std::move(create));
    }
    default: {
      Step create = MakeStep(OperationKind::kCreate, path, std::move(value));
      create.mode = CreateMode::kEphemeral;
      return MakeMulti({MakeStep(OperationKind::kCheckNotExists, path), std::move(create)});
    }
  }
}

void KeeperChoices::Remember(const Operation& operation) {
  if (operation.outcome != Outcome::kAnswered || !operation.reply.stat) return;
  stats_[operation.request.path] = *operation.reply.stat;
}

}  // namespace quorate::simulation
