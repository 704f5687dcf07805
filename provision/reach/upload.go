package reach

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"hclbench/provision"
)

// uploadScript makes a file of its stdin, whole or not at all. A caller that is killed, or
// whose connection is lost, leaves nothing.
//
//go:embed upload.sh
var uploadScript string

// Upload copies the local file to the host, whole or not at all. A remote path that begins with
// "~/" is below [Conn.Home]; its folder is created when it is missing.
func (c *Conn) Upload(ctx context.Context, local, remote string, mode fs.FileMode) error {
	if rest, ok := strings.CutPrefix(remote, "~/"); ok {
		remote = path.Join(c.home, rest)
	}
	if err := c.upload(ctx, local, remote, mode); err != nil {
		return provision.Wrap(c.host, fmt.Sprintf("upload %s to %s", local, remote), err)
	}
	return nil
}

func (c *Conn) upload(ctx context.Context, local, remote string, mode fs.FileMode) error {
	from, err := os.Open(local)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stalled := time.AfterFunc(uploadStall, func() {
		stop(fmt.Errorf("nothing has moved for %s: see the host's disk, and the connection to it", uploadStall))
	})
	defer stalled.Stop()
	folder, name := path.Dir(remote), "."+path.Base(remote)+".hcl-"+rand.Text()
	command := "set -- " + Words([]string{
		folder, remote, path.Join(folder, name), fmt.Sprintf("%o", mode.Perm()), fmt.Sprint(info.Size()),
	}) + "\n" + uploadScript
	stderr := &tail{most: maxStderr}
	err = c.link.Run(ctx, command, &moving{from, func() { stalled.Reset(uploadStall) }}, io.Discard, stderr)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	if said := LastLines(stderr.String(), stderrTail); said != "" && errors.As(err, new(*CommandError)) {
		return errors.New(said)
	}
	return err
}

// moving is a file that is read, and says so.
type moving struct {
	io.Reader
	moved func()
}

func (m *moving) Read(p []byte) (int, error) {
	m.moved()
	return m.Reader.Read(p)
}
