// Results as one page with charts that needs nothing else: no script, no style sheet, no font from
// anywhere. It follows the reader's choice of light or dark.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "tools/bench/options.h"
#include "tools/bench/run.h"

namespace quorate::tools::bench {

std::string ToHtml(const Results& results, const Options& options);

}  // namespace quorate::tools::bench
