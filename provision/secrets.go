package provision

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/docker/docker/api/types/container"
)

// Everybody who may use Docker on a host can read a container's configuration,
// its environment included, with `docker inspect`. So secrets do not stand there:
// they are copied into the created container as a file, and the first thing that
// runs in it, the hcl binary, reads them, removes the file and becomes the engine.

const (
	secretsBinary = "/.hcl/hcl"     // where the hcl binary appears in a container
	secretsFile   = "/.hcl-env/env" // what it reads and removes
)

// SecretsVerb is the verb of the hcl binary that takes the name of a file with
// NAME=VALUE pairs, each ended by a zero byte, and a command: it removes the file
// and becomes the command with those variables.
const SecretsVerb = "with-env"

// HideSecrets has containers that are started from now on get the secrets among
// their variables by way of the hcl binary at this path of the host, and not in
// what Docker tells of them. Without, they do.
func (c *Conn) HideSecrets(binary string) { c.secrets = binary }

// hideSecrets takes the secrets out of a container's variables, and returns the
// archive that brings them into it; nil when there are none.
func (c *Conn) hideSecrets(ctx context.Context, ct Container) (Container, []byte, error) {
	var pairs bytes.Buffer
	var public []EnvVar
	for _, e := range ct.Env {
		if e.Value.IsSecret() {
			pairs.WriteString(e.Name + "=" + e.Value.Reveal() + "\x00")
		} else {
			public = append(public, e)
		}
	}
	if c.secrets == "" || pairs.Len() == 0 {
		return ct, nil, nil
	}
	if ct.Entrypoint == nil {
		image, err := c.inspectImage(ctx, ct.Image)
		if err != nil {
			return ct, nil, err
		}
		for _, w := range image.Entrypoint {
			ct.Entrypoint = append(ct.Entrypoint, Plain(w))
		}
		if ct.Command == nil {
			for _, w := range image.Cmd {
				ct.Command = append(ct.Command, Plain(w))
			}
		}
	}
	ct.Env = public
	ct.Mounts = append(slices.Clone(ct.Mounts), Mount{Source: c.secrets, Target: secretsBinary, ReadOnly: true})
	ct.Entrypoint = append([]Text{Plain(secretsBinary), Plain(SecretsVerb), Plain(secretsFile)}, ct.Entrypoint...)

	// Whoever the engine runs as must be able to remove the file, so the folder is
	// open to all; in the container there is nobody else.
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: path.Dir(secretsFile)[1:] + "/", Mode: 0o777},
		{Typeflag: tar.TypeReg, Name: secretsFile[1:], Mode: 0o444, Size: int64(pairs.Len())},
	} {
		if err := w.WriteHeader(&h); err != nil {
			return ct, nil, fmt.Errorf("pack the secrets: %w", err)
		}
	}
	if _, err := w.Write(pairs.Bytes()); err != nil {
		return ct, nil, fmt.Errorf("pack the secrets: %w", err)
	}
	if err := w.Close(); err != nil {
		return ct, nil, fmt.Errorf("pack the secrets: %w", err)
	}
	return ct, archive.Bytes(), nil
}

// bringSecrets unpacks the archive in a container that was created.
func (c *Conn) bringSecrets(ctx context.Context, id string, archive []byte) error {
	if archive == nil {
		return nil
	}
	api, err := c.api(ctx)
	if err == nil {
		err = api.CopyToContainer(ctx, id, "/", bytes.NewReader(archive), container.CopyToContainerOptions{})
	}
	if err != nil {
		return fmt.Errorf("bring the secrets into it: %w", err)
	}
	return nil
}
