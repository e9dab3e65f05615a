// SPDX-License-Identifier: Apache-2.0

// Unary calls of gRPC that are answered at once, or later by another thread.
//
// Thread-safety: a handle may be used by any thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace quorate::rpc {

// Ends a call at once.
inline grpc::ServerUnaryReactor* FinishWith(grpc::CallbackServerContext* context,
                                            const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// A call that another thread answers. If the server ends first, the call gets no answer.
class WaitingCall final : public grpc::ServerUnaryReactor {
 public:
  // Access to the call. It outlives the call: an answer after the end of the call is dropped.
  class Handle {
   public:
    explicit Handle(WaitingCall* call) : call_(call) {}
    // Finishes the call, unless it was finished already. Only if not, calls `fill` before, which may
    // write the response.
    void Finish(const grpc::Status& status, const std::function<void()>& fill = nullptr) {
      WaitingCall* call = nullptr;
      {
        MutexLock lock(&mutex_);
        call = std::exchange(call_, nullptr);
        if (call != nullptr && fill != nullptr) fill();
      }
      if (call != nullptr) call->ServerUnaryReactor::Finish(status);
    }

   private:
    Mutex mutex_;
    WaitingCall* call_ ABSL_GUARDED_BY(mutex_);
  };

  std::shared_ptr<Handle> handle() const { return handle_; }
  void OnCancel() override {
    handle_->Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the call was cancelled"));
  }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<Handle> handle_ = std::make_shared<Handle>(this);
};

}  // namespace quorate::rpc
