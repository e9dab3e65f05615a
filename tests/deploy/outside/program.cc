// SPDX-License-Identifier: Apache-2.0

// A program of somebody else's: it has nothing but the installed headers and libraries of the client.
//
//   program 127.0.0.1:2281

#include <cstdio>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "quorate/client/client.h"
#include "quorate/client/recipes/counter.h"
#include "quorate/client/recipes/election.h"
#include "quorate/client/recipes/mutex.h"
#include "quorate/client/recipes/queue.h"

namespace {

absl::Status Run(quorate::Client& client, const std::string& root) {
  auto created = client.Create(root + "/a", "1", {.create_parents = true});
  if (!created.ok()) return created.status();
  bool changed = false;
  {
    auto watch = client.Watch(root, quorate::WatchScope::kSubtree,
                              [&](const quorate::WatchNotification&) { changed = true; });
    if (!watch.ok()) return watch.status();
    auto committed = client.Commit(quorate::Transaction()
                                       .CheckVersion(root + "/a", 0)
                                       .Set(root + "/a", "2")
                                       .Create(root + "/b", ""));
    if (!committed.ok()) return committed.status();
    // A callback precedes the answers to later calls.
    if (absl::Status synced = client.Sync(); !synced.ok()) return synced;
  }
  if (!changed) return absl::InternalError("the watch has reported nothing");

  absl::Status refused = client.Set(root + "/a", "3", {.version = 0}).status();
  if (quorate::ErrorOf(refused) != quorate::ErrorCode::kBadVersion) return refused;
  bool called = false;
  quorate::Call<quorate::GetResult> call = client.AsyncGet(root + "/a");
  if (absl::StatusOr<quorate::GetResult> read = call.Wait(); !read.ok()) return read.status();
  client.AsyncGet(root + "/a").Then([&](absl::StatusOr<quorate::GetResult> read) {
    called = read.ok() && read->data == "2";
  });
  if (absl::Status synced = client.Sync(); !synced.ok()) return synced;
  if (!called) return absl::InternalError("the callback has not run");

  quorate::InterProcessMutex mutex(&client, root + "/lock");
  {
    const std::lock_guard<quorate::InterProcessMutex> lock(mutex);
    if (auto token = mutex.FencingToken(); !token.ok()) return token.status();
  }
  quorate::Queue queue(&client, root + "/queue");
  if (absl::Status offered = queue.Offer("item"); !offered.ok()) return offered;
  auto taken = queue.Take(10'000);
  if (!taken.ok()) return taken.status();
  return client.Delete(root, {.recursive = true}).status();
}

}  // namespace

int main(int argc, char** argv) {
  auto client = quorate::Client::Connect({.servers = argc > 1 ? argv[1] : "127.0.0.1:2281"});
  const absl::Status status = client.ok() ? Run(**client, "/outside") : client.status();
  std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
