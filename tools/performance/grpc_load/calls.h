// SPDX-License-Identifier: Apache-2.0

// What connections to both systems have in common: unary calls, and streams that end with their connection.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace quorate::grpc_load {

// Prints `why` and ends the program with status 1. A run in which an operation failed has no result.
[[noreturn]] inline void Die(const std::string& why) {
  std::cerr << "grpc_load: " << why << std::endl;
  std::_Exit(1);
}

// Ends the program if `status` is that of a stream which the server ended. Only this program ends its streams, by
// cancelling them.
inline void RequireCancelled(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::CANCELLED) {
    Die("a server ended a stream of this program: " + status.error_message());
  }
}

inline std::shared_ptr<grpc::Channel> OpenChannel(const std::string& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
}

// A unary call, which deletes itself when it is answered.
template <typename Request, typename Response>
struct UnaryCall {
  grpc::ClientContext context;
  Request request;
  Response response;
  std::function<void(const grpc::Status& status, const Response& response)> done;

  // Returns the function that gRPC calls with the status when the call has ended.
  std::function<void(grpc::Status)> Finish() {
    return [this](const grpc::Status& status) {
      const std::unique_ptr<UnaryCall> owned(this);
      done(status, response);
    };
  }
};

// Counts streams, so that their connection can wait for their ends.
class OpenStreams {
 public:
  void Begin() {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  void End() {
    const std::lock_guard lock(mutex_);
    --open_;
    changed_.notify_all();
  }
  void AwaitAll() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_ = 0;
};

// Waits for an outcome that comes by callback.
class Outcome {
 public:
  void Set(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
    is_set_ = true;
    changed_.notify_all();
  }
  grpc::Status Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_set_; });
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
  grpc::Status status_;
};

}  // namespace quorate::grpc_load
