// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/sequence_check.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace quorate::chaos {
namespace {

constexpr char kGrow[] = "sequence numbers grow";
constexpr size_t kDigits = 10;

struct Given {
  int64_t number = 0;
  const Operation* operation = nullptr;
};

struct Parent {
  std::vector<Given> given;
  absl::flat_hash_set<std::string_view> names;  // names that were given
  std::map<std::string_view, int64_t> unknown;  // by prefix: how many creations
  std::vector<const Operation*> lists;
};

std::string_view ParentOf(std::string_view path) { return path.substr(0, path.rfind('/')); }
std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

class Checker {
 public:
  Checker(std::string_view path, Verdicts* verdicts) : path_(path), verdicts_(verdicts) {}

  void Check(Parent* parent) const {
    CheckOnce(*parent);
    CheckRealTime(*parent);
    CheckZxids(parent);
    for (const Operation* list : parent->lists) CheckList(*list, *parent);
  }

 private:
  void Fail(std::string_view invariant, const std::string& details, const Given& a,
            const Given& b) const {
    verdicts_->Fail(invariant, absl::StrCat(std::string(path_), ": ", details),
                    {a.operation, b.operation});
  }

  void CheckOnce(const Parent& parent) const {
    std::map<int64_t, Given> by_number;
    for (const Given& given : parent.given) {
      const auto [at, fresh] = by_number.emplace(given.number, given);
      if (fresh) continue;
      Fail("a sequence number is given once", absl::StrCat(given.number, " was given twice"),
           at->second, given);
    }
  }

  // An operation that began after another one was answered has the greater number.
  void CheckRealTime(const Parent& parent) const {
    std::vector<Given> by_answer = parent.given;
    std::sort(by_answer.begin(), by_answer.end(), [](const Given& a, const Given& b) {
      return a.operation->answered_ns < b.operation->answered_ns;
    });
    Given greatest{-1, nullptr};
    size_t next = 0;
    for (const Given& given : parent.given) {  // by invocation
      for (; next < by_answer.size() &&
             by_answer[next].operation->answered_ns < given.operation->invoked_ns;
           ++next) {
        if (by_answer[next].number > greatest.number) greatest = by_answer[next];
      }
      if (greatest.number <= given.number) continue;
      Fail(kGrow, absl::StrCat(given.number, " was given after ", greatest.number), greatest,
           given);
    }
  }

  void CheckZxids(Parent* parent) const {
    std::vector<Given> by_zxid;
    for (const Given& given : parent->given) {
      if (given.operation->WriteZxid() > 0) by_zxid.push_back(given);
    }
    std::sort(by_zxid.begin(), by_zxid.end(), [](const Given& a, const Given& b) {
      return a.operation->WriteZxid() < b.operation->WriteZxid();
    });
    for (size_t i = 1; i < by_zxid.size(); ++i) {
      if (by_zxid[i - 1].number <= by_zxid[i].number) continue;
      Fail(kGrow,
           absl::StrCat(by_zxid[i].number, " was given at a later zxid than ",
                        by_zxid[i - 1].number),
           by_zxid[i - 1], by_zxid[i]);
    }
  }

  // A list has no more names without an acknowledged creation than there are unknown creations.
  void CheckList(const Operation& list, const Parent& parent) const {
    verdicts_->Count("lists");
    std::map<std::string_view, int64_t> others;
    for (std::string_view name : list.children) {
      if (name.size() < kDigits || parent.names.count(name) > 0) continue;
      int64_t number = 0;
      if (!absl::SimpleAtoi(std::string(name.substr(name.size() - kDigits)), &number)) continue;
      verdicts_->Count("names in lists without an acknowledged creation");
      const std::string_view prefix = name.substr(0, name.size() - kDigits);
      const auto unknown = parent.unknown.find(prefix);
      const int64_t most = unknown == parent.unknown.end() ? 0 : unknown->second;
      if (++others[prefix] != most + 1) continue;
      verdicts_->Fail(
          "each creation makes one node",
          absl::StrCat(std::string(path_), " has more nodes than were created: the creations of ",
                       std::string(name), " and ", most, " more were not acknowledged, and only ",
                       most, " creations have an unknown outcome"),
          {&list});
    }
  }

  const std::string_view path_;
  Verdicts* const verdicts_;
};

}  // namespace

Verdicts CheckSequences(const Run& run) {
  Verdicts verdicts(&run, "sequence");
  std::map<std::string_view, Parent> parents;
  for (const Operation& operation : run.operations()) {
    if (operation.function != Function::kCreate || !operation.sequential) continue;
    Parent& parent = parents[ParentOf(operation.path)];
    if (operation.outcome == Outcome::kUnknown) ++parent.unknown[NameOf(operation.path)];
    if (!operation.ok()) continue;
    Given given{0, &operation};
    if (operation.made.size() != operation.path.size() + kDigits ||
        !operation.made.starts_with(operation.path) ||
        !absl::SimpleAtoi(std::string(operation.made.substr(operation.path.size())),
                          &given.number)) {
      verdicts.Fail("a sequential node has a number of ten digits",
                    absl::StrCat(std::string(operation.made), " was made"), {&operation});
      continue;
    }
    parent.given.push_back(given);
    parent.names.insert(NameOf(operation.made));
    verdicts.Count("numbers given");
  }
  for (const Operation& operation : run.operations()) {
    if (operation.function != Function::kList || !operation.ok()) continue;
    const auto parent = parents.find(operation.path);
    if (parent != parents.end()) parent->second.lists.push_back(&operation);
  }
  for (auto& [path, parent] : parents) Checker(path, &verdicts).Check(&parent);
  return verdicts;
}

}  // namespace quorate::chaos
