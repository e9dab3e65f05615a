// SPDX-License-Identifier: Apache-2.0

// One stream of a session: a gRPC call to one member, driven by a completion queue.
//
// Thread-safety: none; everything on the thread that serves the queue.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/access.h"
#include "rpc/proto/quorate/v1/session.grpc.pb.h"

namespace quorate::internal {

class Stream {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnMessage(Stream* stream, v1::SessionResponse message) = 0;
    // Called when the next message can be sent, also for the first one.
    virtual void OnSent(Stream* stream) = 0;
    // Called once, when the stream has ended. No function is called after this one, and the owner
    // may destroy the stream in it.
    virtual void OnEnded(Stream* stream, const grpc::Status& status) = 0;
  };
  // The tag of an operation in the completion queue.
  struct Tag {
    Stream* stream = nullptr;
    void (Stream::*done)(bool ok) = nullptr;
  };

  // Begins the call over a new connection, with these credentials as its metadata. `queue` and
  // `owner` must outlive the stream.
  Stream(const Access& access, const std::vector<std::string>& credentials,
         const std::string& address, grpc::CompletionQueue* queue, Owner* owner);
  // REQUIRES: the stream has ended.
  ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const std::string& address() const { return address_; }
  // Returns whether a message can be sent.
  bool ready() const { return is_started_ && !is_sending_ && !is_ending_; }
  // Sends `message`, which may be destroyed as soon as Send returns. REQUIRES: ready().
  void Send(const v1::SessionRequest& message);
  // Makes the stream end; OnEnded follows.
  void Cancel() { context_.TryCancel(); }

  // Handles a completed operation. REQUIRES: `tag` and `ok` were returned by the queue.
  static void Handle(void* tag, bool ok) {
    const Tag* done = static_cast<Tag*>(tag);
    (done->stream->*done->done)(ok);
  }

 private:
  void OnStarted(bool ok);
  void OnSent(bool ok);
  void OnReceived(bool ok);
  void OnFinished(bool ok);
  void Finish();
  void TellIfEnded();

  const std::string address_;
  Owner* const owner_;
  Tag started_{this, &Stream::OnStarted};
  Tag sent_{this, &Stream::OnSent};
  Tag received_{this, &Stream::OnReceived};
  Tag finished_{this, &Stream::OnFinished};
  grpc::ClientContext context_;
  std::unique_ptr<v1::SessionService::Stub> stub_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::SessionRequest, v1::SessionResponse>> call_;
  v1::SessionResponse incoming_;
  grpc::Status status_;
  bool is_started_ = false;
  bool is_sending_ = false;
  bool is_ending_ = false;
  bool is_finished_ = false;
};

}  // namespace quorate::internal
