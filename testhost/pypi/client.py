"""Runs a module as a program, again and again in one process, since its imports take longer than what it measures:
client.py MODULE. Each line of input is the arguments of a run, in JSON; its end is told by a line of output."""

import json
import runpy
import sys

module = sys.argv[1]
for line in sys.stdin:
    sys.argv = [module, *json.loads(line)]
    code = 0
    try:
        runpy.run_module(module, run_name="__main__")
    except SystemExit as ended:
        code = ended.code or 0
    print(f"\nended {code}", flush=True)
