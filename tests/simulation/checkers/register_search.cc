// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/register_search.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace quorate::simulation {
namespace {

constexpr size_t kWordBits = 64;
constexpr size_t kInitial = SIZE_MAX;  // stands for the initial value in `written_by`

// A set of small numbers; most of them are in a gapless run from 0.
class DoneSet {
 public:
  bool Has(size_t i) const {
    if (i < base_) return true;
    const size_t word = (i - base_) / kWordBits;
    return word < words_.size() && (words_[word] >> (i % kWordBits) & 1) != 0;
  }
  void Add(size_t i) {
    const size_t word = (i - base_) / kWordBits;
    if (word >= words_.size()) words_.resize(word + 1, 0);
    words_[word] |= uint64_t{1} << (i % kWordBits);
    size_t full = 0;
    while (full < words_.size() && words_[full] == UINT64_MAX) ++full;
    words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(full));
    base_ += full * kWordBits;
    ++size_;
  }
  // The first number from `i` on that is not in the set.
  size_t NextMissing(size_t i) const {
    i = std::max(i, base_);
    for (size_t word = (i - base_) / kWordBits; word < words_.size(); ++word) {
      const uint64_t missing = ~words_[word] & (UINT64_MAX << (i % kWordBits));
      if (missing != 0)
        return base_ + word * kWordBits + static_cast<size_t>(std::countr_zero(missing));
      i = base_ + (word + 1) * kWordBits;
    }
    return i;
  }
  size_t size() const { return size_; }
  friend auto operator<=>(const DoneSet&, const DoneSet&) = default;

 private:
  size_t base_ = 0;  // a multiple of kWordBits
  size_t size_ = 0;
  std::vector<uint64_t> words_;  // the last one is not 0
};

// Which operations have been put in order so far, and the resulting state of the register.
struct SearchState {
  DoneSet done;              // operations whose answers are known
  std::vector<size_t> used;  // lost operations; ascending
  int32_t version = 0;
  size_t written_by = kInitial;
  // The next operation must not have returned before this time. Follows from what was done.
  int64_t now = INT64_MIN;
  friend auto operator<=>(const SearchState&, const SearchState&) = default;
};

bool ChangesNothing(const RegisterOperation& operation) {
  return !operation.write || operation.refused;
}

bool Fits(const RegisterOperation& write, int32_t version) {
  return write.expected_version == kAnyRegisterVersion || write.expected_version == version;
}

// Operations are numbered by call time, separately the known and the lost ones.
class Search {
 public:
  Search(const std::vector<RegisterOperation>& operations, std::string_view initial,
         size_t states_max)
      : operations_(operations), initial_(initial), states_max_(states_max) {
    for (size_t i = 0; i < operations.size(); ++i) {
      (operations[i].lost ? lost_ : known_).push_back(i);
    }
    const auto by_call = [&operations](size_t a, size_t b) {
      return operations[a].call_time < operations[b].call_time;
    };
    std::stable_sort(lost_.begin(), lost_.end(), by_call);
    std::stable_sort(known_.begin(), known_.end(), by_call);
    for (size_t i = 0; i < known_.size(); ++i) {
      if (Known(i).refused) continue;
      Version& at = versions_[Known(i).version];
      (Known(i).write ? at.writes : at.reads).push_back(i);
      if (!Known(i).write) values_read_.insert(Known(i).value);
    }
  }

  Verdict Run(RegisterStuck* stuck) {
    // No write leads to version 0 or to a negative one.
    for (auto at = versions_.begin(); at != versions_.end() && at->first <= 0; ++at) {
      if (at->first == 0 && at->second.writes.empty()) continue;
      const size_t first = at->second.writes.empty() ? at->second.reads[0] : at->second.writes[0];
      if (stuck != nullptr) *stuck = {0, known_[first]};
      return Verdict::kNotLinearizable;
    }
    Visit({});
    while (!stack_.empty()) {
      if (seen_.size() > states_max_) return Verdict::kTooHard;
      const SearchState& state = *stack_.back();
      stack_.pop_back();
      if (state.done.size() == known_.size()) return Verdict::kLinearizable;
      if (furthest_ == nullptr || state.done.size() > furthest_->done.size()) furthest_ = &state;
      Extend(state);
    }
    if (stuck != nullptr) *stuck = {furthest_->version, known_[FirstToReturn(*furthest_)]};
    return Verdict::kNotLinearizable;
  }

 private:
  struct Version {
    std::vector<size_t> writes;  // writes that led to this version
    std::vector<size_t> reads;
  };

  const RegisterOperation& Known(size_t i) const { return operations_[known_[i]]; }
  const RegisterOperation& Lost(size_t i) const { return operations_[lost_[i]]; }

  // Of the known operations that are left, the one that returned first. REQUIRES: there is one.
  size_t FirstToReturn(const SearchState& state) const {
    size_t first = kInitial;
    for (size_t i = state.done.NextMissing(0); i < known_.size();
         i = state.done.NextMissing(i + 1)) {
      if (first != kInitial && Known(i).call_time > Known(first).return_time) break;
      if (first == kInitial || Known(i).return_time < Known(first).return_time) first = i;
    }
    return first;
  }

  int64_t FirstReturn(const SearchState& state) const {
    return state.done.size() == known_.size() ? INT64_MAX : Known(FirstToReturn(state)).return_time;
  }

  std::string_view ValueOf(const SearchState& state) const {
    return state.written_by == kInitial ? initial_ : operations_[state.written_by].value;
  }

  // Whether an operation that changes nothing would get the answer that it got.
  bool Explains(const SearchState& state, const RegisterOperation& operation) const {
    if (operation.refused) return !Fits(operation, state.version);
    return operation.version == state.version && operation.value == ValueOf(state);
  }

  // Does all operations that can be next and change nothing: doing them now is as good as later.
  // Each may enable others. (A refusal does not advance `now`: it might as well come later.)
  void DoWhatChangesNothing(SearchState* state) const {
    for (bool any = true; any;) {
      any = false;
      const int64_t first_return = FirstReturn(*state);
      for (size_t i = state->done.NextMissing(0); i < known_.size();
           i = state->done.NextMissing(i + 1)) {
        const RegisterOperation& operation = Known(i);
        if (operation.call_time > first_return) break;
        if (!ChangesNothing(operation) || !Explains(*state, operation)) continue;
        state->done.Add(i);
        if (!operation.refused) state->now = std::max(state->now, operation.call_time);
        any = true;
      }
    }
  }

  // Visits each state to which one more write leads, if all known reads of the current version are
  // done. The write is the known one that led to the next version or, if there is none, a lost one.
  // It must have been called before the first return of the known operations that are left.
  void Extend(const SearchState& state) {
    const auto current = versions_.find(state.version);
    if (current != versions_.end()) {
      for (size_t read : current->second.reads) {
        if (!state.done.Has(read)) return;
      }
    }
    const auto next = versions_.find(state.version + 1);
    const int64_t first_return = FirstReturn(state);
    if (next == versions_.end()) {
      ExtendByLost(state, first_return, nullptr);
    } else if (next->second.writes.empty()) {
      ExtendByLost(state, first_return, &Known(next->second.reads[0]).value);
    } else if (next->second.writes.size() == 1) {  // of two writes, one would be left over
      const size_t write = next->second.writes[0];
      const RegisterOperation& operation = Known(write);
      if (operation.call_time > first_return || !Fits(operation, state.version)) return;
      SearchState after = state;
      after.done.Add(write);
      Visit(std::move(after), known_[write]);
    }
  }

  void ExtendByLost(const SearchState& state, int64_t first_return, const std::string_view* value) {
    // The lost writes to try; the last one is visited first.
    std::deque<size_t> candidates;
    std::optional<int64_t> last_time;
    for (size_t i = 0; i < lost_.size() && Lost(i).call_time <= first_return; ++i) {
      const RegisterOperation& operation = Lost(i);
      if (!Fits(operation, state.version) || operation.return_time < state.now) continue;
      if (std::binary_search(state.used.begin(), state.used.end(), i)) continue;
      if (value != nullptr) {
        if (operation.value == *value) candidates.push_front(i);
      } else if (values_read_.count(operation.value) > 0) {
        candidates.push_front(i);  // most likely needed where its value was read
      } else if (operation.expected_version != kAnyRegisterVersion) {
        candidates.push_back(i);  // it can succeed only at this version
      } else if (!last_time || operation.return_time < *last_time) {
        // No read returned their values, so of two, the one that was called and returned earlier is
        // the better choice now, and the other one later.
        last_time = operation.return_time;
        candidates.push_back(i);
      }
    }
    for (size_t i : candidates) {
      SearchState after = state;
      after.used.insert(std::upper_bound(after.used.begin(), after.used.end(), i), i);
      Visit(std::move(after), lost_[i]);
    }
  }

  // Visits `state` after one more write.
  void Visit(SearchState state, size_t write) {
    ++state.version;
    state.written_by = write;
    state.now = std::max(state.now, operations_[write].call_time);
    Visit(std::move(state));
  }

  void Visit(SearchState state) {
    DoWhatChangesNothing(&state);
    const auto [at, fresh] = seen_.insert(std::move(state));
    if (fresh) stack_.push_back(&*at);
  }

  const std::vector<RegisterOperation>& operations_;
  const std::string_view initial_;
  const size_t states_max_;
  std::vector<size_t> known_;  // indices, by call time
  std::vector<size_t> lost_;   // likewise
  std::map<int32_t, Version> versions_;
  std::set<std::string_view> values_read_;
  std::set<SearchState> seen_;
  std::vector<const SearchState*> stack_;
  const SearchState* furthest_ = nullptr;
};

}  // namespace

Verdict CheckRegister(const std::vector<RegisterOperation>& operations, std::string_view initial,
                      size_t states_max, RegisterStuck* stuck) {
  return Search(operations, initial, states_max).Run(stuck);
}

}  // namespace quorate::simulation
