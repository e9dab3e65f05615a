// SPDX-License-Identifier: Apache-2.0

// The commands snapshot and restore of ZooKeeper's AdminServer.
//
// A snapshot is a checkpoint of the whole tree that has everything acknowledged before the request, in
// the format of ZooKeeper's files. It is read from the store twice, record by record, on the thread of
// streams: before the response, for its size, and while it is sent. Clients are not slowed: neither the
// tree nor its lock is used. In memory are a piece, which has 256 KiB and at most one znode more, the
// sessions and access control lists, and the names of znodes whose children are still to come. One
// snapshot runs at a time, and one in admin.rateLimiterIntervalInMS, not counting those that were not sent
// to the last byte.
//
// A restore is always refused: a server's tree follows from the log of the cluster, so it cannot be
// replaced on one server (docs/decisions/restore-over-http.md).
//
// Thread-safety: Run is called from one thread at a time, and blocks until the cluster has answered; Close may
// be called from any thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "rpc/admin/http.h"
#include "rpc/admin/request_target.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administration.h"

namespace quorate::rpc::admin {

class SnapshotCommand {
 public:
  // The time for which Run waits until the checkpoint is durable.
  static constexpr auto kWait = std::chrono::seconds(60);

  // All must outlive the object.
  SnapshotCommand(const Config& config, Administration* administration, const Clock* clock);

  // Returns the response to snapshot, of a caller that may run it: the file as a stream, or with
  // ?streaming=false only its headers last_zxid and snapshot_size, while the checkpoint stays on the
  // server. Errors, in JSON: 503 if the key admin.snapshot.enabled switches it off, or the cluster does
  // not confirm the checkpoint in time; 429 if one runs, or the last one began too recently; 400 if
  // ?streaming= is neither true nor false; 500 if the checkpoint cannot be read.
  HttpResponse Run(const RequestTarget& target);
  // Ends a Run that is under way, and refuses all later ones.
  void Close();

  // Returns the response to restore: 501, with the ways that there are.
  static HttpResponse RefuseRestore();

 private:
  class Stream;
  struct Shared;

  // Takes the right to run, or returns the response to a request that may not.
  std::optional<HttpResponse> Begin();
  // Waits until a checkpoint has everything that was acknowledged before the call.
  absl::Status AwaitCheckpoint();

  const Config& config_;
  Administration* const administration_;
  const Clock* const clock_;
  // Outlives this object where callbacks or streams of it are left.
  const std::shared_ptr<Shared> shared_;
};

}  // namespace quorate::rpc::admin
