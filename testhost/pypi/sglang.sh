# Makes SGLang $VERSION in $DIR out of PyPI's packages, for processors; its model is another environment's.
rm -rf "$DIR/tools" "$DIR/env"
python3 -m venv "$DIR/tools"
"$DIR/tools/bin/python" -m pip install --quiet uv==0.13.9
uv() { "$DIR/tools/bin/uv" "$@"; }
uv venv --quiet --python "$DIR/tools/bin/python" "$DIR/env"

# What is for GPUs alone, of which PyPI has no build for processors. Nothing here sees or hears.
for package in cuda-python cuda-tile flash-attn-4 flash-attn flashinfer_python flashinfer-cubin humming-kernels nvidia-cutlass-dsl nvidia-mathdx \
	nvshmem4py-cu13 quack-kernels sgl-deep-ep sgl-deep-gemm sgl-flash-mla sgl-kernel sglang-kernel tilelang timm torchcodec \
	torch_memory_saver modelscope av blobfile decord2; do
	echo "$package; sys_platform == 'never'"
done > "$DIR/overrides.txt"
# These run with the torch that vLLM has too, which saves 5 GB.
case $VERSION in 0.5.2[0-3]) printf 'torch==2.13.0\ntorchvision==0.29.2\ntorchaudio==2.11.0\nnumba==0.65.0\n' >> "$DIR/overrides.txt" ;; esac
uv pip install --quiet --compile-bytecode --python "$DIR/env/bin/python" --override "$DIR/overrides.txt" "sglang==$VERSION"

# In place of the kernels: the one function that SGLang needs of them on processors. For all else it takes torch's own.
stand_in=$(echo "$DIR"/env/lib/python3*/site-packages)/sgl_kernel
mkdir "$stand_in"
cat > "$stand_in/__init__.py" <<'PYTHON'
def assign_req_to_token_pool_cpu(requests, req_to_token, starts, ends, out_cache_loc, _):
    at = 0
    for request, start, end in zip(requests.tolist(), starts.tolist(), ends.tolist()):
        req_to_token[request, start:end] = out_cache_loc[at : at + end - start]
        at += end - start


def __getattr__(name):  # of what is imported and never called
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_, **__):
        raise NotImplementedError(f"sgl_kernel.{name} has no stand-in")

    return missing
PYTHON
