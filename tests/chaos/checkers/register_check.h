// SPDX-License-Identifier: Apache-2.0

// Registers: nodes that are created once and then only read and set.
//
// - Writes and linearizable reads of a register have an order that explains all answers, in which
//   each is between its invocation and its answer. An unknown write happened at some time while its
//   session could still do something, or never.
// - What is read, by any read, was written: by a write that began before the read was answered, was
//   not refused, and led to the version that was read.
//
// The logs, the counters and the accounts of other workloads are checked as registers, too.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstddef>

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

// A search that needs more states is given up.
inline constexpr size_t kRegisterStatesMax = 200'000;

Verdicts CheckRegisters(const Run& run, size_t states_max = kRegisterStatesMax);

}  // namespace quorate::chaos
