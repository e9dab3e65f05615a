// SPDX-License-Identifier: Apache-2.0

// The stream of a backup that one member sends.
//
// Thread-safety: none; one thread uses the object.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"
#include "tools/cli/cluster_client.h"

namespace quorate::tools {

class BackupStream {
 public:
  // Starts the request at `client`, which must outlive the stream.
  BackupStream(ClusterClient* client, const v1::BackupRequest& request);
  // Cancels the stream if it has not ended.
  ~BackupStream();
  BackupStream(const BackupStream&) = delete;
  BackupStream& operator=(const BackupStream&) = delete;

  // Waits for the next message; returns false at the end. Errors: the server's; DeadlineExceeded if
  // nothing came within `timeout`, after which the stream is cancelled.
  absl::StatusOr<bool> Next(v1::BackupResponse* response, std::chrono::milliseconds timeout);

 private:
  class Reader : public grpc::ClientReadReactor<v1::BackupResponse> {
   public:
    void OnReadDone(bool ok) override;
    void OnDone(const grpc::Status& status) override;

    std::mutex mutex;
    std::condition_variable changed;
    v1::BackupResponse incoming;
    bool read = false;   // `incoming` holds a message
    bool ended = false;  // the stream has ended with `status`
    grpc::Status status;
  };

  grpc::ClientContext context_;
  const v1::BackupRequest request_;
  Reader reader_;
};

}  // namespace quorate::tools
