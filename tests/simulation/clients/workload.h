// The simulated clients of a run, and what they check.
//
// Thread-safety: none; one thread.
#pragma once

#include <memory>

#include "tests/simulation/options.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

class Workload {
 public:
  virtual ~Workload() = default;
  // Clients begin to connect and to work.
  virtual void Start() = 0;
  // No new operations from now on, but what is under way is finished; sessions are kept alive.
  virtual void BeginQuiet() = 0;
  // After BeginQuiet: every client is connected to a server, has a session that a write through it
  // has just proved usable, and waits for nothing.
  virtual bool Idle() const = 0;
  // One line on what Idle still waits for.
  virtual std::string Describe() const = 0;
  // When all members have converged: checks the whole history, by SimEnvironment::Fail.
  virtual void CheckFinal() = 0;
};

// All must outlive the workload. `native` is the endpoint of the servers' native ports; it may be
// nullptr if the options have no clients for it.
std::unique_ptr<Workload> MakeWorkload(SimEnvironment* environment, Endpoint* endpoint,
                                       const Options& options, Endpoint* native = nullptr);

}  // namespace quorate::simulation
