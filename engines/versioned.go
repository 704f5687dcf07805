package engines

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hclbench/engines/setting"
	"hclbench/origin"
)

// trust is how far hcl knows which settings an engine has.
type trust int

const (
	certain trust = iota // those of its version
	assumed              // nothing tells the version: those of the newest read
	forked               // a build of others, which may have more and less
)

// makers are the images that the engines' makers publish: what stands in them is what the table was read from.
var makers = regexp.MustCompile(`(^|/)(vllm/vllm-openai(-rocm|-cpu)?|vllm/vllm-router|lmsysorg/sglang(-rocm)?|lmsysorg/sgl-model-gateway)$`)

// unreleased are versions between two that were published: of the day, and candidates.
var unreleased = regexp.MustCompile(`(?i)dev|nightly|rc\d|\d[ab]\d+$|\+g`)

func (e *Engine) trust() trust {
	image, err := origin.ParseRef(e.Image)
	switch known := e.version().Known(); {
	case e.Image != "" && err != nil, strings.HasPrefix(image.Repository, "rocm/"), imageOf(e) != "":
		return forked
	case e.Version == "" && slices.ContainsFunc(e.Setup, installs.MatchString):
		return forked
	case !known, unreleased.MatchString(e.Version), e.Version == "" && unreleased.MatchString(image.Tag):
		return assumed
	case e.Version == "" && !makers.MatchString(image.Repository):
		return forked
	}
	return certain
}

// LeastDriver is the major version of NVIDIA's driver that an engine's image asks for, as far as its makers say: those
// that are built with CUDA 13 need 580. 0: nothing is known.
func LeastDriver(e *Engine) int {
	since := map[string]setting.Version{VLLM: {0, 27, 0}, SGLang: {0, 5, 20}}[e.Kind]
	image, err := origin.ParseRef(e.Image)
	if err != nil || !since.Known() || e.Version != "" || e.trust() != certain || e.version().Before(since) || amdOnly(e.Image) ||
		strings.HasSuffix(image.Repository, "-cpu") || strings.Contains(image.Tag, "cu12") {
		return 0
	}
	return 580
}

// What is said of settings that a version does not take as the lab says them.
const (
	settingGone     = "%s has no %s any more: %s was the last with it.%s"
	settingMayGo    = "No %s after %s has the %s. If this one is newer, it %s.%s"
	settingTakenFor = " It takes it for %s."
	settingNotYet   = "%s has no %s yet: it is there since %s.%s"
	settingIsOld    = "%s takes the %s, and calls it deprecated since %s.%s"
	settingSeveral  = "%s refuses the %s, which is the beginning of several: %s. Write one of them whole."
	settingUnknown  = "hcl knows of no version of %q with the %s.%s"
	settingOfOther  = "hcl knows of no version of %q with the %s, which is one of %q. Here it is called %s."
	settingMisspelt = " Did you mean %s?"
)

// checkVersion holds flags and variables against the engine's version: wrong is what it refuses for sure.
func checkVersion(e *Engine, sure trust) (wrong, doubts findings) {
	d := e.dialect()
	if !d.own || e.Command != nil {
		return nil, nil
	}
	seen := map[string]bool{}
	judge := func(field, key, what, name string) {
		if seen[name] || e.respelled(d, name) != "" { // which [checkFlags] tells
			return
		}
		seen[name] = true
		meant := cmp.Or(setting.Respelled(d.kind, name, d.version), name)
		text, refused := d.judged(what+" "+meant, meant, sure)
		switch {
		case text == "":
		case refused:
			wrong.addKey(field, key, "%s", text)
		default:
			doubts.addKey(field, key, "%s", text)
		}
	}
	for _, f := range e.Flags {
		judge("flags", f.Name, "flag", f.Name)
	}
	if _, reads := ReadsConfig(e); reads {
		for _, f := range configFlags(e) {
			judge("config", "", "member", f.Name)
		}
	}
	for _, v := range e.Env {
		of := dialect{setting.Variables(d.kind), d.version, true}
		if strings.HasPrefix(v.Name, "VLLM_") && d.kind == VLLM || strings.HasPrefix(v.Name, "SGLANG_") && d.kind == SGLang {
			if text, _ := of.judged("variable "+v.Name, v.Name, sure); text != "" {
				doubts.addKey("env", v.Name, "%s", text)
			}
		}
	}
	return wrong, doubts
}

// lacks reports whether a version has a name no more, or not yet, and takes it for nothing else.
func (d dialect) lacks(name string) bool {
	j := setting.Judge(d.kind, name, d.version)
	return j.Could == nil && (j.Fault == setting.Gone || j.Fault == setting.NotYet)
}

// respelled is a name as the engine takes it, where it is one but for underscores and dashes; "": it is right, or none, or
// the engine has not got it for sure.
func (e *Engine) respelled(d dialect, name string) string {
	right := setting.Respelled(d.kind, name, d.version)
	if right != "" && e.trust() == certain && d.lacks(right) {
		return ""
	}
	return right
}

// judged is what is to be said of a name, which what shows, and whether the engine does not start with it for sure.
func (d dialect) judged(what, name string, sure trust) (text string, refused bool) {
	j := setting.Judge(d.kind, name, d.version)
	kind := strings.ReplaceAll(strings.TrimSuffix(d.kind, setting.Variables("")), "_", "-")
	this, instead := kind+" "+d.version.String(), ""
	if !d.version.Known() {
		this = kind
	}
	if j.Instead != "" {
		instead = " Write " + j.Instead + "."
	}
	if d.kind == setting.Variables(SGLang) && j.Fault != setting.Unknown { // its list is not all that it reads
		return "", false
	}
	switch {
	case j.Fault == setting.Unknown:
		if other, here := elsewhere(d.kind, name, d.version); other != "" && !strings.HasSuffix(d.kind, "_router") {
			return fmt.Sprintf(settingOfOther, kind, what, other, here), false
		}
		if j.Instead != "" {
			instead = fmt.Sprintf(settingMisspelt, j.Instead)
		}
		if instead == "" && (sure != certain || !setting.IsRead(d.kind, d.version) || strings.HasSuffix(d.kind, setting.Variables(""))) {
			return "", false
		}
		return fmt.Sprintf(settingUnknown, kind, what, instead), false
	case sure == forked:
		return "", false
	case j.Fault == setting.Several:
		return fmt.Sprintf(settingSeveral, this, what, strings.Join(j.Could, ", ")), sure == certain
	case j.Fault == setting.Gone && sure == certain && j.Could != nil:
		return fmt.Sprintf(settingGone, this, what, j.Version, fmt.Sprintf(settingTakenFor, j.Could[0])+instead), false
	case j.Fault == setting.Gone && sure == certain:
		return fmt.Sprintf(settingGone, this, what, j.Version, instead), true
	case j.Fault == setting.Gone:
		does := "does not know it"
		if j.Could != nil {
			does = "takes it for " + j.Could[0]
		}
		return fmt.Sprintf(settingMayGo, kind, j.Version, what, does, instead), false
	case j.Fault == setting.NotYet && sure == certain:
		return fmt.Sprintf(settingNotYet, this, what, j.Version, instead), true
	case j.Fault == setting.Deprecated && sure == certain:
		return fmt.Sprintf(settingIsOld, this, what, j.Version, instead), false
	}
	return "", false
}

// servedStill is added to what a version refuses and its server runs with all the same.
const servedStill = " This one serves with it, so it is not quite that version."

// ServedSettings is what is said of an engine's settings once it has told its versions, as of [Versions]: as [Check] and
// [Doubts] would have, had they known. Of an image that is not its makers' its version is that of a build of somebody's own.
func ServedSettings(e *Engine, versions map[string]string) (said []string) {
	version := versions[kinds[e.Kind].pkg]
	if e.Version != "" && e.Version == version || CheckVersion(version) != nil {
		return nil
	}
	told := *e
	told.Version = version
	sure := told.trust()
	if image, _ := origin.ParseRef(e.Image); e.trust() == forked || e.Image != "" && e.Version == "" && !makers.MatchString(image.Repository) {
		sure = forked
	}
	wasWrong, wasDoubtful := checkVersion(e, e.trust())
	wrong, doubts := checkVersion(&told, sure)
	for i, f := range append(wrong, doubts...) {
		if slices.Contains(append(wasWrong, wasDoubtful...), f) {
			continue
		}
		if i < len(wrong) {
			f.Detail += servedStill
		}
		said = append(said, f.Detail)
	}
	return said
}
