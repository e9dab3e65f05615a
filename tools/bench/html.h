// SPDX-License-Identifier: Apache-2.0

// Writes results as one self-contained page with charts, without scripts, style sheets or fonts
// from elsewhere. The page follows the reader's choice of light or dark.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "tools/bench/options.h"
#include "tools/bench/run.h"

namespace quorate::tools::bench {

std::string ToHtml(const Results& results, const Options& options);

}  // namespace quorate::tools::bench
