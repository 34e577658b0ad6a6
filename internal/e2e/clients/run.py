"""Runs programs: a program a line on stdin, what came of it a line on stdout.

They run in one process, as the clients that they import take seconds to load. The fields of both lines are those of
program and outcome in clients_test.go.
"""

import contextlib
import io
import json
import os
import sys
import traceback


def main():
    for line in sys.stdin:
        program = json.loads(line)
        os.environ.update(program["env"])
        print(json.dumps(run(program["code"])), flush=True)


def run(code):
    output, error = io.StringIO(), ""
    with contextlib.redirect_stdout(output):
        try:
            exec(compile(code, "docs/clients.md", "exec"), {"__name__": "__main__"})
        except Exception:
            error = traceback.format_exc()
    return {"output": output.getvalue(), "error": error}


if __name__ == "__main__":
    main()
