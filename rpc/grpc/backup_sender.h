// SPDX-License-Identifier: Apache-2.0

// Sends backups to clients: checkpoints of the tree, record by record, as fast as each client
// reads, up to a maximum rate.
//
// A thread of low priority reads the records from the store. It reads the next block of a stream
// when the previous block was sent. A client that does not read takes the memory of one block but
// no thread, and is cut off after stall_timeout. The checkpoint of a broken stream is kept for some
// time, so that its client can resume. A kept checkpoint takes space on the disk, but no memory.
//
// Thread-safety: one thread calls Start, Stop and the destructor; any thread may call Open.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "rpc/frontend/administration.h"
#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"

namespace quorate::rpc {

class BackupSender {
 public:
  struct Options {
    uint64_t bytes_per_second = uint64_t{64} << 20;  // of all streams together
    size_t streams_max = 4;
    std::chrono::milliseconds stall_timeout{60'000};  // for a client that does not read
    // The time for which checkpoints of broken streams are kept, and the maximum number of them.
    std::chrono::milliseconds keep_time{300'000};
    size_t kept_max = 2;
  };

  // `administration` and `clock` must outlive the object.
  BackupSender(Administration* administration, const Clock* clock, Options options);
  // REQUIRES: Stop was called, or Start was never called.
  ~BackupSender();
  BackupSender(const BackupSender&) = delete;
  BackupSender& operator=(const BackupSender&) = delete;

  void Start();
  // Ends the thread. REQUIRES: no stream is open, and none will be opened.
  void Stop();

  // Returns a new stream, which the method of the service returns to gRPC.
  grpc::ServerWriteReactor<v1::BackupResponse>* Open(grpc::CallbackServerContext* context,
                                                     const v1::BackupRequest& request);
  // Returns a stream that ends at once with the status `why`.
  static grpc::ServerWriteReactor<v1::BackupResponse>* Refuse(const absl::Status& why);

 private:
  using Time = std::chrono::steady_clock::time_point;
  class Stream;
  struct Kept {
    CheckpointView checkpoint;
    Time until;
  };
  enum class Step : uint8_t { kNone, kSend, kFinish };

  void Run();
  // Returns the next step for a stream. If that is kNone, and the stream has to be checked again at
  // some time, lowers `*wake` to that time.
  Step NextStep(Stream* stream, Time now, Time* wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveEnded(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(Stream* stream);
  // Gives the stream its checkpoint. Returns true if the stream has one, false if the call is to be
  // repeated later. An error ends the stream.
  absl::StatusOr<bool> FindCheckpoint(Stream* stream);
  std::optional<CheckpointView> TakeKept(tree::Zxid zxid);
  absl::Status FillBlock(Stream* stream, v1::BackupResponse* response);
  void Finish(Stream* stream, const absl::Status& status);
  void OnCheckpoint(Stream* stream);
  void Wake();

  Administration* const administration_;
  const Clock* const clock_;
  const Options options_;
  std::thread thread_;

  Mutex mutex_;
  ConditionVariable changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);

  // Used only by the thread.
  std::list<Kept> kept_;  // the newest first
  Time allowed_at_;       // when the rate allows the next block
};

}  // namespace quorate::rpc
