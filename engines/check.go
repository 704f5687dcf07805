package engines

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
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
		"reach the server:\n\n    port = %s"
	notOnHost = "%q is not a path on the host. Begin with a slash, or with ~/ for the home of the user there."
	oldConfig = "The engine reads a configuration file from version %s on, and the image %s is older. " +
		"Write the members of config into flags, under the same names."
	noConfig   = "%s reads no configuration file. Remove the argument, or use flags."
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
	keyInURL = "The url has a key in its query, %s, which would be stored with the results. " +
		"Write what the server asks for as api_key, or as a header of the load."
	notOurs    = "Someone else runs an engine of kind %q, so hcl cannot set its %s. Remove the argument."
	nvidiaKind = "TensorRT-LLM runs on NVIDIA GPUs only, and host.%s has %s. " +
		"Serve the model there with an engine of kind \"sglang\" or \"vllm\"."
	nvidiaImage = "The image %s is built for NVIDIA GPUs, but host.%s has %s. Images for AMD are for example %s."
	amdImage    = "The image %s is built for AMD GPUs, but host.%s has %s. An image for NVIDIA is for example %s."
	notGPU      = "%q is not one GPU. Write the number of each, such as [\"0\", \"1\"], or its UUID, which begins with GPU- or MIG-."
	noGPU       = "There is no GPU %s: host.%s has %s, numbered from 0 to %d."
	notGPUCount = "The flag %s counts GPUs. It is a whole number of at least 1, not %q."
	notShare    = "The flag %s is a share of the GPUs' memory. It is above 0 and at most 1, such as 0.9, not %q."
	noKeySent   = "The server asks for this key, but hcl sends none, so the server would refuse every request. " +
		"Give the key for the requests too, for example:\n\n    api_key = var.key"

	noChoice   = "hcl knows of no %s %q. There are: %s."
	hiddenGPUs = "The engine sees the GPUs that %s says, and hcl counts all of its host's. Write which it has where hcl " +
		"knows of it:\n\n    container {\n      gpu_ids = [\"0\", \"1\"]\n    }"
	flagsBesideCommand = "The argument command is the whole command of the server, so hcl does not pass on " +
		"what is in flags. Put the flags into command, or remove one of the two."
	imageOfOther = "By its name, the image %s is for kind %q, and this engine is of kind %q. " +
		"Its command would not be in the image."
	noRevision = "TensorRT-LLM takes the repository's default branch: not all of its versions have a flag for a revision, " +
		"so hcl gives none. If yours has one, write flags = { revision = %q }. If not, serve a directory of the host " +
		"that holds that revision."
	unevenGPUs = "The flags ask for %[1]d of %[2]d GPUs (tensor × pipeline × data parallel), " +
		"and %[2]d is not a multiple of %[1]d. Few models run on such a number of GPUs."
	tooLarge = "The model has %[1]d GB, and %[2]d × %[3]s at most %[4]d GB of memory. It would not fit. Give it " +
		"more GPUs, or remove size from the model if the engine makes it smaller as it loads it."
	lowPort = "Ports below 1024 are for root, and often taken: 22 is SSH's. Take a higher port, such as 8000."
)

// findings are mistakes, or doubts, in the order in which they were found.
type findings []FieldError

func (f *findings) add(field, format string, args ...any) { f.addKey(field, "", format, args...) }

// addKey is add for one key of an argument.
func (f *findings) addKey(field, key, format string, args ...any) {
	*f = append(*f, FieldError{Field: field, Key: key, Detail: fmt.Sprintf(format, args...)})
}

// lacks is add for an argument that is not there.
func (f *findings) lacks(field, format string, args ...any) {
	f.add(field, format, args...)
	(*f)[len(*f)-1].Lacks = true
}

// in is of for a role of a group.
func (f *findings) in(role, field, key, format string, args ...any) {
	f.addKey(field, key, format, args...)
	(*f)[len(*f)-1].Role = role
}

// Check returns every mistake in an engine that its kind knows about, without
// contacting anything.
func Check(e *Engine) []FieldError {
	var found findings
	switch e.Kind {
	case External:
		checkExternal(e, &found)
	case Operated:
		checkOperated(e, &found)
	case GroupKind:
		checkRoles(e, &found)
		if len(found) == 0 {
			checkSeveral(e, &found)
		}
	default:
		found = checkAlone(e)
		if len(e.Placement.front().Hosts) > 1 {
			checkSeveral(e, &found)
		}
	}
	return found
}

// checkAlone finds what is wrong with one engine where it is placed.
func checkAlone(e *Engine) (found findings) {
	for _, check := range []func(*Engine, *findings){
		checkStart, checkRepeats, checkCompileCache, checkConfig, checkBuild, checkContainer, checkFlags, checkKeys, checkGPUs,
	} {
		check(e, &found)
	}
	wrong, _ := checkVersion(e, e.trust())
	found = append(found, wrong...)
	for i := range found {
		found[i].Alone = true
	}
	return found
}

// checkStart: all is there that a server is started with.
func checkStart(e *Engine, found *findings) {
	k := kinds[e.Kind]
	if e.URL != "" {
		found.add(urlField(e), urlOfOurs, External)
	}
	if e.Host() == nil {
		found.lacks("host", noHost, e.title())
	}
	switch {
	case InImage(e) && e.Image == "":
		found.lacks("image", noImage, e.title(), k.image)
	case e.Kind == Sim && e.Image != "":
		found.add("image", "The simulated engine is part of the hcl binary and has no image. Remove the argument.")
	}
	if _, err := origin.ParseRef(e.Image); e.Image != "" && err != nil {
		found.add("image", "%v.", err)
	}
	if e.Model == nil && k.needsModel && e.Command == nil {
		found.lacks("model", noModel, e.Kind)
	}
	if k.program == nil && e.Command == nil {
		found.lacks("command", noCommand, e.Kind)
	}
	if Port(e) == 0 {
		found.lacks("port", "hcl does not know where a server of kind %q listens. Give the port.", e.Kind)
	}
}

// checkRepeats: no flag says what an argument says.
func checkRepeats(e *Engine, found *findings) {
	of := func(f Flag, inConfig bool, format string, args ...any) {
		if inConfig {
			found.add("config", format, args...)
		} else {
			found.addKey("flags", f.Name, format, args...)
		}
	}
	if f, inConfig, said := e.meant(setting.Port); said {
		of(f, inConfig, portAmongFlags, f.text())
	}
	if f, inConfig, said := e.meant(setting.Model); said && e.Model != nil {
		of(f, inConfig, "%q repeats what the model argument says. Remove one of them.", f.Name)
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
	if kinds[e.Kind].configFlag == "" && e.Command == nil { // a command of the lab's knows where the file is
		found.add("config", noConfig, e.title())
	}
	if since, reads := ReadsConfig(e); since != "" && !reads && e.Command == nil {
		found.add("config", oldConfig, since, e.Image)
	}
	if f, _, said := e.meant(setting.ConfigFile); said {
		found.add("config", twoConfigs, f.Name, e.Kind)
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
		found.lacks("url", noURL, External)
	} else {
		for _, s := range append([]string{e.URL}, e.URLs...) {
			if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				found.add(urlField(e), badURL, s)
			} else if name, _ := KeyInURL(s); u.User != nil {
				found.add(urlField(e), passwordInURL)
			} else if name != "" {
				found.add(urlField(e), keyInURL, name)
			}
		}
	}
	for _, field := range startedBy(e) {
		found.add(field, notOurs, External, field)
	}
}

var keyName = regexp.MustCompile(`(?i)^(.*[_-])?(api)?(key|token|secret|password|sig|signature)$`)

// KeyInURL is what a url has in it that is kept from others: its name and its value; "" if there is nothing.
func KeyInURL(s string) (name, value string) {
	u, err := url.Parse(s)
	if err != nil {
		return "", ""
	}
	if password, has := u.User.Password(); has {
		return "password", password
	}
	for name, values := range u.Query() {
		if keyName.MatchString(name) {
			return name, strings.Join(values, "&")
		}
	}
	return "", ""
}

// What is said of flags.
const (
	wrongDashes = "%s reads names of flags exactly as they are, and has no %s. Write %s."
	twoNames    = "%[1]s and %[2]s are two names of one flag, and the engine takes the last on its command line, where they stand by " +
		"name: %[2]s. Remove one."
	noWord          = "The flag %s takes a value. Write it: %s = …"
	wordOfSwitch    = "The flag %s is a switch, which takes no value. Write %s = true, without quotes."
	unevenAttention = "With attention in data parallel the %d ranks share the GPUs of tensor parallel, and %[2]d is not a multiple of %[1]d."
)

// checkFlags holds the flags against what the engine's options are.
func checkFlags(e *Engine, found *findings) {
	d := e.dialect()
	if !d.own || e.Command != nil {
		return
	}
	for _, f := range e.Flags {
		if right := e.respelled(d, f.Name); right != "" {
			found.addKey("flags", f.Name, wrongDashes, e.title(), f.Name, right)
			continue
		}
		row, how := d.option(f.Name)
		if row == nil || d.lacks(f.Name) {
			continue // what it takes in other versions says nothing
		}
		value := f.text()
		if f.Value == nil && how != setting.Ambiguous && row.NeedsWord(d.version) {
			found.addKey("flags", f.Name, noWord, f.Name, f.Name)
		}
		if f.Value == nil || value.IsSecret() || strings.Contains(f.Name, ".") {
			continue
		}
		switch m := setting.Means(row); {
		case how != setting.Ambiguous && row.IsSwitch(d.version):
			found.addKey("flags", f.Name, wordOfSwitch, f.Name, f.Name)
		case m.Is(setting.Count):
			if n, err := strconv.Atoi(value.Reveal()); err != nil || n < 1 {
				found.addKey("flags", f.Name, notGPUCount, f.Name, value)
			}
		case m.Is(setting.Share):
			if x, err := strconv.ParseFloat(value.Reveal(), 64); err != nil || !(x > 0 && x <= 1) {
				found.addKey("flags", f.Name, notShare, f.Name, value)
			}
		}
	}
	tp, dp := e.wholeNumber(1, setting.TensorParallel), e.wholeNumber(1, setting.DataParallel)
	if f, _, _ := e.meant(setting.DataParallel); e.Kind == SGLang && e.isOn(setting.DPAttention) && dp > 0 && tp%dp != 0 {
		found.addKey("flags", f.Name, unevenAttention, dp, tp)
	}
	ranks := e.wholeNumber(1, setting.AttentionRanks)
	if f, _, _ := e.meant(setting.AttentionRanks); e.Kind == SGLang && ranks > 0 && tp%ranks != 0 {
		found.addKey("flags", f.Name, unevenAttention, ranks, tp)
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
	if f, inConfig, asks := e.meant(setting.Key); inConfig {
		found.add("config", noKeySent)
	} else if asks {
		found.addKey("flags", f.Name, noKeySent)
	} else if slices.ContainsFunc(e.Env, byEnv) {
		found.addKey("env", k.keyEnv, noKeySent)
	}
}

// uuid is how NVIDIA and AMD name a GPU, or a part of one, wherever it stands.
var uuid = regexp.MustCompile(`^(GPU|MIG)-[0-9A-Za-z/-]+$`)

func checkGPUs(e *Engine, found *findings) {
	for _, id := range e.GPUIDs() {
		if n, err := strconv.Atoi(id); !uuid.MatchString(id) && (err != nil || strconv.Itoa(n) != id) {
			found.add("container.gpu_ids", notGPU, id)
		}
	}
	if e.Host() == nil || e.Host().GPUs.Count == 0 || e.Router {
		return
	}
	h := e.Host()
	there, of := h.GPUs.Count, fmt.Sprintf("host.%s has %s", h.Name, h.GPUs)
	if n := len(e.GPUIDs()); n > 0 {
		there, of = n, fmt.Sprintf("gpu_ids names %d", n)
	}
	seen := map[string]bool{}
	for _, id := range e.GPUIDs() {
		if i, err := strconv.Atoi(id); err == nil && (i < 0 || i >= h.GPUs.Count) {
			found.add("container.gpu_ids", noGPU, id, h.Name, h.GPUs, h.GPUs.Count-1)
		}
		if seen[id] {
			found.add("container.gpu_ids", "gpu_ids names GPU %s twice. Each GPU counts once.", id)
		}
		seen[id] = true
	}
	if need := GPUs(e); need > there && len(e.Placement.front().Hosts) < 2 { // else checkRole adds them up
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

// visible are the variables by which a program sees some of the GPUs.
var visible = []string{visibleCUDA, visibleHIP, "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}

// Doubts are what hardly works, or does not do what it seems to; none of it is certain.
func Doubts(e *Engine) []FieldError {
	var found findings
	k := kinds[e.Kind]
	if port := e.port(); port > 0 && port < 1024 && !ByOthers(e) {
		found.add("port", lowPort)
	}
	for _, v := range e.Env {
		if slices.Contains(visible, v.Name) && len(e.GPUIDs()) == 0 && e.Host() != nil && e.Host().GPUs.Count > 0 && Real(e) {
			found.addKey("env", v.Name, hiddenGPUs, v.Name)
		}
	}
	if e.Command != nil {
		if !ByOthers(e) && len(e.Flags) > 0 {
			found.add("flags", flagsBesideCommand)
		}
		return found
	}
	d := e.dialect()
	told := map[string]string{} // by key: under which name the lab says it
	for _, f := range e.Flags {
		other, twice := told[d.key(f.Name)]
		if row, _ := d.option(f.Name); d.own && row != nil && twice && other != f.Name {
			found.addKey("flags", f.Name, twoNames, other, f.Name)
		}
		told[d.key(f.Name)] = f.Name
	}
	_, unsure := checkVersion(e, e.trust())
	found = append(found, unsure...)
	if !d.own || !setting.IsNewest(d.kind, d.version) || !d.version.Known() && !e.Router {
		d = dialect{} // whose choices are not known
	}
	for _, f := range e.Flags {
		row, how := d.option(f.Name)
		if row != nil && how != setting.Ambiguous && row.Choices != nil && f.Value != nil && !f.Value.IsSecret() && !slices.Contains(row.Choices, f.Value.Reveal()) {
			found.addKey("flags", f.Name, noChoice, f.Name, f.Value, strings.Join(row.Choices, ", "))
		}
	}
	if other := imageOf(e); other != "" {
		found.add("image", imageOfOther, e.Image, other, e.Kind)
	}
	_, said := e.says(setting.Revision)
	if k.needsModel && !k.revisionFlag && !said && e.Build == nil && e.Model != nil && e.Model.Revision != "" {
		found.add("model", noRevision, e.Model.Revision)
	}
	if e.Host() != nil && e.Host().GPUs.Count > 0 && k.needsModel {
		there := e.Host().GPUs.Count
		if n := len(e.GPUIDs()); n > 0 {
			there = n
		}
		if need := GPUs(e); need > 0 && need < there && there%need != 0 {
			found.add("flags", unevenGPUs, need, there)
		}
		used := int64(GPUsUsed(e) * len(e.Placement.front().Hosts))
		if most := used * e.Host().GPUs.Memory(); e.Model != nil && most > 0 && e.Model.Size > most && !e.shrinks() {
			found.add("model", tooLarge, e.Model.Size/1e9, used, e.Host().GPUs.Model, most/1e9)
		}
	}
	return found
}

// shrinks reports whether the engine may load a model that is larger than its GPUs' memory: it builds or quantizes
// the weights, or keeps a part of them elsewhere.
func (e *Engine) shrinks() bool {
	return e.Build != nil || slices.ContainsFunc(e.Flags, func(f Flag) bool {
		return strings.Contains(f.Name, "quant") || strings.Contains(f.Name, "offload")
	})
}
