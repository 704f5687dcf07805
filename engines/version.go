package engines

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hclbench/engines/setting"
	"hclbench/origin"
)

// The version of an engine stands in the tag of its image, where it does at all: "v0.5.3.post1-cu126" of the images
// whose makers tag them so, under whichever registry they are mirrored, and "rocm6.3.1_instinct_vllm0.7.3_20250311" of
// all others. "corp/vllm:0.3.0" may be the third build of somebody's own.
var (
	versionInTag = regexp.MustCompile(`(?:vllm|sglang)[-_]?v?(\d+\.\d+(?:\.\d+)?(?:\.(?:post)?\d+)?)`)
	versionAtTag = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:\.(?:post)?\d+)?)`)
	taggedSo     = regexp.MustCompile(`(^|/)(vllm-openai(-rocm|-cpu)?|lmsysorg/sglang(-rocm)?|rocm/sgl-dev|tensorrt-llm/release|` +
		`vllm/vllm-router|lmsysorg/(sgl-model-gateway|sgl-router|sglang-router))$`)
)

// versionForm is a version as people and packages write it: "0.7.3", "v0.11",
// "0.7.4.dev181+gf35f8e22".
var versionForm = regexp.MustCompile(`^v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.+-].*|[a-z]+\d+.*)?$`)

// CheckVersion reports a text that is no version.
func CheckVersion(s string) error {
	if !versionForm.MatchString(s) {
		return fmt.Errorf("%q is not a version", s)
	}
	return nil
}

// version is the engine's version, as far as the lab or the tag of the image tells; zero: neither does.
// A router may be in the image of an engine, whose version is not its own.
func (e *Engine) version() setting.Version {
	if e.Version != "" {
		return setting.ParseVersion(strings.TrimPrefix(e.Version, "v"))
	}
	image, err := origin.ParseRef(e.Image)
	ofEngine := e.Router && !routerImage.MatchString(e.Image)
	if err != nil || ofEngine || slices.ContainsFunc(e.Setup, installs.MatchString) {
		return setting.Version{}
	}
	m := versionInTag.FindStringSubmatch(image.Tag)
	if m == nil && taggedSo.MatchString(image.Repository) {
		m = versionAtTag.FindStringSubmatch(image.Tag)
	}
	if m == nil {
		return setting.Version{}
	}
	return setting.ParseVersion(m[1])
}

var routerImage = regexp.MustCompile(`router|gateway`)

// before reports whether the engine is known to be of an earlier version. One whose
// version nothing tells is taken for a new one.
func (e *Engine) before(major, minor, patch int) bool {
	return e.version().Before(setting.Version{major, minor, patch})
}

// installs matches a command that puts another version of an engine in place.
var installs = regexp.MustCompile(`\b(?:pip3?|uv pip)\b.*\binstall\b.*\b(vllm|sglang|tensorrt[-_]llm)\b`)

// VersionUnknown says why the version of an engine cannot be told, which decides how its
// offline benchmark is started; empty: it can, or nothing hangs on it.
func VersionUnknown(e *Engine) string {
	if e.Version != "" || len(e.OfflineCommand) > 0 || !kinds[e.Kind].startsDiffer {
		return ""
	}
	if slices.ContainsFunc(e.Setup, installs.MatchString) {
		return "setup puts another version of the engine in place of the image's"
	}
	if !e.version().Known() {
		return fmt.Sprintf("the tag of the image %s does not tell its version", e.Image)
	}
	return ""
}

// versionsScript writes a JSON object with the versions of what an engine is made
// of to the file that it is told. It imports none of it, so that it touches no GPU.
//
//go:embed versions.py
var versionsScript string

// VersionsFile is where the command of [Versions] writes, in the container.
const VersionsFile = "/tmp/hcl-versions.json"

// Versions is the command that finds out, inside the engine's container, the
// versions of the engine and of what it is made of; nil: the kind has none to tell.
func Versions(e *Engine) []string {
	if !kinds[e.Kind].needsModel {
		return nil
	}
	return []string{"python3", "-c", versionsScript, VersionsFile}
}

// OwnVersion is the name that an engine's own version has among [Versions], and the paths at which its server tells it as
// the member "version", the newest first; nil: it does not.
func OwnVersion(e *Engine) (name string, paths []string) {
	return kinds[e.Kind].pkg, kinds[e.Kind].version
}

// ReadVersions reads what the command of [Versions] has written: by name, such as
// "vllm", "torch", "cuda", "nccl". What is not installed is not there.
func ReadVersions(text []byte) (map[string]string, error) {
	var versions map[string]string
	if err := json.Unmarshal(text, &versions); err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	return versions, nil
}
