// SPDX-License-Identifier: Apache-2.0

// Threads that drive stream loops (stream_loop.h) from gRPC. gRPC's threads hand over their events.
// While a loop's thread is busy, all of them share one wake-up. The loop's thread computes the
// response and starts to send it itself, without another change of threads.
//
// Messages that gRPC has taken but not sent yet count as unsent in the server's memory budget. When
// replies exceed their share of it, clients that do not take their messages are cut off, beginning
// with those that have the most unsent bytes.
//
// Thread-safety: one thread calls Start and Stop; between these calls any thread may call the rest.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/stream.h"

namespace quorate::rpc::native {

class StreamThread;

// The sending side of a stream, implemented by a gRPC reactor. The thread of the stream's loop
// calls it, up to and including Finish, which is called once.
class Channel {
 public:
  virtual ~Channel() = default;
  // Requests one more message, or the end of the client's messages.
  virtual void Read() = 0;
  // Sends a message. StreamHandle::OnWritten must follow before the next Write.
  virtual void Write(std::string message) = 0;
  // Ends the stream. Called after the last message was written. Any thread may call it.
  virtual void Finish(const absl::Status& outcome) = 0;
  // Returns whether Finish sends the written message: then Finish does not wait for OnWritten,
  // which follows Finish.
  virtual bool sends_with_finish() const { return false; }
  // Cancels the message that is being sent. OnWritten follows, but not from within this call. The
  // loop's thread calls it, also after Finish.
  virtual void Cancel() = 0;
};

// A stream, as gRPC's threads see it. They report the events of its channel. Each call returns at
// once, and may be made even after the end of the stream.
class StreamHandle {
 public:
  StreamHandle() = default;
  StreamHandle(StreamThread* thread, uint64_t id) : thread_(thread), id_(id) {}

  // Reports that a client calls `method`. This must be the first call. From now on the channel is called,
  // and it must live until its Finish was called. The first message is expected as after
  // Channel::Read.
  void Open(Method method, CallerProof proof, Channel* channel) const;
  void OnMessage(std::string bytes) const;
  void OnHalfClosed() const;
  // Reports that the message was sent, or never will be. The channel must live until this returns.
  void OnWritten() const;
  void OnCancelled() const;

 private:
  StreamThread* thread_ = nullptr;
  uint64_t id_ = 0;  // unique among all streams
};

class StreamThreads {
 public:
  // Creates `count` threads with a loop each. `frontend` must outlive the object, and must not call
  // it any more when it is destroyed.
  StreamThreads(NativeFrontend* frontend, size_t count);
  ~StreamThreads();
  StreamThreads(const StreamThreads&) = delete;
  StreamThreads& operator=(const StreamThreads&) = delete;

  void Start();
  // Ends the threads. REQUIRES: every stream has ended, because gRPC's server was shut down.
  void Stop();

  // Returns the handle of a new stream. The streams of one session of contenders share a thread, so that
  // their writes are submitted in the order of their messages.
  StreamHandle NewHandle(std::optional<int64_t> contender_session = std::nullopt);

 private:
  std::vector<std::unique_ptr<StreamThread>> threads_;
  std::atomic<uint64_t> next_id_{0};
};

}  // namespace quorate::rpc::native
