// SPDX-License-Identifier: Apache-2.0

// Workloads that keep a number of requests outstanding on each connection, or send requests at a
// fixed rate.
//
// Thread-safety: that of the engine.
#pragma once

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/workload.h"

namespace quorate::tools::bench {

// In a closed loop, the next operation of a connection begins when an earlier one is over. In an
// open loop it begins at its scheduled time (--rate over all connections), and its latency counts
// from that time, even if it could not be sent yet. Outstanding requests of a broken connection are
// sent again on the next one if MayRepeat allows it, with their original times.
class LoopWorkload : public Workload {
 public:
  LoopWorkload(const Options& options, Engine* engine, bool open_loop);

  bool HasStopped() const override;
  void OnUp(Connection& connection, int64_t now_ns) override;
  void OnLost(Connection& connection, const Request& request, int64_t now_ns) override;
  void OnTurn(int64_t now_ns) override;
  int64_t NextTurnNs(int64_t now_ns) const override;

 protected:
  void OnStart(int64_t now_ns) override;
  void OnAnswer(Connection& connection, const Request& request, tree::ErrorCode error,
                std::string_view body, int64_t now_ns) override;

  // Begins a new operation.
  virtual void Issue(Connection& connection, int64_t start_ns) = 0;
  // Returns whether requests may be sent again. Repeat sends a request again.
  virtual bool MayRepeat() const { return true; }
  virtual void Repeat(Connection& connection, const Request& request) = 0;
  // Describes what is wrong with an answer that has no error; null if nothing is wrong.
  virtual const char* Check(const Request&, std::string_view /*body*/) { return nullptr; }
  // Returns the series of a kind of request.
  virtual size_t SeriesOf(int32_t /*kind*/) const { return 0; }
  // Called for a request that was answered without an error. Returns true if it began another
  // request of the same operation.
  virtual bool Continue(Connection&, const Request&, std::string_view /*body*/,
                        int64_t /*now_ns*/) {
    return false;
  }

  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

 private:
  struct State {
    std::deque<Request> again;
    uint64_t due = 0;     // open loop: operations whose time has come
    uint64_t issued = 0;  // open loop: operations that have begun
  };
  void Fill(Connection& connection, int64_t now_ns);
  int64_t DueNs(uint64_t number) const;

  const bool open_loop_;
  const size_t depth_;
  const double interval_ns_;
  std::vector<State> states_;
  int64_t start_ns_ = 0;
  uint64_t due_ = 0;  // open loop: operations whose time has come, over all connections
  std::minstd_rand random_;
};

// Returns the workload `name`, or null if it is none of these workloads.
std::unique_ptr<Workload> MakeLoopWorkload(const std::string& name, const Options& options,
                                           Engine* engine);

}  // namespace quorate::tools::bench
