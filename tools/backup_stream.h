// A backup as it comes from one member.
//
// Thread-safety: none inside; one thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"
#include "tools/cluster_client.h"

namespace quorate::tools {

class BackupStream {
 public:
  // Asks `client`, which must outlive the stream.
  BackupStream(ClusterClient* client, const v1::BackupRequest& request);
  // Gives the stream up if it has not ended.
  ~BackupStream();
  BackupStream(const BackupStream&) = delete;
  BackupStream& operator=(const BackupStream&) = delete;

  // The next message; false at the end. Errors: the server's; DeadlineExceeded, and the stream is
  // given up, if nothing came for so long.
  absl::StatusOr<bool> Next(v1::BackupResponse* response, std::chrono::milliseconds timeout);

 private:
  class Reader : public grpc::ClientReadReactor<v1::BackupResponse> {
   public:
    void OnReadDone(bool ok) override;
    void OnDone(const grpc::Status& status) override;

    std::mutex mutex;
    std::condition_variable changed;
    v1::BackupResponse incoming;
    bool read = false;   // `incoming` is there
    bool ended = false;  // and this is how
    grpc::Status status;
  };

  grpc::ClientContext context_;
  const v1::BackupRequest request_;
  Reader reader_;
};

}  // namespace quorate::tools
