// The interface through which consensus drives whatever it replicates.
#pragma once

#include <span>

#include "consensus/core/types.h"

namespace quorate::consensus {

// Called from one thread (the apply thread), in log order, each entry exactly once.
class StateMachine {
 public:
  virtual ~StateMachine() = default;

  // Applies committed entries, contiguous from the last call. No-ops are included, for their index
  // counts. Must be deterministic in what it replicates. `entries` is not empty.
  virtual void Apply(std::span<const Entry> entries) = 0;
};

}  // namespace quorate::consensus
