// Threads that drive stream loops (stream_loop.h) from gRPC. gRPC's own threads hand over what
// came, with one wake-up for all that comes while a loop's thread is busy; that thread answers, and
// starts the sending itself, so that an answer changes threads no more.
//
// Messages that gRPC was handed and has not sent are in the server's memory budget, as unsent. When
// replies exceed their share of it, the clients that do not take theirs are cut off, those with the
// most first.
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

// How a stream's messages leave: what gRPC calls a reactor. The thread of its loop calls it, until
// and including Finish, which comes once.
class Channel {
 public:
  virtual ~Channel() = default;
  // Asks for one more message, or the end of what the client sends.
  virtual void Read() = 0;
  // StreamHandle::OnWritten has to follow, before the next one.
  virtual void Write(std::string message) = 0;
  // Comes after what was written, and then from any thread.
  virtual void Finish(const absl::Status& outcome) = 0;
  // Whether Finish is what sends the message that was written: then it does not wait for OnWritten,
  // which follows it.
  virtual bool sends_with_finish() const { return false; }
  // Gives up what is being sent; OnWritten follows, but not from within this call. From the thread
  // of the loop, also after Finish.
  virtual void Cancel() = 0;
};

// A stream, as gRPC's threads see it. They say what happened on its channel; each call returns at
// once, and any may come after the stream's end.
class StreamHandle {
 public:
  StreamHandle() = default;
  StreamHandle(StreamThread* thread, uint64_t id) : thread_(thread), id_(id) {}

  // First of all: a client at `peer` (as gRPC names it) calls `method`. The channel is called from
  // now on, and must live until it was told to finish. The first message is expected as after
  // Channel::Read.
  void Open(Method method, std::string_view peer, Channel* channel) const;
  void OnMessage(std::string bytes) const;
  void OnHalfClosed() const;
  // The message is sent, or never will be. The channel must live until this returns.
  void OnWritten() const;
  void OnCancelled() const;

 private:
  StreamThread* thread_ = nullptr;
  uint64_t id_ = 0;  // of no other
};

class StreamThreads {
 public:
  // As many loops as `count`. `frontend` must outlive the object, and not call it any more when it
  // is destroyed.
  StreamThreads(NativeFrontend* frontend, size_t count);
  ~StreamThreads();
  StreamThreads(const StreamThreads&) = delete;
  StreamThreads& operator=(const StreamThreads&) = delete;

  void Start();
  // Every stream must have ended: gRPC's server was shut down.
  void Stop();

  // For a new stream.
  StreamHandle NewHandle();

 private:
  std::vector<std::unique_ptr<StreamThread>> threads_;
  std::atomic<uint64_t> next_id_{0};
};

// "ipv4:10.0.0.1:7000", "ipv6:[::1]:7000" (or with %5B and %5D), "unix:/path" -> the address alone.
std::string AddressOf(std::string_view peer);

}  // namespace quorate::rpc::native
