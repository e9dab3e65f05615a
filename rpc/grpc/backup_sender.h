// Sends backups: checkpoints of the tree, record by record, to clients, as fast as each reads, up
// to a rate.
//
// A thread of low priority reads the records from the store: the next block of a stream when the
// previous one has left. A client that does not read holds one block in memory and no thread, and
// is cut off after stall_timeout. The checkpoint of a broken stream is kept for some time, so that
// its client can resume; a kept checkpoint holds files on the disk, not memory.
//
// Thread-safety: Start, Stop and the destructor from one thread; Open from any.
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
    // For how long, and how many, checkpoints of broken streams are kept.
    std::chrono::milliseconds keep_time{300'000};
    size_t kept_max = 2;
  };

  // Both must outlive the object.
  BackupSender(Administration* administration, const Clock* clock, Options options);
  // REQUIRES: Stop was called, or Start never was.
  ~BackupSender();
  BackupSender(const BackupSender&) = delete;
  BackupSender& operator=(const BackupSender&) = delete;

  void Start();
  // Ends the thread. REQUIRES: no stream is open, and none will be opened.
  void Stop();

  // Returns a new stream, for the service's method to return.
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
  // Returns the next step for a stream. If it is kNone, lowers `*wake` to the time at which to
  // check the stream again, if there is one.
  Step NextStep(Stream* stream, Time now, Time* wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveEnded(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(Stream* stream);
  // Gives the stream its checkpoint. Returns true if it has one, false if the call is to be
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

  // Used by the thread only.
  std::list<Kept> kept_;  // the newest first
  Time allowed_at_;       // when the rate allows the next block
};

}  // namespace quorate::rpc
