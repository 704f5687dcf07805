package engines

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hclbench/origin"
	"hclbench/provision"
)

func trimFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// Check returns every mistake in an engine that its kind knows about, without
// contacting anything.
func Check(e *Engine) []FieldError {
	var errs []FieldError
	add := func(field, format string, args ...any) {
		errs = append(errs, FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
	}
	k := kinds[e.Kind]

	if e.Kind == External {
		checkExternal(e, add)
		return errs
	}
	if e.URL != "" {
		add(urlField(e), "Only engines of kind %q have a url: they are run by someone else. This one is started by hcl and listens on its host.", External)
	}
	if e.Host == nil {
		add("host", "An engine of kind %q must say on which host it runs, for example:\n\n    host = host.h200", e.Kind)
	}

	switch Runtime(e) {
	case provision.Docker:
		if e.Image == "" {
			add("image", "An engine of kind %q runs in a container and needs the exact image, for example:\n\n    image = %q", e.Kind, exampleImage[e.Kind])
		}
	case provision.Process:
		if e.Image != "" && e.Kind == Sim {
			add("image", "The simulated engine is part of the hcl binary and has no image. Remove the argument.")
		}
	}
	if _, err := origin.ParseRef(e.Image); e.Image != "" && err != nil {
		add("image", "%v.", err)
	}
	if e.Model == nil && k.needsModel && e.Command == nil {
		add("model", "An engine of kind %q serves a model, so it must name one, for example:\n\n    model = model.r1", e.Kind)
	}
	if e.Kind == OpenAI {
		if e.Command == nil {
			add("command", "hcl does not know how a server of kind %q is started. Give its whole command as a list of words.", OpenAI)
		}
		if e.Port == 0 {
			add("port", "hcl does not know where a server of kind %q listens. Give the port.", OpenAI)
		}
	}
	flagsOrConfig := func(name string) string {
		if _, set := e.configured([]string{name}); set {
			return "config"
		}
		return "flags"
	}
	if _, set := e.Flag("port"); set {
		add(flagsOrConfig("port"), "The port is said once, as an argument of its own, so that hcl knows where to reach the server:\n\n    port = 8000")
	}
	for _, name := range []string{"model", "model-path", "model_path"} {
		if _, set := e.Flag(name); set && e.Model != nil {
			add(flagsOrConfig(name), "%q repeats what the model argument says. Remove one of them.", name)
		}
	}
	switch at := e.CompileCache; {
	case at == "":
	case e.Kind == Sim:
		add("compile_cache", "The simulated engine compiles nothing. Remove the argument.")
	case Runtime(e) == provision.Process && !strings.HasPrefix(at, "/"):
		add("compile_cache", "%q is not an absolute path on the host.", at)
	case !strings.HasPrefix(at, "/") && !strings.HasPrefix(at, "~/"):
		add("compile_cache", "%q is not a path on the host. Begin with a slash, or with ~/ for the home of the user there.", at)
	}
	if e.Config.Reveal() != "" {
		checkConfig(e, add)
	}
	if b := e.Build; b != nil {
		switch {
		case Runtime(e) != provision.Docker || !k.needsModel:
			add("build", "A build makes what the server serves, in a container, and an engine of kind %q%s has none. Remove the block.", e.Kind, onProcessHost(e))
		case len(b.Commands) == 0:
			add("build", "A build block says how the output is made, for example:\n\n    commands = [\"trtllm-build --checkpoint_dir /tmp/checkpoint --output_dir /build/model\"]")
		case !strings.HasPrefix(b.Output, "/"):
			add("build", "A build block says where in the container its commands leave the output, as an absolute path, for example:\n\n    output = \"/build/model\"")
		}
		if _, err := origin.ParseRef(b.Image); b.Image != "" && err != nil {
			add("build.image", "%v.", err)
		}
	}
	checkFlags(e, &errs)
	checkKeys(e, &errs)
	checkGPUs(e, add)
	return errs
}

// checkConfig is for an engine with a configuration file.
func checkConfig(e *Engine, add func(field, format string, args ...any)) {
	if e.Kind == Sim {
		add("config", "The simulated engine reads no configuration file. Remove the argument, or say it in flags.")
	}
	if since, reads := ReadsConfig(e); since != "" && !reads && e.Command == nil {
		add("config", "The engine reads a configuration file since version %s, and the image %s is older. Say in flags what stands in config, by the same names.", since, e.Image)
	}
	for _, f := range e.Flags {
		if f.Name == "config" || f.Name == "extra_llm_api_options" {
			add("config", "The flag %q names a configuration file too, and an engine of kind %q reads one. Remove one of them.", f.Name, e.Kind)
		}
	}
}

func onProcessHost(e *Engine) string {
	if e.Host != nil && e.Host.Runtime == provision.Process {
		return " on a host whose runtime is \"process\""
	}
	return ""
}

// urlField is the argument that says where an external engine is.
func urlField(e *Engine) string {
	if len(e.URLs) > 0 {
		return "urls"
	}
	return "url"
}

func checkExternal(e *Engine, add func(field, format string, args ...any)) {
	field := urlField(e)
	if e.URL == "" {
		add("url", "An engine of kind %q needs the url of the server, for example:\n\n    url = \"http://203.0.113.7:8000\"", External)
	} else {
		for _, s := range append([]string{e.URL}, e.URLs...) {
			if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				add(field, "%q is not the url of a server. Write scheme, host and port, for example:\n\n    url = \"http://203.0.113.7:8000\"", s)
			} else if u.User != nil {
				add(field, "The url has a password in it, which would be stored with the results. Write what the server asks for as api_key, or as a header of the load.")
			}
		}
	}
	for _, arg := range []struct {
		field string
		set   bool
	}{
		{"image", e.Image != ""},
		{"env", len(e.Env) > 0},
		{"flags", len(e.Flags) > 0},
		{"config", e.Config.Reveal() != ""},
		{"compile_cache", e.CompileCache != ""},
		{"setup", len(e.Setup) > 0},
		{"command", e.Command != nil},
		{"port", e.Port != 0},
		{"build", e.Build != nil},
	} {
		if arg.set {
			add(arg.field, "An engine of kind %q is run by someone else, so hcl can set no %s for it. Remove the argument.", External, arg.field)
		}
	}
}

func checkGPUs(e *Engine, add func(field, format string, args ...any)) {
	if e.Host == nil || e.Host.GPUs.Count == 0 {
		return
	}
	h := e.Host
	there, of := h.GPUs.Count, fmt.Sprintf("host.%s has %s", h.Name, h.GPUs)
	if n := len(e.Container.GPUIDs); n > 0 {
		there, of = n, fmt.Sprintf("gpu_ids names %d", n)
	}
	seen := map[string]bool{}
	for _, id := range e.Container.GPUIDs {
		if i, err := strconv.Atoi(id); err == nil && (i < 0 || i >= h.GPUs.Count) {
			add("container.gpu_ids", "There is no GPU %s: host.%s has %s, numbered from 0 to %d.", id, h.Name, h.GPUs, h.GPUs.Count-1)
		}
		if seen[id] {
			add("container.gpu_ids", "gpu_ids names GPU %s twice. Each GPU counts once.", id)
		}
		seen[id] = true
	}
	if need := GPUs(e); need > there {
		field, asks := "flags", "The flags ask"
		if bare := *e; bare.Config.Reveal() != "" {
			if bare.Config = (provision.Text{}); GPUs(&bare) <= there {
				field, asks = "config", "Flags and config ask"
			}
		}
		add(field, "%s for %d GPUs (tensor × pipeline × data parallel), but %s.", asks, need, of)
	}
	switch h.GPUs.Vendor {
	case provision.AMD:
		if e.Kind == TRTLLM {
			add("host", "TensorRT-LLM runs on NVIDIA GPUs only, and host.%s has %s. Serve the model there with an engine of kind \"sglang\" or \"vllm\".", h.Name, h.GPUs)
		} else if nvidiaOnly(e.Image) {
			add("image", "The image %s is built for NVIDIA GPUs, but host.%s has %s. Images for AMD are for example %s.", e.Image, h.Name, h.GPUs, amdImage[e.Kind])
		}
	case provision.NVIDIA:
		if amdOnly(e.Image) {
			add("image", "The image %s is built for AMD GPUs, but host.%s has %s. An image for NVIDIA is for example %s.", e.Image, h.Name, h.GPUs, exampleImage[e.Kind])
		}
	}
}

var exampleImage = map[string]string{
	SGLang: "lmsysorg/sglang:v0.5.12",
	VLLM:   "vllm/vllm-openai:v0.11.0",
	TRTLLM: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
	OpenAI: "registry.example.com/team/server:1.2",
}

var amdImage = map[string]string{
	SGLang: "lmsysorg/sglang:v0.5.12-rocm700-mi30x or rocm/sglang-staging:20250212",
	VLLM:   "vllm/vllm-openai-rocm or rocm/vllm-dev",
	OpenAI: "one whose name says rocm",
}

func amdOnly(image string) bool { return strings.Contains(strings.ToLower(image), "rocm") }

// nvidiaOnly knows the published image families; an image of the user's own is
// given the benefit of the doubt.
func nvidiaOnly(image string) bool {
	if amdOnly(image) {
		return false
	}
	ref, _ := origin.ParseRef(image) // one that is none is told elsewhere
	return slices.Contains([]string{"vllm/vllm-openai", "lmsysorg/sglang"}, ref.Name()) ||
		ref.Registry == "nvcr.io" || strings.Contains(ref.Tag, "-cu1")
}
