package docker

import (
	"context"
	"fmt"
	"path"
	"slices"

	"hclbench/origin"
	"hclbench/provision"
)

// Everybody who may use Docker on a host can read a container's configuration,
// its environment included, with `docker inspect`. So secrets do not stand there:
// they are copied into the created container as a file, and the first thing that
// runs in it, the hcl binary, reads them, removes the file and becomes the engine.

const (
	secretsBinary = "/.hcl/hcl" // where the hcl binary appears in a container
	secretsFile   = "env"       // of [provision.FilesDir]: what it reads and removes
)

// SecretsVerb is the verb of the hcl binary that takes the name of a file and a
// command: it removes the file and becomes the command with what stands in it, each
// entry ended by a zero byte: NAME=VALUE is a variable, =N=WORD the command's word N,
// counted from 0.
const SecretsVerb = "with-env"

// HideSecrets has containers that are started from now on get the secrets among
// their variables and in their command by way of the hcl binary at this path of the host, and not in
// what Docker tells of them. Without, they do.
func (d *Daemon) HideSecrets(binary string) { d.secrets = binary }

// hideSecrets takes the secrets out of a container's variables and command, into a
// file of its own.
func (d *Daemon) hideSecrets(ctx context.Context, ct provision.Container) (provision.Container, error) {
	if d.secrets == "" {
		return ct, nil
	}
	var entries []provision.Text
	var public []provision.EnvVar
	for _, e := range ct.Env {
		if e.Value.IsSecret() {
			entries = append(entries, provision.Plain(e.Name+"="), e.Value, provision.Plain("\x00"))
		} else {
			public = append(public, e)
		}
	}
	secret := func(w provision.Text) bool { return w.IsSecret() }
	if len(entries) == 0 && !slices.ContainsFunc(ct.Entrypoint, secret) && !slices.ContainsFunc(ct.Command, secret) {
		return ct, nil
	}
	if ct.Entrypoint == nil {
		ref, err := origin.ParseRef(ct.Image) // an id, "sha256:…", reads as a name with a tag
		if err != nil {
			return ct, err
		}
		image, err := d.Images.inspect(ctx, ref)
		if err != nil {
			return ct, err
		}
		for _, w := range image.Entrypoint {
			ct.Entrypoint = append(ct.Entrypoint, provision.Plain(w))
		}
		if ct.Command == nil {
			for _, w := range image.Cmd {
				ct.Command = append(ct.Command, provision.Plain(w))
			}
		}
	}
	ct.Entrypoint, ct.Command = slices.Clone(ct.Entrypoint), slices.Clone(ct.Command)
	n := 0
	for _, words := range [][]provision.Text{ct.Entrypoint, ct.Command} {
		for i, w := range words {
			if w.IsSecret() {
				entries = append(entries, provision.Plain(fmt.Sprintf("=%d=", n)), w, provision.Plain("\x00"))
				words[i] = provision.Plain(w.String())
			}
			n++
		}
	}
	ct.Env = public
	ct.Mounts = append(slices.Clone(ct.Mounts), provision.Mount{Source: d.secrets, Target: secretsBinary, ReadOnly: true})
	ct.Files = append(slices.Clone(ct.Files), provision.File{Name: secretsFile, Text: provision.Concat(entries...)})
	ct.Entrypoint = append([]provision.Text{provision.Plain(secretsBinary), provision.Plain(SecretsVerb), provision.Plain(path.Join(provision.FilesDir, secretsFile))}, ct.Entrypoint...)
	return ct, nil
}
