// Checks that a member's two directories are complete and belong together, if its log has a
// directory of its own.
//
// `quorate restore` and `quorate import`, which make them, mark both as incomplete
// (consensus/log/new_data_dir.h), and remove the mark of the log directory first. So a data
// directory that is still marked is complete if, and only if, the log directory is the unmarked one
// that was made with it: then the log is of the same cluster as the checkpoint. With another or a
// new log directory no server starts.
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
