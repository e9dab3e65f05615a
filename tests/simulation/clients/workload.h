// SPDX-License-Identifier: Apache-2.0

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
  // Starts no new operations, but finishes those under way; sessions are kept alive.
  virtual void BeginQuiet() = 0;
  // After BeginQuiet: whether every client is connected to a server, has a session in which a write
  // has just succeeded, and has nothing under way.
  virtual bool Idle() const = 0;
  // Describes in one line what Idle still waits for.
  virtual std::string Describe() const = 0;
  // Checks the whole history, and calls SimEnvironment::Fail at a violation. REQUIRES: all members
  // have converged.
  virtual void CheckFinal() = 0;
};

// The objects behind pointers must outlive the workload. `native` is the endpoint of the servers'
// native ports; it may be nullptr if the options have no native clients.
std::unique_ptr<Workload> MakeWorkload(SimEnvironment* environment, Endpoint* endpoint,
                                       const Options& options, Endpoint* native = nullptr);

}  // namespace quorate::simulation
