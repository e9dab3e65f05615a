// Sends backups: checkpoints of the tree, record by record, to clients that read them as fast as
// they like, up to a rate.
//
// One thread of its own reads the records from the store, a block for each stream whose last one
// has left; it is of low priority. A client that does not read holds one block in memory and no
// thread, and is cut off after a while. The checkpoint of a stream that broke is kept for some
// time, so that its client can go on; what checkpoints pin are files on the disk, not memory.
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
#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"
#include "rpc/server/administration.h"

namespace quorate::rpc {

class BackupSender {
 public:
  struct Options {
    uint64_t bytes_per_second = uint64_t{64} << 20;  // of all streams together
    size_t streams_max = 4;
    std::chrono::milliseconds stall_timeout{60'000};  // for a client that does not read
    // How long, and how many, checkpoints of broken streams are kept.
    std::chrono::milliseconds keep_time{300'000};
    size_t kept_max = 2;
  };

  // Both must outlive the object.
  BackupSender(Administration* administration, const Clock* clock, Options options);
  // REQUIRES: it was stopped, or never started.
  ~BackupSender();
  BackupSender(const BackupSender&) = delete;
  BackupSender& operator=(const BackupSender&) = delete;

  void Start();
  // Ends the thread. REQUIRES: no stream is open any more, and none will be.
  void Stop();

  // A new stream, as the service's method returns it.
  grpc::ServerWriteReactor<v1::BackupResponse>* Open(grpc::CallbackServerContext* context,
                                                     const v1::BackupRequest& request);
  // A stream that ends at once.
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
  // What is to be done for a stream now; if nothing, *wake is when to look again at the latest.
  Step NextStep(Stream* stream, Time now, Time* wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveEnded(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(Stream* stream);
  // Gives the stream its checkpoint. No value: not yet. An error ends the stream.
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

  // The thread's own.
  std::list<Kept> kept_;  // the newest first
  Time allowed_at_;       // when the rate allows the next block
};

}  // namespace quorate::rpc
