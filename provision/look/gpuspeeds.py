# Prints how fast GPUs are, as JSON: DEVICE BYTES. DEVICE is cuda, which is ROCm's word in PyTorch, too; or cpu, which
# stands in for two GPUs in tests. BYTES is how much of a GPU's memory is copied at once.
import json, os, sys, time

os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # in which nvidia-smi counts them

try:
    import torch
except ImportError as why:
    sys.exit("its Python has no PyTorch: %s" % why)

device, size = sys.argv[1], int(sys.argv[2])
ROUNDS = 5  # of which the fastest counts: whatever else happens makes a round slower, and none faster
LONG = 0.02  # seconds that a round takes at least, beside which its beginning counts little


def speed(moved, do, *gpus):
    """Bytes a second of what moves so many."""

    def took(times):
        start = time.perf_counter()
        for _ in range(times):
            do()
        for gpu in gpus:
            if gpu.type != "cpu":
                torch.cuda.synchronize(gpu)
        return (time.perf_counter() - start) / times

    took(1)  # in which drivers make what they need
    times = max(1, min(200, int(LONG / took(1)) + 1))
    return moved / min(took(times) for _ in range(ROUNDS))


def address(gpu):
    """The PCI address of a GPU, where PyTorch tells it: AMD's tools count GPUs in another order than programs do."""
    try:
        p = torch.cuda.get_device_properties(gpu)
        return "%04x:%02x:%02x.0" % (p.pci_domain_id, p.pci_bus_id, p.pci_device_id)
    except (AttributeError, RuntimeError, AssertionError):
        return ""


def told(at, name):
    """What the kernel tells of a GPU; empty: nothing."""
    try:
        with open("/sys/bus/pci/devices/%s/%s" % (at, name)) as f:
            return f.read().strip()
    except OSError:
        return ""


def near(at):
    """Puts this process on the processors beside a GPU, and with it the memory that it takes, where that can be known."""
    try:
        spans = [s.split("-") for s in told(at, "local_cpulist").split(",")]
        os.sched_setaffinity(0, [c for s in spans for c in range(int(s[0]), int(s[-1]) + 1)])
    except (OSError, ValueError):
        pass


def main():
    if device == "cpu":
        gpus = [torch.device("cpu")] * 2
    elif torch.cuda.is_available():
        gpus = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    else:
        cuda, rocm = torch.version.cuda, torch.version.hip
        built = "ROCm " + rocm if rocm else "CUDA " + cuda if cuda else "neither CUDA nor ROCm"
        sys.exit("PyTorch sees no GPU: it is built for " + built)
    everywhere = os.sched_getaffinity(0)
    found = []
    for gpu in gpus:
        if gpu.type != "cpu":
            torch.cuda.set_device(gpu)
        a = torch.zeros(size // 4, dtype=torch.float32, device=gpu)
        b = torch.zeros_like(a)
        # Reads and writes, as STREAM counts them.
        memory = max(speed(2 * size, do, gpu) for do in (lambda: b.copy_(a), lambda: torch.mul(a, 2, out=b)))
        del b
        at = ""
        if gpu.type != "cpu":
            at = address(gpu)
            near(at)
        part = a[: len(a) // 4]
        host = torch.zeros(len(part), dtype=torch.float32, pin_memory=gpu.type != "cpu")
        moved = len(part) * 4
        to = speed(moved, lambda: part.copy_(host, non_blocking=True), gpu)
        back = speed(moved, lambda: host.copy_(part, non_blocking=True), gpu)
        name = "cpu" if gpu.type == "cpu" else torch.cuda.get_device_name(gpu)
        split = told(at, "current_compute_partition") not in ("", "SPX")
        found.append({"name": name, "at": at, "part": split, "memory": memory, "to": to, "from": back, "peers": [0] * len(gpus)})
        os.sched_setaffinity(0, everywhere)
        del a, part, host
    parts = [torch.zeros(size // 16, dtype=torch.float32, device=gpu) for gpu in gpus]
    for i, gpu in enumerate(gpus):
        for j, other in enumerate(gpus):
            if i != j:
                moved = len(parts[i]) * 4
                found[i]["peers"][j] = speed(moved, lambda: parts[j].copy_(parts[i], non_blocking=True), gpu, other)
    print("\n" + json.dumps({"gpus": found}), flush=True)


main()
