// SPDX-License-Identifier: Apache-2.0

// Checks that the two directories of a member, whose log has a directory of its own, are complete
// and belong together.
//
// `quorate restore` and `quorate import` make both directories. They mark both as incomplete
// (consensus/log/new_data_dir.h), and at the end remove the mark of the log directory first. A data
// directory that is still marked is therefore complete if, and only if, the log directory is
// unmarked and was made with it: then the log and the checkpoint are of the same cluster. With
// another log directory, or a new one, no server starts on a marked data directory.
//
// Thread-safety: a function without state.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "consensus/log/env.h"

namespace quorate::rpc {

// Returns FailedPrecondition, with the directory and what to do, if `data_dir` is marked and must
// not be used with `log_dir`. Changes nothing. A mark in `log_dir` is not checked here, but by
// DataDir::Open.
absl::Status CheckWhole(consensus::Env* env, const std::string& log_dir,
                        const std::string& data_dir);

}  // namespace quorate::rpc
