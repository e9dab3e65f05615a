// Whether a member's two directories are whole, where its log has one of its own.
//
// What makes them (`quorate restore`, `quorate import`) marks both as incomplete
// (consensus/log/new_data_dir.h), and takes the mark away from the log's first. So a data directory
// that is still marked is whole if, and only if, the log directory beside it is the one that was
// made with it: then the log is of the same cluster as the checkpoint. With any other, or a new
// one, the mark stays, and no server starts.
//
// Thread-safety: a function without state.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "consensus/log/env.h"

namespace quorate::rpc {

// FailedPrecondition, naming directory and way out, if `data_dir` is marked and must not be used
// with `log_dir`. Nothing is changed. A mark in `log_dir` is what DataDir::Open looks for.
absl::Status CheckWhole(consensus::Env* env, const std::string& log_dir,
                        const std::string& data_dir);

}  // namespace quorate::rpc
