// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/stream_thread.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/assert.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "rpc/grpc/native/stream_loop.h"

namespace quorate::rpc::native {
namespace {

// The time that a client may take to accept a message before it counts as stalled: kStalledAfter,
// plus 1 ms for each kBytesPerMs of the message.
constexpr auto kStalledAfter = std::chrono::seconds(1);
constexpr size_t kBytesPerMs = 8u << 10;
// Clients with fewer unsent bytes than this are not cut off.
constexpr size_t kStalledBytesMin = 64u << 10;

}  // namespace

class StreamThread final : public Transport {
 public:
  explicit StreamThread(NativeFrontend* frontend)
      : memory_(&frontend->service().memory()), loop_(frontend, this) {}
  ~StreamThread() override { Stop(); }

  void Start() {
    thread_ = StartThread("grpc-streams", [this] { Run(); });
  }
  void Stop() {
    {
      MutexLock lock(&mutex_);
      stopped_ = true;
      filled_.NotifyOne();
    }
    if (thread_.joinable()) thread_.join();
  }

  // --- gRPC's threads ----------------------------------------------------------------------------
  enum class What : uint8_t { kOpened, kMessage, kHalfClosed, kWritten, kCancelled };
  struct News {
    What what;
    uint64_t id;          // the handle's id
    std::string bytes{};  // kMessage: the message
    // kOpened.
    Method method{};
    Channel* channel = nullptr;
    std::unique_ptr<CallerProof> proof{};
  };

  void Push(News news) {
    MutexLock lock(&mutex_);
    news_.push_back(std::move(news));
    if (std::exchange(sleeps_, false)) filled_.NotifyOne();
  }
  void OnWritten(uint64_t id) {
    Ending ending;
    {
      MutexLock lock(&mutex_);
      const auto found = writing_.find(id);
      if (found == writing_.end()) return;
      Writing& writing = found->second;
      ending = std::move(writing.ending);
      Count(-static_cast<int64_t>(writing.bytes));
      // The loop needs OnWritable only if a call of Send waited for it.
      if (writing.waited_for && ending.channel == nullptr) {
        news_.push_back({What::kWritten, id});
        if (std::exchange(sleeps_, false)) filled_.NotifyOne();
      }
      writing_.erase(found);
    }
    if (ending.channel != nullptr) ending.channel->Finish(ending.outcome);
  }

  // --- Transport ---------------------------------------------------------------------------------
  void Wake() override {
    MutexLock lock(&mutex_);
    wake_ = true;
    if (std::exchange(sleeps_, false)) filled_.NotifyOne();
  }
  void EndIterationSoon() override { iteration_end_ = true; }
  void Receive(uint32_t tag) override { streams_.at(tag).channel->Read(); }
  bool Send(uint32_t tag, std::string* message) override {
    const Served& stream = streams_.at(tag);
    {
      MutexLock lock(&mutex_);
      const auto [found, is_first] = writing_.try_emplace(stream.id);
      Writing& writing = found->second;
      if (!is_first) {
        writing.waited_for = true;
        return false;
      }
      writing.channel = stream.channel;
      writing.bytes = message->size();
      writing.begun = loop_.now();
      Count(static_cast<int64_t>(writing.bytes));
    }
    stream.channel->Write(std::move(*message));
    return true;
  }
  size_t SendingBytes(uint32_t tag) const override {
    MutexLock lock(&mutex_);
    const auto writing = writing_.find(streams_.at(tag).id);
    return writing == writing_.end() ? 0 : writing->second.bytes;
  }
  void Finish(uint32_t tag, const absl::Status& outcome, bool at_once) override {
    const auto found = streams_.find(tag);
    const Served stream = found->second;
    streams_.erase(found);
    tags_.erase(stream.id);
    {
      MutexLock lock(&mutex_);
      const auto writing = writing_.find(stream.id);
      if (writing != writing_.end() && !stream.channel->sends_with_finish()) {
        writing->second.ending = {stream.channel, outcome};
        if (at_once) Cancel(&writing->second);
        return;
      }
    }
    stream.channel->Finish(outcome);
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Served {
    Channel* channel = nullptr;
    uint64_t id = 0;
  };
  struct Ending {
    Channel* channel = nullptr;  // nullptr if the stream does not end
    absl::Status outcome;
  };
  // A message that a stream is sending.
  struct Writing {
    Channel* channel = nullptr;  // must live as long as this object
    size_t bytes = 0;            // counted in the memory budget
    Clock::time_point begun;
    bool waited_for = false;  // Send returned false: the loop has more messages
    bool cancelled = false;
    Ending ending;  // is executed when the message is sent
  };

  void Count(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_bytes_ += bytes;
    memory_->Add(MemoryUse::kUnsent, bytes);
  }
  // Cancels a message. This is safe while mutex_ is held: gRPC calls a reactor only from its own
  // threads, so that OnWritten waits for the lock and there is no deadlock.
  static void Cancel(Writing* writing) {
    if (!std::exchange(writing->cancelled, true)) writing->channel->Cancel();
  }
  // Cuts off stalled clients while replies take more memory than they may.
  void CutOffStalled() {
    if (!memory_->replies_exceed()) return;
    MutexLock lock(&mutex_);
    std::vector<Writing*> stalled;
    for (auto& [id, writing] : writing_) {
      const auto patience = kStalledAfter + std::chrono::milliseconds(writing.bytes / kBytesPerMs);
      if (writing.cancelled || writing.bytes < kStalledBytesMin) continue;
      if (loop_.now() - writing.begun >= patience) stalled.push_back(&writing);
    }
    std::sort(stalled.begin(), stalled.end(),
              [](const Writing* a, const Writing* b) { return a->bytes > b->bytes; });
    int64_t excess = memory_->replies_excess();
    for (Writing* writing : stalled) {
      if (excess <= 0) return;
      excess -= static_cast<int64_t>(writing->bytes);
      Cancel(writing);
      memory_->CountClosed();
    }
  }
  // Returns whether the timer has to run. It may have to run without streams, because calls whose
  // reply is being sent are not in streams_.
  bool NeedsTimer() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !streams_.empty() || writing_bytes_ >= static_cast<int64_t>(kStalledBytesMin);
  }

  void Run() {
    std::vector<News> news;
    Clock::time_point timer = Clock::now();
    for (;;) {
      bool wake = false;
      {
        MutexLock lock(&mutex_);
        while (!stopped_ && !wake_ && news_.empty() && !iteration_end_) {
          sleeps_ = true;
          if (!NeedsTimer()) {
            filled_.Wait(&mutex_);
          } else if (!filled_.WaitUntil(&mutex_, timer)) {
            break;
          }
        }
        sleeps_ = false;
        if (stopped_) return;
        news.swap(news_);
        wake = std::exchange(wake_, false);
      }
      if (wake) loop_.OnWake();
      for (News& item : news) Handle(item);
      news.clear();
      if (std::exchange(iteration_end_, false)) loop_.EndIteration();
      const Clock::time_point now = Clock::now();
      if (now >= timer) {
        loop_.OnTimer();
        CutOffStalled();
        timer = now + StreamLoop::kTimerPeriod;
      }
    }
  }

  void Handle(News& news) {
    if (news.what == What::kOpened) {
      const absl::StatusOr<uint32_t> opened = loop_.Open(news.method, std::move(*news.proof));
      if (opened.ok()) {
        tags_[news.id] = *opened;
        streams_[*opened] = {news.channel, news.id};
        news.channel->Read();
      } else {
        news.channel->Finish(opened.status());
      }
      return;
    }
    const auto tag = tags_.find(news.id);
    if (tag == tags_.end()) return;  // the stream has ended
    switch (news.what) {
      case What::kMessage:
        loop_.OnMessage(tag->second, news.bytes);
        break;
      case What::kHalfClosed:
        loop_.OnHalfClosed(tag->second);
        break;
      case What::kWritten:
        loop_.OnWritable(tag->second);
        break;
      case What::kCancelled:
        loop_.OnClosed(tag->second);
        break;
      case What::kOpened:
        break;
    }
  }

  MemoryBudget* const memory_;
  StreamLoop loop_;
  std::thread thread_;
  // Used only by the loop's thread.
  absl::flat_hash_map<uint32_t, Served> streams_;  // by tag
  absl::flat_hash_map<uint64_t, uint32_t> tags_;   // by the id of the handle
  bool iteration_end_ = false;

  mutable Mutex mutex_;
  ConditionVariable filled_;
  std::vector<News> news_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Writing> writing_ ABSL_GUARDED_BY(mutex_);
  int64_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // sum of the bytes in writing_
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
  bool sleeps_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// --- Handles -------------------------------------------------------------------------------------

void StreamHandle::Open(Method method, CallerProof proof, Channel* channel) const {
  thread_->Push({StreamThread::What::kOpened,
                 id_,
                 {},
                 method,
                 channel,
                 std::make_unique<CallerProof>(std::move(proof))});
}

void StreamHandle::OnMessage(std::string bytes) const {
  thread_->Push({StreamThread::What::kMessage, id_, std::move(bytes)});
}

void StreamHandle::OnHalfClosed() const { thread_->Push({StreamThread::What::kHalfClosed, id_}); }

void StreamHandle::OnWritten() const { thread_->OnWritten(id_); }

void StreamHandle::OnCancelled() const { thread_->Push({StreamThread::What::kCancelled, id_}); }

// --- Threads -------------------------------------------------------------------------------------

StreamThreads::StreamThreads(NativeFrontend* frontend, size_t count) {
  for (size_t i = 0; i < count; ++i) threads_.push_back(std::make_unique<StreamThread>(frontend));
}

StreamThreads::~StreamThreads() { Stop(); }

void StreamThreads::Start() {
  for (const auto& thread : threads_) thread->Start();
}

void StreamThreads::Stop() {
  for (const auto& thread : threads_) thread->Stop();
}

StreamHandle StreamThreads::NewHandle(std::optional<int64_t> contender_session) {
  const uint64_t id = next_id_.fetch_add(1);
  const uint64_t number =
      contender_session.has_value() ? static_cast<uint64_t>(*contender_session) : id;
  return {threads_[number % threads_.size()].get(), id};
}

}  // namespace quorate::rpc::native
