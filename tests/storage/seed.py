# SPDX-License-Identifier: Apache-2.0
"""The source of all random choices of a run: one number, a new one in each run, which is printed and can be given
again."""

import random
import time

number = int(time.time())


def add_option(parser):
    parser.add_argument("--seed", type=int, default=number, metavar="N",
                        help="seed of all random choices (default: a new one each time, which is printed)")


def use(options):
    global number
    number = options.seed
    print(f"seed {number}", flush=True)


def chance(name):
    """Returns the random generator of the test with that name. Other tests do not influence it."""
    return random.Random(f"{number} {name}")
