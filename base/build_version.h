// SPDX-License-Identifier: Apache-2.0

// The version of this build. It is a separate library that only programs link, because it changes
// with each commit.
#pragma once

#include <string>

namespace quorate {

// Returns version, commit and build: "0.1.0 commit=8fb308881a2b build=opt". The commit is "unknown"
// if the program was built outside of a git repository, and ends in "+" if files were changed since
// the commit.
std::string ProgramVersionText();

}  // namespace quorate
