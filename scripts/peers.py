#!/usr/bin/env python3
"""Holds hcl bench --capacity against GuideLLM and AIPerf, on a simulated engine whose truth is known.

    make build && scripts/peers.py [--repeats 5] [--env DIR]

The engine is `hcl sim`: its time to the first token is log-normal, and its median grows with the number of requests in
flight. So the share of requests within the bound is known at every load. The peers come from PyPI, in the versions
below, into virtual environments under a temporary folder, or under --env where they are kept. Each row of the table is
one tool: what it named, how often it was wrong, and what that took. An answer is wrong where the load that it names as
held misses the bound, or where the load that it names as broken meets it.

`kind=knee` of GuideLLM takes no SLO: it looks for the knee of throughput, which is another question.
"""

import argparse, json, math, os, re, shutil, socket, statistics, subprocess, sys, tempfile, time, urllib.request
from pathlib import Path

VERSIONS = {"guidellm": "0.8.1", "aiperf": "0.13.0"}
MOST, BOUND_MS, SPREAD = 64, 480, 0.3
SLOW = (150, 600)  # median TTFT in ms with 1 and with MOST in flight, a straight line between
Z95 = statistics.NormalDist().inv_cdf(0.95)


def median_ms(at):
    return SLOW[0] + (SLOW[1] - SLOW[0]) * (at - 1) / (MOST - 1)


TRUTH = max(n for n in range(1, MOST + 1) if median_ms(n) * math.exp(Z95 * SPREAD) <= BOUND_MS)


class Engine:
    """A simulated engine on a free port, and how many requests it has had."""

    def __init__(self, hcl):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{s.getsockname()[1]}"
        table = f"1:{SLOW[0]}ms/1ms,{MOST}:{SLOW[1]}ms/1ms"
        self.process = subprocess.Popen([hcl, "sim", "--port", self.url.rsplit(":")[-1], "--table", table, "--spread", str(SPREAD),
                                         "--stop-after", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                return urllib.request.urlopen(self.url + "/health").close()
            except OSError:
                time.sleep(0.1)
        raise SystemExit("hcl sim does not answer")

    def requests(self):
        with urllib.request.urlopen(self.url + "/sim/truth") as r:
            return json.load(r)["requests"]

    def close(self):
        self.process.terminate()
        self.process.wait()


def hcl(binary, url, folder, budget):
    """What hcl says holds and breaks."""
    out = run([binary, "bench", url, "--capacity", "concurrency", "--within", f"1-{MOST}", "--slo", f"ttft_p95={BOUND_MS}ms",
               "--budget", str(budget), "--input-tokens", "16", "--output-tokens", "2", "--format", "json"], folder)
    answer = json.loads(out)
    return answer["holds"], answer["breaks"]


def guidellm(bin, url, folder, requests):
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": " ".join(str((i * 7919 + j * 104729) % 9973) for j in range(8))}) + "\n"
                               for i in range(requests * 2)))
    run([bin / "guidellm", "run", "--backend", f"kind=openai_http,target={url},request_format=/v1/completions",
         "--profile", f"kind=goodput,max_streams={MOST},tolerance=0.05", "--metrics",
         json.dumps({"kind": "generative", "slo": {"ttft_ms": BOUND_MS}}), "--constraint", f"kind=max_requests,count={requests}",
         "--data", f"kind=json_file,path={prompts}", "--output", f"kind=json,path={folder / 'report.json'}",
         "--disable-console-interactive"], folder, GUIDELLM__MAX_WORKER_PROCESSES="1")
    search = find(json.loads((folder / "report.json").read_text()), "best_passing_streams")
    return search["best_passing_streams"], search["lowest_failing_streams"]


def aiperf(bin, url, folder, requests):
    run([bin / "aiperf", "profile", "--model", "sim", "--url", url, "--endpoint-type", "completions", "--streaming", "--tokenizer",
         words(bin, folder), "--isl", "16", "--osl", "2", "--search-recipe", "max-concurrency-under-sla", "--ttft-sla-ms", str(BOUND_MS),
         "--request-count", str(requests), "--concurrency-min", "1", "--concurrency-max", str(MOST), "--artifact-dir", str(folder / "out"), "--ui", "none"], folder)
    history = next((folder / "out").rglob("search_history.json"))
    found = find(json.loads(history.read_text()), "feasible_max")
    return number(found["feasible_max"]), number(found.get("infeasible_min"))


def words(bin, folder):
    """A tokenizer of its own: the built-in one is fetched when it is first used."""
    run([bin / "python", "-c", """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
letters = [chr(a) + chr(b) for a in range(97, 123) for b in range(97, 123)]
tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, **{w: i + 1 for i, w in enumerate(letters)}}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", eos_token="[UNK]", pad_token="[UNK]").save_pretrained("words")
"""], folder)
    return folder / "words"


def number(value):
    """The load of a bound, which may be a number or an object that has one."""
    if isinstance(value, dict):
        return next((number(v) for v in value.values() if number(v) is not None), None)
    if isinstance(value, str):
        match = re.search(r"\d+(\.\d+)?", value)
        return float(match.group()) if match else None
    return value


def find(tree, key):
    """The first object of a tree that has the key."""
    if isinstance(tree, dict) and key in tree:
        return tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else []:
        if (found := find(child, key)) is not None:
            return found


def run(command, folder, **env):
    done = subprocess.run([str(c) for c in command], cwd=folder, env=os.environ | env, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def installed(package, root):
    """The bin folder of a virtual environment that has the package."""
    env = root / package
    if not (env / "bin" / package).exists():
        run([sys.executable, "-m", "venv", env], root)
        run([env / "bin" / "pip", "install", "-q", f"{package}=={VERSIONS[package]}"], root)
    return env / "bin"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--hcl", default="bin/hcl", type=Path)
    arguments.add_argument("--repeats", default=5, type=int)
    arguments.add_argument("--env", type=Path, help="where the peers are kept; a temporary folder otherwise")
    a = arguments.parse_args()
    binary, temporary = a.hcl.resolve(), None if a.env else tempfile.mkdtemp()
    root = Path(a.env or temporary).resolve()
    root.mkdir(parents=True, exist_ok=True)
    try:
        guide, perf = installed("guidellm", root), installed("aiperf", root)
        tools = {"hcl, 6,000 requests": lambda url, f: hcl(binary, url, f, 6000),
                 "GuideLLM goodput, 200 a load": lambda url, f: guidellm(guide, url, f, 200),
                 "AIPerf smooth_isotonic, 200 a load": lambda url, f: aiperf(perf, url, f, 200)}
        print(f"The truth: {TRUTH} in flight hold, {TRUTH + 1} break.\n")
        print("| tool | answers | wrong | requests | seconds |\n|---|---|---|---|---|")
        for name, ask in tools.items():
            answers, wrong, requests, seconds = [], 0, [], []
            for _ in range(a.repeats):
                engine, began = Engine(binary), time.time()
                with tempfile.TemporaryDirectory() as folder:
                    holds, breaks = ask(engine.url, Path(folder))
                seconds.append(time.time() - began)
                requests.append(engine.requests())
                engine.close()
                answers.append(f"{holds} to {breaks}")
                wrong += bool(holds and holds > TRUTH or breaks and breaks <= TRUTH)
            print(f"| {name} | {', '.join(answers)} | {wrong} of {a.repeats} | {statistics.mean(requests):.0f} | {statistics.mean(seconds):.0f} |", flush=True)
    finally:
        if temporary:
            shutil.rmtree(temporary)


if __name__ == "__main__":
    main()
