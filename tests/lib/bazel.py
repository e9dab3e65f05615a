# SPDX-License-Identifier: Apache-2.0
"""Builds and tests with Bazel, with the disk cache that QUORATE_DISK_CACHE names, if it does."""

import os
import subprocess

import harness


# The second Bazel server, which builds with seeded bugs, ends after so many seconds without work.
IDLE_SECONDS_MAX = 120


def seeded_sources():
    """Returns the C++ files that see the seeded bugs: those that include base/seeded_bug.h, or a test's header that does.

    A header outside base and tests that includes it would make every file that includes that header one of them;
    such a header is refused."""
    names = subprocess.run(["grep", "-rlE", '#include "(base|tests/[a-z_]+)/seeded_bugs?\\.h"', "--include=*.cc",
                            "--include=*.h", "base", "client", "consensus", "rpc", "tests", "tools", "tree"],
                           cwd=harness.ROOT, check=True, capture_output=True, text=True).stdout.split()
    headers = [name for name in names if name.endswith(".h") and not name.startswith("tests/")]
    assert not headers, f"include base/seeded_bug.h in the .cc files, not in {', '.join(headers)}"
    return sorted(name for name in names if name.endswith(".cc"))


def seeded_bugs_flag():
    """Returns the option that compiles the seeded bugs into the files that see them, and changes no other file."""
    sources = "|".join(name.replace(".", "\\.") for name in seeded_sources())
    return f"--per_file_copt=^({sources})$@-DQUORATE_SEEDED_BUGS"


def seeded_bugs(verb, *flags):
    """Returns the first words of a Bazel command that builds with seeded bugs.

    It makes the same programs as --config=seeded_bugs, but compiles only the files that see the bugs: all others have
    the command line of --config=opt, so that the disk cache has them. The output base is another one, because the
    programs would replace those of --config=opt."""
    base = subprocess.run(["bazel", "info", "output_base"], cwd=harness.ROOT, check=True, capture_output=True,
                          text=True).stdout.strip()
    return ["bazel", f"--output_base={base}-seeded_bugs", f"--max_idle_secs={IDLE_SECONDS_MAX}", verb, "--config=opt",
            "--symlink_prefix=.bazel/seeded_bugs-", seeded_bugs_flag(), *flags]


def command(verb, config, *arguments):
    cache = os.environ.get("QUORATE_DISK_CACHE")
    flags = [f"--disk_cache={cache}"] if cache else []
    if config == "seeded_bugs":
        return [*seeded_bugs(verb, *flags), *arguments]
    return ["bazel", verb, f"--config={config}", *flags, *arguments]


def build(config, *targets):
    subprocess.run(command("build", config, *targets), cwd=harness.ROOT, check=True)


def test(config, *arguments):
    """Runs tests, whose output is shown if they fail."""
    subprocess.run(command("test", config, "--test_output=errors", *arguments), cwd=harness.ROOT, check=True)


def program(config, target):
    """The path of a program that was built: of "//tests/model", .bazel/<config>-bin/tests/model/model."""
    package, _, name = target.removeprefix("//").partition(":")
    return os.path.join(harness.ROOT, f".bazel/{config}-bin", package, name or os.path.basename(package))
