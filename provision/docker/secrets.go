package docker

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	"hclbench/origin"
	"hclbench/provision"
)

// Everybody who may use Docker on a host can read a container's configuration, its
// environment included, with `docker inspect`, and files that were copied into it. So
// secrets stand in neither: the first thing that runs in the container, the hcl binary,
// reads them from its standard input and becomes the engine.

// secretsBinary is where the hcl binary appears in a container.
const secretsBinary = "/.hcl/hcl"

// SecretsVerb is the verb of the hcl binary that takes a command, and becomes it with
// what it reads on its standard input, each entry ended by a zero byte: NAME=VALUE is a
// variable, =N=WORD the command's word N, counted from 0. An empty entry ends them.
const SecretsVerb = "with-env"

// HideSecrets has containers that are started from now on get the secrets among
// their variables and in their command by way of the hcl binary at this path of the
// host, and not in what Docker tells of them. Without, they do.
func (d *Daemon) HideSecrets(binary string) { d.secrets = binary }

// hideSecrets takes the secrets out of a container's variables and command. They are
// returned as the hcl binary reads them, "" where there are none.
func (d *Daemon) hideSecrets(ctx context.Context, ct provision.Container) (provision.Container, string, error) {
	isSecret := func(w provision.Text) bool { return w.IsSecret() }
	isHidden := func(e provision.EnvVar) bool { return e.Value.IsSecret() }
	if d.secrets == "" || !slices.ContainsFunc(ct.Env, isHidden) &&
		!slices.ContainsFunc(ct.Entrypoint, isSecret) && !slices.ContainsFunc(ct.Command, isSecret) {
		return ct, "", nil
	}
	var entries string
	for _, e := range ct.Env {
		if isHidden(e) {
			entries += e.Name + "=" + e.Value.Reveal() + "\x00"
		}
	}
	ct.Env = slices.DeleteFunc(slices.Clone(ct.Env), isHidden)
	words, err := d.words(ctx, ct)
	if err != nil {
		return ct, "", err
	}
	for n, w := range words {
		if w.IsSecret() {
			entries += fmt.Sprintf("=%d=%s\x00", n, w.Reveal())
			words[n] = provision.Plain(w.String())
		}
	}
	ct.Entrypoint = append([]provision.Text{provision.Plain(secretsBinary), provision.Plain(SecretsVerb)}, words...)
	ct.Command = nil
	ct.Mounts = append(slices.Clone(ct.Mounts),
		provision.Mount{Source: d.secrets, Target: secretsBinary, ReadOnly: true})
	return ct, entries + "\x00", nil
}

// words are what a container runs, of its own or of its image.
func (d *Daemon) words(ctx context.Context, ct provision.Container) ([]provision.Text, error) {
	if ct.Entrypoint != nil {
		return slices.Concat(ct.Entrypoint, ct.Command), nil
	}
	ref, err := origin.ParseRef(ct.Image) // an id, "sha256:…", reads as a name with a tag
	if err != nil {
		return nil, err
	}
	image, err := d.Images.inspect(ctx, ref)
	if err != nil {
		return nil, err
	}
	words := plainTexts(image.Entrypoint)
	if ct.Command == nil {
		return append(words, plainTexts(image.Cmd)...), nil
	}
	return append(words, ct.Command...), nil
}

func plainTexts(words []string) (texts []provision.Text) {
	for _, w := range words {
		texts = append(texts, provision.Plain(w))
	}
	return texts
}

// stdin is the standard input of a container that was created. The library would take
// over a connection for it, and not ask us for that.
func (d *Daemon) stdin(ctx context.Context, id string) (net.Conn, error) {
	api, err := d.api(ctx)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("http://docker/v%s/containers/%s/attach?stream=1&stdin=1", api.ClientVersion(), id)
	ask, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	ask.Header.Set("Connection", "Upgrade")
	ask.Header.Set("Upgrade", "tcp")
	conn, err := d.way.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var answer *http.Response
	if err = ask.Write(conn); err == nil {
		answer, err = http.ReadResponse(bufio.NewReader(conn), ask)
	}
	if err == nil && answer.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("the Docker daemon does not take its standard input: %s", answer.Status)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
