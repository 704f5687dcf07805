package engines

import (
	"path"
	"slices"
	"strings"

	"hclbench/provision"
)

// compileTarget is where the directory with compiled kernels appears in a container.
const compileTarget = "/compile-cache"

// compilers are the variables that say where a compiler keeps what it made, and
// its part of the directory: torch.compile and Inductor, Triton, PyTorch's
// extensions, CUDA's driver, FlashInfer (which appends .cache/flashinfer), DeepGEMM by
// itself, in SGLang and in TensorRT-LLM, and all that vLLM compiles. AITER is not
// among them: told of another place it no longer finds the modules that its images
// were built with.
var compilers = []struct{ variable, dir string }{
	{"CUDA_CACHE_PATH", "cuda"},
	{"DG_JIT_CACHE_DIR", "deep_gemm"},
	{"FLASHINFER_WORKSPACE_BASE", "flashinfer"},
	{"SGLANG_DG_CACHE_DIR", "deep_gemm"},
	{"TORCHINDUCTOR_CACHE_DIR", "inductor"},
	{"TORCH_EXTENSIONS_DIR", "torch_extensions"},
	{"TRITON_CACHE_DIR", "triton"},
	{"TRTLLM_DG_CACHE_DIR", "deep_gemm_trtllm"},
	{"VLLM_CACHE_ROOT", "vllm"},
}

// compileCache keeps what the engine compiles.
func compileCache(c *provision.Container, e *Engine) {
	if e.CompileCache == "" {
		return
	}
	at := e.CompileCache
	if Runtime(e) == provision.Docker {
		at = compileTarget
		c.Mounts = append(c.Mounts, provision.Mount{Source: e.CompileCache, Target: at})
	}
	for _, known := range compilers {
		setEnv(c, known.variable, path.Join(at, known.dir))
	}
}

// CompileCache gives a container of the engine the part of its compile cache that
// belongs to the image with this id, and returns where that is on the host; "" when
// it keeps none. Kernels of another image can be wrong for it, and not every
// compiler notices.
func CompileCache(e *Engine, c provision.Container, imageID string) (in provision.Container, at string) {
	if e.CompileCache == "" {
		return c, ""
	}
	if Runtime(e) != provision.Docker {
		return c, e.CompileCache
	}
	_, digits, _ := strings.Cut(imageID, ":")
	at = path.Join(e.CompileCache, digits[:min(12, len(digits))])
	if strings.HasPrefix(e.CompileCache, "~/") {
		at = "~/" + strings.TrimPrefix(at, "~/")
	}
	c.Mounts = slices.Clone(c.Mounts)
	for i, m := range c.Mounts {
		if m.Target == compileTarget {
			c.Mounts[i].Source = at
		}
	}
	return c, at
}
