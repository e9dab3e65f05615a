// SPDX-License-Identifier: Apache-2.0

#include "tests/model/search.h"

#include <cstdio>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/assertion_hook.h"

namespace quorate::model {
namespace {

// The index of the action taken at each step, among the enabled ones. States are rebuilt from their
// paths, which takes far less memory than storing them.
using Path = std::string;

const Scenario* at_work = nullptr;
const ClusterState* first_state = nullptr;
Path path_at_work;

char Choice(size_t which) {
  ASSERT(which < 256, "few actions are enabled at a time");
  return static_cast<char>(which);
}

size_t ChoiceAt(const Path& path, size_t step) { return static_cast<unsigned char>(path[step]); }

ClusterState Replay(const ClusterState& first, const Path& path) {
  ClusterState state = first;
  for (size_t step = 0; step < path.size(); ++step) {
    state.Do(state.Enabled()[ChoiceAt(path, step)]);
  }
  return state;
}

// Describes the steps of the path, and the members' states before the last step.
std::string Explain(const ClusterState& first, const Path& path) {
  ClusterState state = first;
  std::string text;
  for (size_t step = 0; step < path.size(); ++step) {
    const Action action = state.Enabled()[ChoiceAt(path, step)];
    if (step + 1 == path.size()) text += "  before the last step:\n" + state.Describe();
    text += "  " + state.Describe(action) + '\n';
    if (step + 1 < path.size()) state.Do(action);
  }
  return text;
}

void ExplainAssertion() {
  if (at_work == nullptr) return;
  const std::string text = Explain(*first_state, path_at_work);
  std::fprintf(stderr, "an assertion fails in %s after\n%s", at_work->name.c_str(), text.c_str());
}

}  // namespace

SearchResult Search(const Scenario& scenario, int depth) {
  SetAssertionHook(ExplainAssertion);
  const ClusterState first(&scenario);
  first_state = &first;
  at_work = &scenario;
  SearchResult result;
  std::unordered_set<uint64_t> seen{first.Key()};
  std::vector<Path> frontier{Path()};
  for (; result.depth < depth && !frontier.empty() && result.ok; ++result.depth) {
    std::vector<Path> next;
    for (const Path& path : frontier) {
      path_at_work = path;
      const ClusterState state = Replay(first, path);
      const std::vector<Action> actions = state.Enabled();
      for (size_t i = 0; i < actions.size() && result.ok; ++i) {
        path_at_work = path + Choice(i);
        ClusterState after = state;
        after.Do(actions[i]);
        ++result.steps;
        if (!after.violation().empty()) {
          result.ok = false;
          result.report = after.violation() + "\n" + Explain(first, path_at_work);
          result.report += "  after it:\n" + after.Describe();
        } else if (seen.insert(after.Key()).second) {
          next.push_back(path_at_work);
        }
      }
      if (!result.ok) break;
    }
    frontier = std::move(next);
  }
  result.states = seen.size();
  at_work = nullptr;
  return result;
}

}  // namespace quorate::model
