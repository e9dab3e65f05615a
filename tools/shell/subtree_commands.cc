// SPDX-License-Identifier: Apache-2.0

// The commands on everything below a znode, or of a session: deleteall, getAllChildrenNumber,
// getEphemerals.

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/shell/command.h"
#include "tools/shell/printing.h"
#include "tools/shell/shell.h"
#include "tools/shell/walk.h"

namespace quorate::tools::shell {
namespace {

constexpr int64_t kBatchSize = 1000;
constexpr size_t kBatchesAhead = 8;

// Deletes the paths one by one, in the given order. A path that another client has deleted is not
// an error.
absl::Status DeleteOneByOne(Client& client, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const absl::Status status = client.Delete(path).status();
    if (!status.ok() && ErrorOf(status) != ErrorCode::kNoNode) return Failure(status, path);
  }
  return absl::OkStatus();
}

// An outstanding transaction.
struct Batch {
  std::vector<std::string> paths;
  Call<TransactionResult> call;
};

absl::Status Finish(Client& client, Batch batch) {
  const absl::Status status = batch.call.Wait().status();
  if (status.ok()) return status;
  if (ErrorOf(status) == ErrorCode::kNoNode) return DeleteOneByOne(client, batch.paths);
  const size_t failed = FailedOperationOf(status).value_or(0);
  return Failure(status, batch.paths[std::min(failed, batch.paths.size() - 1)]);
}

// Deletes `path` and everything below in transactions of `batch_size`, children before their
// parents. Deletes nothing if the servers would reject the last deletion, that of `path` itself.
absl::StatusOr<size_t> DeleteInBatches(Client& client, const std::string& path, size_t batch_size) {
  const absl::Status alone = client.Delete(path).status();
  if (alone.ok()) return 1;
  if (ErrorOf(alone) != ErrorCode::kNotEmpty) return Failure(alone, path);
  std::vector<std::string> paths;
  if (absl::Status s =
          WalkSubtree(client, path, [&paths](const std::string& found) { paths.push_back(found); });
      !s.ok()) {
    return s;
  }
  const size_t count = paths.size();
  std::deque<Batch> batches;
  absl::Status outcome;
  while (outcome.ok() && (!paths.empty() || !batches.empty())) {
    if (!paths.empty() && batches.size() < kBatchesAhead) {
      Transaction transaction;
      std::vector<std::string> chosen;
      for (; !paths.empty() && chosen.size() < batch_size; paths.pop_back()) {
        transaction.Delete(paths.back());
        chosen.push_back(std::move(paths.back()));
      }
      batches.push_back({std::move(chosen), client.AsyncCommit(transaction)});
      continue;
    }
    Batch first = std::move(batches.front());
    batches.pop_front();
    outcome = Finish(client, std::move(first));
  }
  if (!outcome.ok()) return outcome;
  return count;
}

absl::Status DeleteAll(Invocation& invocation) {
  const auto batch_size = invocation.Number('b');
  if (!batch_size.ok()) return batch_size.status();
  if (batch_size->has_value() && (**batch_size < 1 || **batch_size > 10'000)) {
    return absl::InvalidArgumentError("deleteall: -b must be 1 to 10000");
  }
  if (!batch_size->has_value()) {
    auto removed = invocation.client().Delete(invocation.path(), {.recursive = true});
    if (removed.ok()) invocation.json()["deleted"] = *removed;
    if (ErrorOf(removed.status()) != ErrorCode::kTooLarge) return removed.status();
  }
  auto deleted = DeleteInBatches(invocation.client(), invocation.path(),
                                 static_cast<size_t>(batch_size->value_or(kBatchSize)));
  if (!deleted.ok()) return deleted.status();
  invocation.json()["deleted"] = *deleted;
  return absl::OkStatus();
}

absl::Status GetAllChildrenNumber(Invocation& invocation) {
  int64_t count = -1;  // the znode itself does not count
  if (absl::Status s = WalkSubtree(invocation.client(), invocation.path(),
                                   [&count](const std::string&) { ++count; });
      !s.ok()) {
    return s;
  }
  invocation.Line(absl::StrCat(count));
  invocation.json()["count"] = count;
  return absl::OkStatus();
}

absl::Status GetEphemerals(Invocation& invocation) {
  Client& client = invocation.client();
  std::set<std::string>& created = invocation.shell().ephemerals();
  std::vector<std::string> found;
  for (auto path = created.begin(); path != created.end();) {
    auto stat = client.Exists(*path);
    if (!stat.ok()) return Failure(stat.status(), *path);
    if (!stat->has_value() || (*stat)->ephemeral_session != client.session_id()) {
      path = created.erase(path);
      continue;
    }
    if (path->starts_with(invocation.argument(0).value_or("/"))) found.push_back(*path);
    ++path;
  }
  invocation.Line(ListText(found));
  invocation.json()["paths"] = found;
  return absl::OkStatus();
}

}  // namespace

std::vector<Command> SubtreeCommands() {
  return {
      {.name = "deleteall",
       .options = {{'b', "size", "delete in transactions of this many znodes"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Deletes a znode with everything below it",
       .details =
           "Up to 10,000 znodes are deleted as one change, or not at all. More are deleted in\n"
           "transactions of 1,000; if one of these fails, the znodes deleted before it stay\n"
           "deleted.",
       .example = "deleteall /app/old",
       .run = DeleteAll},
      {.name = "getAllChildrenNumber",
       .options = {},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Counts everything below a znode",
       .details = "It lists every znode there: all of them must be readable.",
       .example = "getAllChildrenNumber /app",
       .run = GetAllChildrenNumber},
      {.name = "getEphemerals",
       .options = {},
       .arguments = "[path]",
       .arguments_min = 0,
       .arguments_max = 1,
       .summary = "Lists the ephemeral znodes of this session",
       .details = "If `path` is given, lists only those whose paths begin with it.",
       .example = "getEphemerals /app",
       .run = GetEphemerals},
  };
}

}  // namespace quorate::tools::shell
