// SPDX-License-Identifier: Apache-2.0

// The commands on quotas: listquota, setquota, delquota. A quota is two znodes below
// /zookeeper/quota, as in ZooKeeper (tree/quota.h).

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/shell/command.h"
#include "tools/shell/printing.h"
#include "tools/shell/shell.h"
#include "tools/shell/walk.h"
#include "tree/quota.h"

namespace quorate::tools::shell {
namespace {

using tree::StatsTrack;

constexpr char kQuotaParent[] = "/zookeeper/quota";

struct Limit {
  char letter;
  const char* name;
  int64_t StatsTrack::*number;
  // The greatest value that ZooKeeper's clients can read.
  int64_t max;
};
constexpr std::array<Limit, 4> kLimits = {{
    {'n', "num", &StatsTrack::count, std::numeric_limits<int32_t>::max()},
    {'b', "byte", &StatsTrack::bytes, std::numeric_limits<int64_t>::max()},
    {'N', "hard num", &StatsTrack::count_hard_limit, std::numeric_limits<int32_t>::max()},
    {'B', "hard byte", &StatsTrack::byte_hard_limit, std::numeric_limits<int64_t>::max()},
}};

// Returns all four limits in the format of ZooKeeper's clients.
std::string LimitsText(const StatsTrack& track) {
  return absl::StrCat("count=", track.count, ",bytes=", track.bytes,
                      "=;byteHardLimit=", track.byte_hard_limit,
                      ";countHardLimit=", track.count_hard_limit);
}

std::string StatsText(const StatsTrack& track) {
  return absl::StrCat("count=", track.count, ",bytes=", track.bytes);
}

nlohmann::ordered_json LimitsJson(const StatsTrack& track) {
  return {{"count", track.count},
          {"bytes", track.bytes},
          {"count_hard_limit", track.count_hard_limit},
          {"byte_hard_limit", track.byte_hard_limit}};
}

// The paths of a quota's znodes.
struct QuotaNodes {
  explicit QuotaNodes(const std::string& path)
      : top(absl::StrCat(kQuotaParent, path)),
        limits(ChildPath(top, std::string(tree::kLimitsName))),
        stats(ChildPath(top, std::string(tree::kStatsName))) {}
  std::string top;
  std::string limits;
  std::string stats;
};

// Reads a quota's limits or statistics; nothing if the znode does not exist.
absl::StatusOr<std::optional<StatsTrack>> Read(Client& client, const std::string& path) {
  auto read = client.Get(path);
  if (ErrorOf(read.status()) == ErrorCode::kNoNode) return std::optional<StatsTrack>();
  if (!read.ok()) return Failure(read.status(), path);
  return std::optional<StatsTrack>(tree::ParseStatsTrack(read->data));
}

// Returns the invocation's path in the whole tree, including the chroot.
std::string WholePath(const Invocation& invocation) {
  const std::string& chroot = invocation.shell().chroot();
  return invocation.path() == "/" && !chroot.empty() ? chroot : chroot + invocation.path();
}

absl::Status ListQuota(Invocation& invocation) {
  auto client = invocation.shell().WholeTreeClient();
  if (!client.ok()) return client.status();
  const QuotaNodes nodes(WholePath(invocation));
  invocation.Line("absolute path is " + nodes.limits);
  auto limits = Read(**client, nodes.limits);
  if (!limits.ok()) return limits.status();
  if (!limits->has_value()) {
    return absl::NotFoundError(absl::StrCat("quota for ", invocation.path(), " does not exist."));
  }
  auto stats = Read(**client, nodes.stats);
  if (!stats.ok()) return stats.status();
  invocation.Line(absl::StrCat("Output quota for ", invocation.path(), " ", LimitsText(**limits)));
  invocation.Line(absl::StrCat("Output stat for ", invocation.path(), " ",
                               StatsText(stats->value_or(StatsTrack()))));
  invocation.json()["limits"] = LimitsJson(**limits);
  invocation.json()["count"] = stats->value_or(StatsTrack()).count;
  invocation.json()["bytes"] = stats->value_or(StatsTrack()).bytes;
  return absl::OkStatus();
}

absl::Status NoOption(const Invocation& invocation) {
  return absl::InvalidArgumentError(
      absl::StrCat("give a limit: -n, -b, -N or -B\nusage: ", UsageOf(invocation.command())));
}

// Returns `track` with the requested limits.
absl::StatusOr<StatsTrack> Wanted(const Invocation& invocation, StatsTrack track) {
  bool is_any_given = false;
  for (const Limit& limit : kLimits) {
    const auto number = invocation.Number(limit.letter);
    if (!number.ok()) return number.status();
    if (!number->has_value()) continue;
    is_any_given = true;
    if (**number <= 0 || **number > limit.max) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", limit.name, " quota must be greater than zero",
                       **number > 0 ? absl::StrCat(" and at most ", limit.max) : ""));
    }
    track.*limit.number = **number;
  }
  if (!is_any_given) return NoOption(invocation);
  return track;
}

// Fails if a znode above or below has a quota, which ZooKeeper does not allow.
absl::Status CheckNoOther(Client& client, const std::string& whole_path) {
  for (std::string above = ParentPath(whole_path); above != "/"; above = ParentPath(above)) {
    auto limits = Read(client, QuotaNodes(above).limits);
    if (!limits.ok()) return limits.status();
    if (limits->has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat(whole_path, " has a parent ", above, " which has a quota"));
    }
  }
  const QuotaNodes nodes(whole_path);
  std::string below;
  const absl::Status walked = WalkSubtree(client, nodes.top, [&](const std::string& path) {
    if (path != nodes.limits && path.ends_with(tree::kLimitsName)) below = ParentPath(path);
  });
  if (!walked.ok() && ErrorOf(walked) != ErrorCode::kNoNode) return walked;
  if (below.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      whole_path, " has a child ", below.substr(sizeof kQuotaParent - 1), " which has a quota"));
}

absl::Status CreateQuota(Client& client, const QuotaNodes& nodes, const StatsTrack& limits) {
  // The servers count the statistics once both znodes exist.
  auto created = client.Create(nodes.limits, LimitsText(limits), {.create_parents = true});
  if (!created.ok()) return Failure(created.status(), nodes.limits);
  created = client.Create(nodes.stats, StatsText({.count = 0, .bytes = 0}));
  return created.ok() ? absl::OkStatus() : Failure(created.status(), nodes.stats);
}

void Warn(const Invocation& invocation, const StatsTrack& limits, const StatsTrack& stats) {
  if (limits.count > -1 && limits.count < stats.count) {
    invocation.Line(
        absl::StrCat("[Warning]: the count quota you create is less than the existing "
                     "count:",
                     stats.count));
  }
  if (limits.bytes > -1 && limits.bytes < stats.bytes) {
    invocation.Line(
        absl::StrCat("[Warning]: the bytes quota you create is less than the existing "
                     "bytes:",
                     stats.bytes));
  }
}

absl::Status SetQuota(Invocation& invocation) {
  auto whole_tree = invocation.shell().WholeTreeClient();
  if (!whole_tree.ok()) return whole_tree.status();
  Client& client = **whole_tree;
  const std::string whole_path = WholePath(invocation);
  if (whole_path == "/" || whole_path.starts_with("/zookeeper/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("setquota: ", whole_path, " cannot have a quota"));
  }
  auto first = Wanted(invocation, StatsTrack());
  if (!first.ok()) return first.status();
  auto exists = client.Exists(whole_path);
  if (!exists.ok()) return exists.status();
  if (!exists->has_value()) {
    return absl::NotFoundError(absl::StrCat(invocation.path(), " does not exist."));
  }
  if (absl::Status s = CheckNoOther(client, whole_path); !s.ok()) return s;
  const QuotaNodes nodes(whole_path);
  auto old = Read(client, nodes.limits);
  if (!old.ok()) return old.status();
  absl::Status status;
  if (old->has_value()) {
    const auto changed = Wanted(invocation, **old);
    if (!changed.ok()) return changed.status();
    status = Failure(client.Set(nodes.limits, LimitsText(*changed)).status(), nodes.limits);
  } else {
    status = CreateQuota(client, nodes, *first);
  }
  if (!status.ok()) return status;
  auto stats = Read(client, nodes.stats);
  if (stats.ok() && stats->has_value()) Warn(invocation, *first, **stats);
  return absl::OkStatus();
}

absl::Status DeleteQuota(Invocation& invocation) {
  auto whole_tree = invocation.shell().WholeTreeClient();
  if (!whole_tree.ok()) return whole_tree.status();
  Client& client = **whole_tree;
  const QuotaNodes nodes(WholePath(invocation));
  auto limits = Read(client, nodes.limits);
  if (!limits.ok()) return limits.status();
  if (!limits->has_value()) {
    return absl::NotFoundError("Quota does not exist for " + invocation.path());
  }
  bool is_any_given = false;
  for (const Limit& limit : kLimits) {
    if (!invocation.Has(limit.letter)) continue;
    is_any_given = true;
    (**limits).*limit.number = -1;
  }
  if (is_any_given) {
    return Failure(client.Set(nodes.limits, LimitsText(**limits)).status(), nodes.limits);
  }
  Transaction transaction;
  transaction.Delete(nodes.limits).Delete(nodes.stats);
  if (absl::Status s = client.Commit(transaction).status(); !s.ok()) return Failure(s, nodes.top);
  // Deletes parents that are empty now; those that hold other quotas stay.
  for (std::string path = nodes.top; path != kQuotaParent; path = ParentPath(path)) {
    if (!client.Delete(path).ok()) break;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Command> QuotaCommands() {
  return {
      {.name = "listquota",
       .options = {},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Prints the quota of a znode, and the current usage",
       .details = "",
       .example = "listquota /app",
       .run = ListQuota},
      {.name = "setquota",
       .options = {{'n', "number", "limit of znodes, including the one at `path`; soft"},
                   {'b', "bytes", "limit of their bytes of data; soft"},
                   {'N', "number", "limit of znodes, hard"},
                   {'B', "bytes", "limit of bytes of data, hard"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Limits the znodes and data at and below a znode",
       .details =
           "If a soft limit is exceeded, servers write a warning to their logs. They refuse\n"
           "writes that would exceed a hard limit, if they have enforceQuota=true. Limits that\n"
           "are not given stay as they are. A quota cannot be below another quota.",
       .example = "setquota -n 1000 -B 1000000 /app",
       .run = SetQuota},
      {.name = "delquota",
       .options = {{'n', "", "remove only the limit of this option of setquota"},
                   {'b', "", "likewise"},
                   {'N', "", "likewise"},
                   {'B', "", "likewise"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Removes the limits of a znode",
       .details = "",
       .example = "delquota /app\ndelquota -N /app",
       .run = DeleteQuota},
  };
}

}  // namespace quorate::tools::shell
