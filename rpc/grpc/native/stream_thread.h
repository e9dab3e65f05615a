// Threads that drive stream loops (stream_loop.h) from gRPC. gRPC's own threads hand over their
// events; while a loop's thread is busy, all of them share one wake-up. The loop's thread makes the
// answer and starts to send it itself, without another change of threads.
//
// Messages that gRPC has taken but not sent yet count as unsent in the server's memory budget. When
// replies exceed their share of it, clients that do not take their messages are cut off, those with
// the most unsent bytes first.
//
// Thread-safety: Start and Stop from one thread; the rest from any, between them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/stream.h"

namespace quorate::rpc::native {

class StreamThread;

// The sending side of a stream, implemented by a gRPC reactor. It is called by the thread of the
// stream's loop, up to and including Finish, which is called once.
class Channel {
 public:
  virtual ~Channel() = default;
  // Asks for one more message, or the end of the client's messages.
  virtual void Read() = 0;
  // Sends a message. StreamHandle::OnWritten has to follow before the next Write.
  virtual void Write(std::string message) = 0;
  // Ends the stream. Called after the last message was written; may be called from any thread.
  virtual void Finish(const absl::Status& outcome) = 0;
  // Whether the written message is sent by Finish: then Finish does not wait for OnWritten, which
  // follows Finish.
  virtual bool sends_with_finish() const { return false; }
  // Cancels the message that is being sent; OnWritten follows, but not from within this call.
  // Called by the thread of the loop, also after Finish.
  virtual void Cancel() = 0;
};

// A stream, as gRPC's threads see it. They report the events of its channel; each call returns at
// once, and any may come after the stream's end.
class StreamHandle {
 public:
  StreamHandle() = default;
  StreamHandle(StreamThread* thread, uint64_t id) : thread_(thread), id_(id) {}

  // Has to be the first call: a client at `peer` (as gRPC names it) calls `method`. The channel is
  // called from now on, and must live until its Finish was called. The first message is expected as
  // after Channel::Read.
  void Open(Method method, std::string_view peer, Channel* channel) const;
  void OnMessage(std::string bytes) const;
  void OnHalfClosed() const;
  // The message was sent, or never will be. The channel must live until this returns.
  void OnWritten() const;
  void OnCancelled() const;

 private:
  StreamThread* thread_ = nullptr;
  uint64_t id_ = 0;  // unique
};

class StreamThreads {
 public:
  // Makes `count` threads with a loop each. `frontend` must outlive the object, and must not call
  // it any more when it is destroyed.
  StreamThreads(NativeFrontend* frontend, size_t count);
  ~StreamThreads();
  StreamThreads(const StreamThreads&) = delete;
  StreamThreads& operator=(const StreamThreads&) = delete;

  void Start();
  // Ends the threads. REQUIRES: every stream has ended, as gRPC's server was shut down.
  void Stop();

  // Returns the handle of a new stream.
  StreamHandle NewHandle();

 private:
  std::vector<std::unique_ptr<StreamThread>> threads_;
  std::atomic<uint64_t> next_id_{0};
};

// Returns the address alone of "ipv4:10.0.0.1:7000", "ipv6:[::1]:7000" (or with %5B and %5D) or
// "unix:/path".
std::string AddressOf(std::string_view peer);

}  // namespace quorate::rpc::native
