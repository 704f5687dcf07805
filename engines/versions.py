import glob, importlib.metadata, importlib.util, json, platform, sys

found = {"python": platform.python_version()}
for name, packages in {
    "sglang": ["sglang"],
    "vllm": ["vllm"],
    "tensorrt_llm": ["tensorrt-llm", "tensorrt_llm"],
    "tensorrt": ["tensorrt"],
    "torch": ["torch"],
    "transformers": ["transformers"],
    "triton": ["triton", "pytorch-triton-rocm", "pytorch-triton"],
    "flashinfer": ["flashinfer-python", "flashinfer"],
    "sgl_kernel": ["sgl-kernel"],
    "aiter": ["aiter", "amd-aiter"],
    "nccl": ["nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"],
    "numpy": ["numpy"],
}.items():
    for package in packages:
        try:
            found[name] = importlib.metadata.version(package)
            break
        except Exception:
            pass
try:
    torch = {}
    folder = importlib.util.find_spec("torch").submodule_search_locations[0]
    exec(open(folder + "/version.py").read(), torch)
    for name, member in {"cuda": "cuda", "hip": "hip"}.items():
        if torch.get(member):
            found[name] = str(torch[member])
except Exception:
    pass
for path in sorted(glob.glob("/opt/rocm*/.info/version")):
    found["rocm"] = open(path).read().strip()
open(sys.argv[1], "w").write(json.dumps(found))
