// SPDX-License-Identifier: Apache-2.0

// A client over the native front end, using the client library. Calls continue when a member fails:
// their outcome is unknown only after a deadline or the end of the session.
//
// Outcomes and events are written on the library's thread, in the order in which it reports them.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/chaos/client.h"

namespace quorate::chaos {

class NativeClient : public Client {
 public:
  // `recorder` must outlive the client.
  NativeClient(ClientSettings settings, Recorder* recorder);
  ~NativeClient() override;

  using Client::Perform;
  std::vector<Line> Perform(std::vector<Line> operations) override;
  void Idle(int64_t until_ns) override;
  // Asks the library for another member; ignores `away_ms`. When a member fails, it moves by
  // itself.
  void Move(int64_t away_ms) override;
  void CloseSession() override;
  // Returns false: the library always closes its session.
  bool AbandonSession(bool silently) override;
  int64_t sessions() override { return sessions_; }
  bool has_session() override;
  std::vector<Line> TakeEvents() override;
  int32_t number() const override { return settings_.number; }
  int32_t session_timeout_ms() const override { return settings_.session_timeout_ms; }

 private:
  // Operations that were begun together.
  struct Batch {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Line> outcomes;
    size_t under_way = 0;
  };
  // One operation of a batch; shared by the callbacks of its calls.
  struct Operation {
    Line invoke;
    int64_t begun_ns = 0;
    int deadline_ms = 0;
    Batch* batch = nullptr;
    size_t place = 0;
    // Of operations that need several calls.
    std::vector<Result> reads;
    size_t reads_under_way = 0;
    int attempts = 0;
  };
  using OperationPtr = std::shared_ptr<Operation>;

  bool Connect();
  void OnSessionEvent(const SessionEvent& event);
  void WriteSessionEvent(const SessionEvent& event);
  void OnNotification(int64_t watch, const std::string& path,
                      const WatchNotification& notification);
  void Begin(const OperationPtr& operation);
  void BeginWrite(const OperationPtr& operation);
  void BeginWatch(const OperationPtr& operation);
  // Reads, and sets with the version that was read, until that succeeds: each write is sent once.
  void BeginAdd(const OperationPtr& operation);
  // Reads one path after another, and confirms the reads by one transaction that checks the
  // versions.
  void BeginMultiGet(const OperationPtr& operation);
  void CheckReads(const OperationPtr& operation);
  // `fill` copies a call's result into the outcome.
  template <class T, class Fill>
  void Then(Call<T> call, const OperationPtr& operation, Fill fill);
  void Finish(const OperationPtr& operation, Line outcome);
  void Fail(const OperationPtr& operation, const absl::Status& status);
  // Drops the session, all of whose lines have been written.
  void Leave();

  const ClientSettings settings_;
  Recorder* const recorder_;
  simulation::Random random_;
  int64_t sessions_ = 0;
  int64_t last_watch_ = 0;

  // Belongs to the current session.
  std::unique_ptr<quorate::Client> client_;

  // Also used by the library's thread.
  std::mutex mutex_;
  int64_t session_ = 0;  // 0: not known yet, or no session
  int32_t timeout_ms_ = 0;
  std::vector<SessionEvent> early_;  // events from before `session_` was known
  std::condition_variable early_changed_;
  bool is_over_ = false;  // the session was lost, closed or given up
  std::string server_;
  int64_t answered_ns_ = 0;
  std::vector<Line> events_;
  std::map<int64_t, WatchHandle> watches_;  // by number
};

}  // namespace quorate::chaos
