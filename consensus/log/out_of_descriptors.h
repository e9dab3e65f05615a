// SPDX-License-Identifier: Apache-2.0

// Distinguishes errors of Env that are due to a lack of file descriptors from those of a full disk.
//
// Thread-safety: a function without state.
#pragma once

#include "absl/status/status.h"

namespace quorate::consensus {

// Returns whether Env failed because this process (EMFILE) or the machine (ENFILE) has too many
// open files. The code of such an error is ResourceExhausted, as of a full disk: code that waits
// for free space also waits for a descriptor, and continues automatically. Only the message and the
// use of ballast files differ.
bool IsOutOfDescriptors(const absl::Status& status);

}  // namespace quorate::consensus
