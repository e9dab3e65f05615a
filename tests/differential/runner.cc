// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/runner.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/differential/generator.h"

namespace quorate::differential {
namespace {

constexpr int kShrinkTrialsMax = 60;
constexpr size_t kShownOperations = 12;
constexpr char kTreePrefix[] = "tree: ";

bool IsStallOfReference(const std::vector<Difference>& differences) {
  return !differences.empty() && differences[0].is_stall;
}

}  // namespace

Runner::Runner(RunOptions options, Spoiler spoiler, StartServers start)
    : options_(options),
      spoiler_(std::move(spoiler)),
      start_(std::move(start)),
      comparison_(std::make_unique<Comparison>()) {}

absl::Status Runner::Run() {
  if (absl::Status s = Restart(); !s.ok()) return s;
  for (uint64_t episode = 0; operations_ < options_.operations; ++episode) {
    const int64_t count = std::min(options_.episode_operations, options_.operations - operations_);
    if (absl::Status s = RunEpisode(options_.seed + episode, count); !s.ok()) return s;
    if (found_.size() >= options_.kinds_max) break;
  }
  if (!options_.shrink) return absl::OkStatus();
  for (auto& [kind, found] : found_) {
    if (absl::Status s = Shrink(kind, &found); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Runner::RunEpisode(uint64_t seed, int64_t count, bool is_repeated) {
  if (absl::Status s = Reset(); !s.ok()) return s;
  Generator generator(seed, options_.without);
  std::vector<Operation> operations;
  for (int64_t i = 0; i < count; ++i) {
    operations.push_back(generator.Next());
    ++operations_;
    const auto repeat = [&]() -> absl::Status {
      ++stalls_;
      operations_ -= i + 1;
      if (absl::Status s = Restart(); !s.ok()) return s;
      return RunEpisode(seed, count, /*is_repeated=*/true);
    };
    const std::vector<Difference> differences = pair_->Do(operations.back());
    if (!is_repeated && IsStallOfReference(differences)) return repeat();
    const bool differs = Record(differences, seed, operations, operations.size() - 1);
    const bool last = i + 1 == count;
    if (differs || last || (i + 1) % options_.tree_operations == 0) {
      // After a difference, the episode continues only if the trees are the same.
      const std::vector<Difference> trees = pair_->CompareTrees();
      if (!is_repeated && !differs && IsStallOfReference(trees)) return repeat();
      if (!trees.empty()) {
        if (!differs) Record(trees, seed, operations, operations.size() - 1);
        operations_ += count - i - 1;
        break;
      }
      if (differs) pair_->DropConnections();
    }
  }
  return absl::OkStatus();
}

absl::Status Runner::Reset() {
  if (pair_->Reset()) return absl::OkStatus();
  ++restarts_;
  return Restart();
}

absl::Status Runner::Restart() {
  Addresses addresses;
  pair_.reset();
  if (absl::Status s = start_(&addresses); !s.ok()) return s;
  comparison_->relation() = Relation(/*alone=*/options_.members == 1);
  pair_ = std::make_unique<Pair>(addresses, comparison_.get(), &spoiler_);
  return absl::OkStatus();
}

bool Runner::Record(const std::vector<Difference>& differences, uint64_t seed,
                    const std::vector<Operation>& operations, size_t position) {
  if (differences.empty()) return false;
  // Later differences of the same operation are usually consequences of the first.
  const Difference& difference = differences[0];
  Found& found = found_[difference.kind];
  if (found.count++ > 0) return true;
  found.episode_seed = seed;
  found.position = position;
  found.difference = difference;
  found.operations = operations;
  std::printf(
      "difference in episode %llu, operation %zu: %s\n  %s\n  reference: %s\n  here:      %s\n",
      static_cast<unsigned long long>(seed), position, difference.kind.c_str(),
      operations[position].Describe().c_str(), difference.reference.c_str(),
      difference.ours.c_str());
  std::fflush(stdout);
  return true;
}

absl::Status Runner::Leads(const std::vector<Operation>& operations, const std::string& kind,
                           Difference* difference, bool* leads) {
  if (absl::Status s = Reset(); !s.ok()) return s;
  *leads = false;
  auto search = [&](const std::vector<Difference>& differences) {
    if (differences.empty() || differences[0].kind != kind) return;
    *difference = differences[0];
    *leads = true;
  };
  for (const Operation& operation : operations) search(pair_->Do(operation));
  if (!*leads && kind.rfind(kTreePrefix, 0) == 0) search(pair_->CompareTrees());
  return absl::OkStatus();
}

// Leaves out halves, quarters, ... as long as the rest still leads to the difference.
absl::Status Runner::Shrink(const std::string& kind, Found* found) {
  std::vector<Operation>& operations = found->operations;
  bool leads = false;
  if (absl::Status s = Leads(operations, kind, &found->difference, &leads); !s.ok() || !leads) {
    return s;
  }
  int trials = 0;
  for (size_t size = std::max<size_t>(1, operations.size() / 2); trials < kShrinkTrialsMax;) {
    bool shorter = false;
    for (size_t from = 0; from < operations.size() && trials < kShrinkTrialsMax; ++trials) {
      std::vector<Operation> fewer = operations;
      const size_t to = std::min(from + size, operations.size());
      fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(from),
                  fewer.begin() + static_cast<ptrdiff_t>(to));
      if (absl::Status s = Leads(fewer, kind, &found->difference, &leads); !s.ok()) return s;
      if (leads) {
        operations = std::move(fewer);
        shorter = true;
      } else {
        from += size;
      }
    }
    if (size == 1 && !shorter) break;
    size = std::max<size_t>(1, size / 2);
  }
  found->shrunk = true;
  return absl::OkStatus();
}

std::string Runner::Report() const {
  std::string report = absl::StrCat(
      operations_, " operations, ", comparison_->answers(), " answers compared (",
      comparison_->errors(), " errors, ", comparison_->events(), " events), seed ", options_.seed,
      ", ", restarts_, " restarts, ", stalls_, " stalls of the reference\n");
  for (const auto& [name, count] : comparison_->known_differences()) {
    absl::StrAppend(&report, "intended: ", name, ": ", count, " times\n");
  }
  for (const auto& [kind, found] : found_) {
    absl::StrAppend(&report, "\n", found.count, " x ", kind, "\n  first in episode ",
                    found.episode_seed, ", operation ", found.position, "\n");
    const size_t shown = std::min(found.operations.size(), kShownOperations);
    if (shown < found.operations.size()) absl::StrAppend(&report, "    ...\n");
    for (size_t i = found.operations.size() - shown; i < found.operations.size(); ++i) {
      absl::StrAppend(&report, "    ", found.operations[i].Describe(), "\n");
    }
    absl::StrAppend(&report, "  reference: ", found.difference.reference,
                    "\n  here:      ", found.difference.ours, "\n");
  }
  return report;
}

}  // namespace quorate::differential
