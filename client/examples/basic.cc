// SPDX-License-Identifier: Apache-2.0

// Creates, reads, changes, lists, watches and deletes, one call after another.
//
//   basic 127.0.0.1:2281,127.0.0.1:2282

#include <cstdio>
#include <string>

#include "client/client.h"

using quorate::Client;

namespace {

absl::Status Run(Client& client) {
  absl::StatusOr<quorate::CreateResult> created =
      client.Create("/app/config", "v1", {.create_parents = true});
  if (!created.ok()) return created.status();

  // Reports every change below /app until the handle is destroyed, even if the member changes.
  absl::StatusOr<quorate::WatchHandle> watch = client.Watch(
      "/app", quorate::WatchScope::kSubtree, [](const quorate::WatchNotification& notification) {
        if (const auto* event = std::get_if<quorate::Event>(&notification)) {
          std::printf("changed: %s\n", event->path.c_str());
        } else {
          std::printf("events were lost: read the znodes again\n");
        }
      });
  if (!watch.ok()) return watch.status();

  absl::StatusOr<quorate::GetResult> read = client.Get("/app/config");
  if (!read.ok()) return read.status();
  std::printf("read: %s\n", read->data.c_str());

  // Set the data only if no client has changed it since the read.
  absl::StatusOr<quorate::Stat> changed =
      client.Set("/app/config", "v2", {.version = read->stat.version});
  if (!changed.ok()) return changed.status();
  absl::Status again = client.Set("/app/config", "v3", {.version = read->stat.version}).status();
  if (quorate::ErrorOf(again) != quorate::ErrorCode::kBadVersion) return again;

  // A transaction: all operations are made, or none.
  absl::StatusOr<quorate::TransactionResult> committed =
      client.Commit(quorate::Transaction()
                        .CheckVersion("/app/config", changed->version)
                        .Create("/app/job-", "", quorate::CreateMode::kPersistentSequential)
                        .Create("/app/worker", "", quorate::CreateMode::kEphemeral));
  if (!committed.ok()) return committed.status();

  absl::StatusOr<quorate::ListResult> list = client.List("/app");
  if (!list.ok()) return list.status();
  for (const std::string& child : list->children) std::printf("child: %s\n", child.c_str());

  return client.Delete("/app", {.recursive = true}).status();
}

}  // namespace

int main(int argc, char** argv) {
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect({.servers = argc > 1 ? argv[1] : "127.0.0.1:2281"});
  absl::Status status = client.ok() ? Run(**client) : client.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
