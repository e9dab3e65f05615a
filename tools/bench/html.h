// Results as one self-contained page with charts: no script, style sheet or font from elsewhere. It
// follows the reader's choice of light or dark.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "tools/bench/options.h"
#include "tools/bench/run.h"

namespace quorate::tools::bench {

std::string ToHtml(const Results& results, const Options& options);

}  // namespace quorate::tools::bench
