// SPDX-License-Identifier: Apache-2.0

// The reference page of all metrics, made from their tables.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

namespace quorate::rpc::admin {

// The path of the page in the source tree, and the command that writes it.
inline constexpr char kMetricsReferencePath[] = "docs/reference/metrics.md";
inline constexpr char kWriteMetricsReference[] =
    "bazel run --config=opt //rpc/admin:write_metrics_reference";

// Returns the whole page.
std::string MetricsReference();

}  // namespace quorate::rpc::admin
