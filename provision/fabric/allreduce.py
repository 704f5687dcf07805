# Prints how long an all-reduce takes: GPUS WORLD FIRST ADDRESS BYTES; one process for each GPU
# here, which gets its number as a sixth word.
import datetime, json, signal, subprocess, sys, time

gpus, world, first, address, size = sys.argv[1:6]


def measure(local):
    import torch
    import torch.distributed as dist

    if not torch.cuda.is_available():
        cuda, rocm = torch.version.cuda, torch.version.hip
        built = "ROCm " + rocm if rocm else "CUDA " + cuda if cuda else "neither CUDA nor ROCm"
        sys.exit("PyTorch sees no GPU: it is built for " + built)
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl", init_method="tcp://" + address, rank=int(first) + local, world_size=int(world),
        timeout=datetime.timedelta(seconds=120),
    )
    data = torch.zeros(int(size) // 4, dtype=torch.float32, device=device)

    def timed(n):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(n):
            dist.all_reduce(data)
        torch.cuda.synchronize()
        took = torch.tensor([(time.perf_counter() - start) / n], device=device)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        return took.item()

    timed(1)  # in which they also get to know each other
    took = timed(max(1, min(20, int(10 / timed(1)))))
    if dist.get_rank() == 0:
        print("\n" + json.dumps({"seconds": took}), flush=True)
    dist.destroy_process_group()


def main():
    parts = []

    def end(*_):
        for p in parts:
            p.terminate()

    signal.signal(signal.SIGTERM, end)
    for i in range(int(gpus)):
        parts.append(subprocess.Popen([sys.executable, *sys.argv[:6], str(i)]))
    status = 0
    while parts:
        for p in [p for p in parts if p.poll() is not None]:
            parts.remove(p)
            if p.returncode != 0:  # the others would wait for it
                status = status or p.returncode
                end()
        time.sleep(0.1)
    sys.exit(1 if status else 0)


if len(sys.argv) > 6:
    measure(int(sys.argv[6]))
else:
    main()
