// SPDX-License-Identifier: Apache-2.0

// A hook that runs before a failed assertion ends the process.
//
// Thread-safety: may be used from any thread.
#pragma once

namespace quorate {

// Sets the function that is called once, before the message of a failed assertion is printed, on
// the thread that failed. The hook writes the messages that the program's log still has queued. It
// must not block without a time limit.
void SetAssertionHook(void (*hook)());

}  // namespace quorate
