"""Where the tests of a run take their random choices from: one number, another one each time, that is
printed and can be given again."""

import random
import time

number = int(time.time())


def add_option(parser):
    parser.add_argument("--seed", type=int, default=number, metavar="N",
                        help="of all random choices (default: another one each time, which is printed)")


def use(options):
    global number
    number = options.seed
    print(f"seed {number}", flush=True)


def chance(name):
    """A generator for the test of that name: whatever runs before it makes no difference."""
    return random.Random(f"{number} {name}")
