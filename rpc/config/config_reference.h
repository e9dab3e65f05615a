// SPDX-License-Identifier: Apache-2.0

// Generates the documents that describe the configuration keys from the table of keys: the tables
// of docs/reference/configuration.md, and deploy/zoo.cfg.sample. Both files are committed.
// write_config_reference.cc writes them, and a test compares them with the table.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace quorate::rpc {

// The files, from the root of the source tree.
inline constexpr char kConfigPagePath[] = "docs/reference/configuration.md";
inline constexpr char kConfigSamplePath[] = "deploy/zoo.cfg.sample";

// The command that writes the files again after the table was changed.
inline constexpr char kWriteConfigReference[] =
    "bazel run --config=opt //rpc/config:write_config_reference";

// Returns `page`, the text of docs/reference/configuration.md, with the sections after its line
// "<!-- generated ... -->" generated from the table. Returns InvalidArgument if there is no such
// line.
absl::StatusOr<std::string> UpdatedConfigPage(std::string_view page);

// Returns a configuration of one server in which each key of the table is explained. All lines
// except those of required keys are comments.
std::string SampleConfig();

}  // namespace quorate::rpc
