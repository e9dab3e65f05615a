// What is to be done before an assertion ends the process.
//
// Thread-safety: may be used from any thread.
#pragma once

namespace quorate {

// Has `hook` called, once, before the message of a failed assertion is printed, on the thread that
// fails: to write what the program's log still holds. It must not wait without end.
void SetAssertionHook(void (*hook)());

}  // namespace quorate
