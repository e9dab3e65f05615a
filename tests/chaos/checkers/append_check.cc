// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/append_check.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace quorate::chaos {
namespace {

constexpr char kBeginning[] = "all readers see prefixes of one log";
constexpr char kEntry[] = "each acknowledged entry is in the log once, and no other";

// What a client read, or wrote with an acknowledgement.
struct Sight {
  int32_t version = 0;
  std::string_view data;
  const Operation* operation = nullptr;
};

struct Log {
  std::vector<Sight> sights;
  std::map<std::string_view, const Operation*> appended;  // by entry; may have happened
  std::map<std::string_view, const Operation*> refused;
};

std::string_view LastEntry(std::string_view data) {
  while (!data.empty() && data.back() == ' ') data.remove_suffix(1);
  const size_t blank = data.rfind(' ');
  return blank == std::string_view::npos ? data : data.substr(blank + 1);
}

class Checker {
 public:
  Checker(std::string_view path, const Log& log, Verdicts* verdicts)
      : path_(path), log_(log), verdicts_(verdicts) {}

  void Check(std::vector<Sight> sights) const {
    std::stable_sort(sights.begin(), sights.end(),
                     [](const Sight& a, const Sight& b) { return a.version < b.version; });
    for (size_t i = 1; i < sights.size(); ++i) {
      const Sight& before = sights[i - 1];
      const Sight& after = sights[i];
      const bool same = before.version == after.version;
      if (same ? before.data == after.data : after.data.starts_with(before.data)) continue;
      Fail(kBeginning,
           absl::StrCat("the log of version ", before.version,
                        same ? " is not the same for all: \"" : " is no prefix of that of version ",
                        same ? "" : absl::StrCat(after.version, ": \""), Tail(before.data),
                        "\" and \"", Tail(after.data), "\""),
           {before.operation, after.operation});
    }
    if (!sights.empty()) CheckEntries(sights);
  }

 private:
  static std::string Tail(std::string_view data) {
    constexpr size_t kMax = 60;
    return data.size() <= kMax ? std::string(data)
                               : absl::StrCat("...", std::string(data.substr(data.size() - kMax)));
  }

  void Fail(std::string_view invariant, const std::string& details,
            const std::vector<const Operation*>& operations) const {
    verdicts_->Fail(invariant, absl::StrCat(std::string(path_), ": ", details), operations);
  }

  void CheckEntries(const std::vector<Sight>& sights) const {
    const Sight& last = sights.back();
    std::map<std::string_view, int> entries;
    for (size_t begin = 0; begin < last.data.size();) {
      const size_t end = std::min(last.data.find(' ', begin), last.data.size());
      if (end > begin) ++entries[last.data.substr(begin, end - begin)];
      begin = end + 1;
    }
    verdicts_->Count("entries", static_cast<int64_t>(entries.size()));
    for (const auto& [entry, times] : entries) {
      const std::string name(entry);
      const auto appended = log_.appended.find(entry);
      if (appended == log_.appended.end()) {
        const auto refused = log_.refused.find(entry);
        const bool was_refused = refused != log_.refused.end();
        Fail(kEntry,
             absl::StrCat(name, was_refused ? " is in the log, but was refused"
                                            : " is in the log, but no client appended it"),
             {was_refused ? refused->second : nullptr, last.operation});
      } else if (times > 1) {
        Fail(kEntry, absl::StrCat(name, " is in the log ", times, " times"),
             {appended->second, last.operation});
      }
    }
    for (const auto& [entry, operation] : log_.appended) {
      if (!operation->ok()) continue;
      verdicts_->Count("acknowledged entries");
      if (entries.count(entry) > 0) continue;
      Fail(kEntry, absl::StrCat(std::string(entry), " was acknowledged and is lost"),
           {operation, last.operation});
    }
  }

  const std::string_view path_;
  const Log& log_;
  Verdicts* const verdicts_;
};

}  // namespace

Verdicts CheckLogs(const Run& run) {
  Verdicts verdicts(&run, "append");
  std::map<std::string_view, Log> logs;
  for (const Operation& operation : run.operations()) {
    if (operation.workload != "append") continue;
    Log& log = logs[operation.path];
    if (operation.function == Function::kGet && operation.ok() && operation.stat) {
      log.sights.push_back({operation.stat->version, operation.read, &operation});
      verdicts.Count("reads");
    }
    if (operation.function != Function::kSet) continue;
    const std::string_view entry = LastEntry(operation.written);
    if (operation.outcome == Outcome::kRefused) {
      log.refused.emplace(entry, &operation);
    } else {
      log.appended.emplace(entry, &operation);
    }
    if (operation.ok() && operation.stat) {
      log.sights.push_back({operation.stat->version, operation.written, &operation});
    }
  }
  for (auto& [path, log] : logs) {
    if (log.appended.empty() && log.sights.empty()) continue;
    Checker(path, log, &verdicts).Check(std::move(log.sights));
  }
  return verdicts;
}

}  // namespace quorate::chaos
