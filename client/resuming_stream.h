// SPDX-License-Identifier: Apache-2.0

// A call that streams messages from a server, and is begun again at another member when it breaks.
//
// Thread-safety: Cancel may be called from any thread; everything else from one thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/access.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/quorate/v1/tree.grpc.pb.h"

namespace quorate::internal {

// Returns whether another member may be able to continue a stream that ended with `status`.
bool MayContinue(const absl::Status& status);

// Returns a channel to a member for one stream.
std::shared_ptr<grpc::Channel> NewStreamChannel(const Access& access, const std::string& address);

template <class Response>
class ResumingStream {
 public:
  // Begins the call behind the last message that was returned.
  using Begin = std::function<std::unique_ptr<grpc::ClientAsyncReader<Response>>(
      v1::TreeService::Stub* stub, grpc::ClientContext* context, grpc::CompletionQueue* queue)>;

  // `members` has at least one address. A member that sends nothing for `silence_max` is left, and so
  // is one whose connection is dead. Read fails when members were tried for `patience` without a
  // message from any of them.
  ResumingStream(std::vector<std::string> members, Access access,
                 std::chrono::milliseconds silence_max, std::chrono::milliseconds patience,
                 Begin begin)
      : members_(std::move(members)),
        access_(std::move(access)),
        silence_max_(silence_max),
        patience_(patience),
        begin_(std::move(begin)) {}
  ~ResumingStream() {
    Cancel();
    if (call_ != nullptr) static_cast<void>(End());
  }
  ResumingStream(const ResumingStream&) = delete;
  ResumingStream& operator=(const ResumingStream&) = delete;

  // Returns the next message. DATA_LOSS: the server has ended the stream without an error. After an
  // error, every further call returns it.
  absl::StatusOr<Response> Read() {
    if (!end_.ok()) return end_;
    Clock::time_point begin = Clock::now();  // of the attempts
    for (;;) {
      // A member that has begun to send may be silent for longer than the patience.
      const bool goes_on = call_ != nullptr;
      if (goes_on || Start(TimeLeft(begin))) {
        Response message;
        call_->reader->Read(&message, nullptr);
        if (Await(goes_on ? silence_max_ : TimeLeft(begin))) {
          failures_ = 0;
          return message;
        }
      }
      const absl::Status status = End();
      if (is_cancelled()) return end_ = absl::CancelledError("the stream was cancelled");
      if (!status.ok() && !MayContinue(status)) return end_ = status;
      const std::string& member = members_[next_member_];
      if (status.ok()) {
        return end_ = absl::DataLossError(
                   absl::StrCat(member, " has ended the stream before its last message"));
      }
      if (goes_on) begin = Clock::now();
      next_member_ = (next_member_ + 1) % members_.size();
      if (Clock::now() - begin >= patience_) {
        return end_ = absl::UnavailableError(
                   absl::StrCat("no member has continued the stream; the last one, ", member,
                                ", said: ", status.message()));
      }
      Pause();
    }
  }

  void Cancel() {
    MutexLock lock(&mutex_);
    is_cancelled_ = true;
    if (context_ != nullptr) context_->TryCancel();
    cancelled_.notify_all();
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Call {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    std::unique_ptr<v1::TreeService::Stub> stub;
    std::unique_ptr<grpc::ClientAsyncReader<Response>> reader;
  };

  bool is_cancelled() {
    MutexLock lock(&mutex_);
    return is_cancelled_;
  }

  // Returns how long a member may be silent that has not sent a message since `begin`.
  std::chrono::milliseconds TimeLeft(Clock::time_point begin) const {
    const auto tried = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    return std::clamp(patience_ - tried, std::chrono::milliseconds(1), silence_max_);
  }

  // Begins a call. Returns false if it fails at once, or does not begin for `time_max`.
  bool Start(std::chrono::milliseconds time_max) {
    call_ = std::make_unique<Call>();
    call_->stub = v1::TreeService::NewStub(NewStreamChannel(access_, members_[next_member_]));
    access_.Authorize(&call_->context);
    {
      MutexLock lock(&mutex_);
      context_ = &call_->context;
      if (is_cancelled_) context_->TryCancel();
    }
    call_->reader = begin_(call_->stub.get(), &call_->context, &call_->queue);
    call_->reader->StartCall(nullptr);
    return Await(time_max);
  }

  // Waits for the one operation that is under way, for at most `time_max`. Returns whether it has
  // succeeded.
  bool Await(std::chrono::milliseconds time_max) {
    void* tag = nullptr;
    bool ok = false;
    if (call_->queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + time_max) ==
        grpc::CompletionQueue::TIMEOUT) {
      silence_ = time_max;
      call_->context.TryCancel();
      call_->queue.Next(&tag, &ok);
    }
    return ok;
  }

  // Returns the status of the call, which has ended or was cancelled.
  absl::Status End() {
    grpc::Status status;
    call_->reader->Finish(&status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    call_->queue.Next(&tag, &ok);
    {
      MutexLock lock(&mutex_);
      context_ = nullptr;
    }
    call_->queue.Shutdown();
    while (call_->queue.Next(&tag, &ok)) {
    }
    call_ = nullptr;
    if (const auto silence = std::exchange(silence_, {}); silence.count() > 0) {
      return absl::UnavailableError(absl::StrCat("no message for ", silence.count(), " ms"));
    }
    return v1::FromGrpc(status);
  }

  // Waits before the next attempt; longer after each round through the members.
  void Pause() {
    const size_t round = std::min<size_t>(failures_++ / members_.size(), 6);
    const std::chrono::milliseconds pause(round == 0 ? 0 : 10 << round);
    std::unique_lock<std::mutex> lock(mutex_.native());
    cancelled_.wait_for(lock, pause,
                        [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return is_cancelled_; });
  }

  const std::vector<std::string> members_;
  const Access access_;
  const std::chrono::milliseconds silence_max_;
  const std::chrono::milliseconds patience_;
  const Begin begin_;
  size_t next_member_ = 0;
  size_t failures_ = 0;  // since the last message
  std::chrono::milliseconds
      silence_{};  // for how long the member of call_ was silent; 0: it was not
  std::unique_ptr<Call> call_;
  absl::Status end_;

  Mutex mutex_;
  std::condition_variable cancelled_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of call_
};

}  // namespace quorate::internal
