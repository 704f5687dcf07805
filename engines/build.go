package engines

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"hclbench/provision"
)

// buildsDir is where the outputs of builds are kept on a host.
const buildsDir = "~/.cache/hcl/builds/"

// BuildContainer is the container that makes what the engine's build block
// describes, and where on the host its output is kept; ok is false without a block.
// It is the engine's own container, but that it runs the commands, and that the
// output, empty at first, can be written: its last mount, which is to be renamed to
// output when it is whole. The caller names it otherwise where other hosts may build it too.
func BuildContainer(e *Engine) (c provision.Container, output string, ok bool) {
	if e.Build == nil {
		return c, "", false
	}
	c = Container(e)
	c.Image = e.Build.image(e)
	c.Entrypoint = plainWords([]string{"/bin/sh", "-c"})
	// What an earlier attempt has left belongs to the container's user.
	script := "set -e\nfind " + quote(e.Build.Output) + " -mindepth 1 -delete\n" + strings.Join(e.Build.Commands, "\n")
	c.Command = []provision.Text{provision.Plain(script)}
	c.Port = 0
	kept := e.Build.mount(e)
	c.Mounts = append(slices.DeleteFunc(c.Mounts, func(m provision.Mount) bool { return m == kept }),
		provision.Mount{Source: kept.Source + ".part", Target: kept.Target})
	return c, kept.Source, true
}

// Altered is what makes an engine another than its image and its flags are: "setup" whose commands run before the server, a "build" whose
// output it serves, of itself or of the members of a group, "setup and build"; empty: nothing.
func Altered(e *Engine) string {
	recipes := []*Engine{e}
	for _, in := range e.Placement {
		if in.Engine != nil {
			recipes = append(recipes, in.Engine)
		}
	}
	var by []string
	if slices.ContainsFunc(recipes, func(r *Engine) bool { return len(r.Setup) > 0 }) {
		by = append(by, "setup")
	}
	if slices.ContainsFunc(recipes, func(r *Engine) bool { return r.Build != nil }) {
		by = append(by, "build")
	}
	return strings.Join(by, " and ")
}

func (b *Build) image(e *Engine) string { return cmp.Or(b.Image, e.Image) }

// mount is the output in the engine's container.
func (b *Build) mount(e *Engine) provision.Mount {
	return provision.Mount{Source: buildsDir + b.id(e), Target: b.Output, ReadOnly: true}
}

// id tells apart what comes out of a build by what goes into it: the first 48
// bits of a SHA-256, in hex. Secrets count as "(sensitive)".
func (b *Build) id(e *Engine) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n%q\n%q\n%q\n", b.image(e), b.Commands, b.Output, b.Inputs)
	if e.Model != nil {
		fmt.Fprintf(h, "%q %q\n", e.Model.Repo, e.Model.Revision)
	}
	if e.Host() != nil {
		fmt.Fprintf(h, "%q\n", e.Host().GPUs.String())
	}
	for _, v := range e.Env {
		fmt.Fprintf(h, "%q=%q\n", v.Name, v.Value.String())
	}
	if config := e.Config.String(); config != "" {
		fmt.Fprintf(h, "%q\n", config)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
