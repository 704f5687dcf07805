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

// What Check and Doubts say, where it is long.
const (
	urlOfOurs = "Only engines of kind %q have a url: they are run by someone else. " +
		"This one is started by hcl and listens on its host."
	noHost         = "%s must say on which host it runs, for example:\n\n    host = host.h200"
	noImage        = "%s runs in a container and needs the exact image, for example:\n\n    image = %q"
	noModel        = "An engine of kind %q serves a model, so it must name one, for example:\n\n    model = model.r1"
	noCommand      = "hcl does not know how a server of kind %q is started. Give its whole command as a list of words."
	portAmongFlags = "Give the port as an argument and not among the flags, so that hcl knows where to " +
		"reach the server:\n\n    port = 8000"
	notOnHost = "%q is not a path on the host. Begin with a slash, or with ~/ for the home of the user there."
	oldConfig = "The engine reads a configuration file from version %s on, and the image %s is older. " +
		"Write the members of config into flags, under the same names."
	twoConfigs = "The flag %q names a configuration file too, and an engine of kind %q reads only one. " +
		"Remove one of the two."
	noBuild    = "A build makes what the server serves, in a container, and an engine of kind %q%s has none. Remove the block."
	noCommands = "A build block says how the output is made, for example:\n\n" +
		"    commands = [\"trtllm-build --checkpoint_dir /tmp/checkpoint --output_dir /build/model\"]"
	noOutput = "A build block says where in the container its commands leave the output, as an absolute path, " +
		"for example:\n\n    output = \"/build/model\""
	noURL         = "An engine of kind %q needs the url of the server, for example:\n\n    url = \"http://203.0.113.7:8000\""
	badURL        = "%q is not the url of a server. Write scheme, host and port, for example:\n\n    url = \"http://203.0.113.7:8000\""
	passwordInURL = "The url has a password in it, which would be stored with the results. " +
		"Write what the server asks for as api_key, or as a header of the load."
	notOurs    = "Someone else runs an engine of kind %q, so hcl cannot set its %s. Remove the argument."
	nvidiaKind = "TensorRT-LLM runs on NVIDIA GPUs only, and host.%s has %s. " +
		"Serve the model there with an engine of kind \"sglang\" or \"vllm\"."
	nvidiaImage = "The image %s is built for NVIDIA GPUs, but host.%s has %s. Images for AMD are for example %s."
	amdImage    = "The image %s is built for AMD GPUs, but host.%s has %s. An image for NVIDIA is for example %s."
	noGPU       = "There is no GPU %s: host.%s has %s, numbered from 0 to %d."
	notGPUCount = "The flag %s counts GPUs. It is a whole number of at least 1, not %q."
	notShare    = "The flag %s is a share of the GPUs' memory. It is above 0 and at most 1, such as 0.9, not %q."
	noKeySent   = "The server asks for this key, but hcl sends none, so the server would refuse every request. " +
		"Give the key for the requests too, for example:\n\n    api_key = var.key"

	flagsBesideCommand = "The argument command is the whole command of the server, so hcl does not pass on " +
		"what is in flags. Put the flags into command, or remove one of the two."
	imageOfOther = "By its name, the image %s is for kind %q, and this engine is of kind %q. " +
		"Its command would not be in the image."
	noRevision = "TensorRT-LLM takes the repository's default branch: not all of its versions have a flag for a revision, " +
		"so hcl gives none. If yours has one, write flags = { revision = %q }. If not, serve a directory of the host " +
		"that holds that revision."
	unevenGPUs = "The flags ask for %[1]d of %[2]d GPUs (tensor × pipeline × data parallel), " +
		"and %[2]d is not a multiple of %[1]d. Few models run on such a number of GPUs."
	lowPort = "Ports below 1024 are for root, and often taken: 22 is SSH's. Take a higher port, such as 8000."
)

// findings are mistakes, or doubts, in the order in which they were found.
type findings []FieldError

func (f *findings) add(field, format string, args ...any) { f.of(field, "", format, args...) }

// of is add for one key of an argument.
func (f *findings) of(field, key, format string, args ...any) {
	*f = append(*f, FieldError{Field: field, Key: key, Detail: fmt.Sprintf(format, args...)})
}

// in is of for a role of a group.
func (f *findings) in(role, field, key, format string, args ...any) {
	f.of(field, key, format, args...)
	(*f)[len(*f)-1].Role = role
}

// Check returns every mistake in an engine that its kind knows about, without
// contacting anything.
func Check(e *Engine) []FieldError {
	var found findings
	switch e.Kind {
	case External:
		checkExternal(e, &found)
		return found
	case Operated:
		checkOperated(e, &found)
		return found
	}
	checkStart(e, &found)
	checkRepeats(e, &found)
	checkCompileCache(e, &found)
	checkConfig(e, &found)
	checkBuild(e, &found)
	checkPod(e, &found)
	checkFlagValues(e, &found)
	checkKeys(e, &found)
	checkGPUs(e, &found)
	return found
}

// checkStart: all is there that a server is started with.
func checkStart(e *Engine, found *findings) {
	k := kinds[e.Kind]
	if e.URL != "" {
		found.add(urlField(e), urlOfOurs, External)
	}
	if e.Host == nil {
		found.add("host", noHost, e.what())
	}
	switch {
	case InImage(e) && e.Image == "":
		found.add("image", noImage, e.what(), k.image)
	case e.Kind == Sim && e.Image != "":
		found.add("image", "The simulated engine is part of the hcl binary and has no image. Remove the argument.")
	}
	if _, err := origin.ParseRef(e.Image); e.Image != "" && err != nil {
		found.add("image", "%v.", err)
	}
	if e.Model == nil && k.needsModel && e.Command == nil {
		found.add("model", noModel, e.Kind)
	}
	if k.program == nil && e.Command == nil {
		found.add("command", noCommand, e.Kind)
	}
	if Port(e) == 0 {
		found.add("port", "hcl does not know where a server of kind %q listens. Give the port.", e.Kind)
	}
}

// checkRepeats: no flag says what an argument says.
func checkRepeats(e *Engine, found *findings) {
	where := func(flag string) string {
		if _, set := e.configured(flag); set {
			return "config"
		}
		return "flags"
	}
	if _, set := e.Flag("port"); set {
		found.add(where("port"), portAmongFlags)
	}
	for _, flag := range []string{"model", "model-path", "model_path"} {
		if _, set := e.Flag(flag); set && e.Model != nil {
			found.add(where(flag), "%q repeats what the model argument says. Remove one of them.", flag)
		}
	}
}

func checkCompileCache(e *Engine, found *findings) {
	switch at := e.CompileCache; {
	case at == "":
	case e.Kind == Sim:
		found.add("compile_cache", "The simulated engine compiles nothing. Remove the argument.")
	case Runtime(e) == provision.Process && !strings.HasPrefix(at, "/"):
		found.add("compile_cache", "%q is not an absolute path on the host.", at)
	case !strings.HasPrefix(at, "/") && !strings.HasPrefix(at, "~/"):
		found.add("compile_cache", notOnHost, at)
	}
}

func checkConfig(e *Engine, found *findings) {
	if e.Config.Reveal() == "" {
		return
	}
	if e.Kind == Sim {
		found.add("config", "The simulated engine reads no configuration file. Remove the argument, or use flags.")
	}
	if since, reads := ReadsConfig(e); since != "" && !reads && e.Command == nil {
		found.add("config", oldConfig, since, e.Image)
	}
	for _, f := range e.Flags {
		if f.Name == "config" || f.Name == "extra_llm_api_options" {
			found.add("config", twoConfigs, f.Name, e.Kind)
		}
	}
}

func checkBuild(e *Engine, found *findings) {
	b := e.Build
	if b == nil {
		return
	}
	switch {
	case Runtime(e) != provision.Docker || !kinds[e.Kind].needsModel:
		where := ""
		if e.onProcessHost() {
			where = " on a host whose runtime is \"process\""
		}
		found.add("build", noBuild, e.Kind, where)
	case len(b.Commands) == 0:
		found.add("build", noCommands)
	case !strings.HasPrefix(b.Output, "/"):
		found.add("build", noOutput)
	}
	if _, err := origin.ParseRef(b.Image); b.Image != "" && err != nil {
		found.add("build.image", "%v.", err)
	}
}

// urlField is the argument that says where an external engine is.
func urlField(e *Engine) string {
	if len(e.URLs) > 0 {
		return "urls"
	}
	return "url"
}

func checkExternal(e *Engine, found *findings) {
	if e.URL == "" {
		found.add("url", noURL, External)
	} else {
		for _, s := range append([]string{e.URL}, e.URLs...) {
			if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				found.add(urlField(e), badURL, s)
			} else if u.User != nil {
				found.add(urlField(e), passwordInURL)
			}
		}
	}
	for _, field := range startedBy(e) {
		found.add(field, notOurs, External, field)
	}
}

// gpuCounts and memoryShares are flags whose values every version reads alike: a whole
// number of at least 1, and a share of one.
var (
	gpuCounts = strings.Fields(`tensor-parallel-size tp tp-size pipeline-parallel-size pp pp-size
		data-parallel-size dp dp-size ep ep-size expert-parallel-size`)
	memoryShares = strings.Fields(`gpu-memory-utilization mem-fraction-static
		kv-cache-free-gpu-memory-fraction free-gpu-memory-fraction`)
)

// checkFlagValues holds the values of well-known flags against what they can be.
func checkFlagValues(e *Engine, found *findings) {
	if !kinds[e.Kind].needsModel || e.Command != nil {
		return
	}
	for _, f := range e.Flags {
		value := f.text()
		if value.IsSecret() {
			continue
		}
		switch name := dashed(f.Name); {
		case slices.Contains(gpuCounts, name):
			if n, err := strconv.Atoi(value.Reveal()); err != nil || n < 1 {
				found.of("flags", f.Name, notGPUCount, f.Name, value)
			}
		case slices.Contains(memoryShares, name):
			if x, err := strconv.ParseFloat(value.Reveal(), 64); err != nil || !(x > 0 && x <= 1) {
				found.of("flags", f.Name, notShare, f.Name, value)
			}
		}
	}
}

// checkKeys finds a server that asks for a key which nobody sends it: it would refuse
// every request, also those that find out whether it is ready.
func checkKeys(e *Engine, found *findings) {
	k := kinds[e.Kind]
	if !k.keyFlag || e.Command != nil || e.APIKey.Reveal() != "" {
		return
	}
	byEnv := func(v provision.EnvVar) bool { return v.Name == k.keyEnv && v.Value.Reveal() != "" }
	if _, set := e.configured("api-key"); set {
		found.add("config", noKeySent)
	} else if _, asks := e.Flag("api-key", "api_key"); asks {
		found.of("flags", "api-key", noKeySent)
	} else if slices.ContainsFunc(e.Env, byEnv) {
		found.of("env", k.keyEnv, noKeySent)
	}
}

func checkGPUs(e *Engine, found *findings) {
	if e.Host == nil || e.Host.GPUs.Count == 0 || e.Router {
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
			found.add("container.gpu_ids", noGPU, id, h.Name, h.GPUs, h.GPUs.Count-1)
		}
		if seen[id] {
			found.add("container.gpu_ids", "gpu_ids names GPU %s twice. Each GPU counts once.", id)
		}
		seen[id] = true
	}
	if need := GPUs(e); need > there && len(e.Hosts) < 2 { // else CheckGroup adds them up
		field, asks := "flags", "The flags ask"
		if bare := *e; bare.Config.Reveal() != "" {
			if bare.Config = (provision.Text{}); GPUs(&bare) <= there {
				field, asks = "config", "Flags and config ask"
			}
		}
		found.add(field, "%s for %d GPUs (tensor × pipeline × data parallel), but %s.", asks, need, of)
	}
	switch k := kinds[e.Kind]; {
	case h.GPUs.Vendor == provision.AMD && k.nvidia:
		found.add("host", nvidiaKind, h.Name, h.GPUs)
	case h.GPUs.Vendor == provision.AMD && nvidiaOnly(e.Image):
		found.add("image", nvidiaImage, e.Image, h.Name, h.GPUs, k.forAMD)
	case h.GPUs.Vendor == provision.NVIDIA && amdOnly(e.Image):
		found.add("image", amdImage, e.Image, h.Name, h.GPUs, k.image)
	}
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

// Doubts are what hardly works, or does not do what it seems to; none of it is certain.
func Doubts(e *Engine) []FieldError {
	var found findings
	k := kinds[e.Kind]
	if e.Port > 0 && e.Port < 1024 && !ByOthers(e) {
		found.add("port", lowPort)
	}
	if e.Command != nil {
		if !ByOthers(e) && len(e.Flags) > 0 {
			found.add("flags", flagsBesideCommand)
		}
		return found
	}
	if other := imageOf(e); other != "" {
		found.add("image", imageOfOther, e.Image, other, e.Kind)
	}
	_, said := e.Flag("revision")
	if k.needsModel && !k.revisionFlag && !said && e.Build == nil && e.Model != nil && e.Model.Revision != "" {
		found.add("model", noRevision, e.Model.Revision)
	}
	if e.Host != nil && e.Host.GPUs.Count > 0 && k.needsModel {
		there := e.Host.GPUs.Count
		if n := len(e.Container.GPUIDs); n > 0 {
			there = n
		}
		if need := GPUs(e); need > 0 && need < there && there%need != 0 {
			found.add("flags", unevenGPUs, need, there)
		}
	}
	return found
}
