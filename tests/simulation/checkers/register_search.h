// SPDX-License-Identifier: Apache-2.0

// Linearizability of a register, by search: is there an order of its operations, each between its
// call and its return, in which a plain register gives these answers? (Wing and Gong 1993, with the
// memory of Lowe 2017; one register at a time, since linearizability is local.) Uses no zxids.
//
// Answers carry the version of the register, which restricts at each step which operation can be
// next; so histories of a hundred thousand operations are searched quickly, whether they have an
// order or not.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quorate::simulation {

inline constexpr int32_t kAnyRegisterVersion = -1;

// One operation on a register. A register has a value and a version, which counts its writes.
struct RegisterOperation {
  size_t id = 0;  // the caller's
  // In any unit.
  int64_t call_time = 0;
  // Of a lost one: the last time at which it may have taken effect.
  int64_t return_time = INT64_MAX;
  bool lost = false;  // it took effect between its times, or never; only writes are lost
  bool write = false;
  int32_t expected_version = kAnyRegisterVersion;  // write: only if this is the version
  std::string_view value;                          // written, or read
  bool refused = false;                            // write: another version was there
  int32_t version = 0;                             // after the operation, unless it was refused
};

enum class Verdict : uint8_t { kLinearizable, kNotLinearizable, kTooHard };

// How far a search that found no order came.
struct RegisterStuck {
  int32_t version = 0;   // how many writes could be put in order
  size_t operation = 0;  // the index of the operation that has to be next by time, and cannot be
};

// `initial` is the value at version 0. Gives up after `states_max` states. If there is no order,
// describes in `stuck` (unless it is null) how far the search came.
Verdict CheckRegister(const std::vector<RegisterOperation>& operations, std::string_view initial,
                      size_t states_max, RegisterStuck* stuck = nullptr);

}  // namespace quorate::simulation
