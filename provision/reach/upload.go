package reach

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"hclbench/plain"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func uploadSFTP(ctx context.Context, s *ssh.Session, local, remote string, mode fs.FileMode) error {
	from, err := os.Open(local)
	if err != nil {
		return err
	}
	defer from.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stalled := time.AfterFunc(uploadStall, func() {
		stop(fmt.Errorf("nothing has moved for %s: see the host's disk, and the connection to it", uploadStall))
	})
	defer stalled.Stop()
	// The copy ends with ctx by itself and is cleaned up; only a connection on
	// which nothing moves has to be cut.
	done := make(chan struct{})
	defer close(done)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(killDelay):
			s.Close()
		}
	})()

	client, err := startSFTP(s)
	if err == nil {
		defer client.Close()
		moving := &moving{ctxReader{ctx, from}, from, func() { stalled.Reset(uploadStall) }}
		err = putSFTP(client, moving, remote, mode)
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return err
}

func startSFTP(s *ssh.Session) (*sftp.Client, error) {
	w, err := s.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, err := s.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.RequestSubsystem("sftp"); err != nil {
		return nil, fmt.Errorf("start sftp, which sshd needs a Subsystem line for: %w", err)
	}
	client, err := sftp.NewClientPipe(r, w, sftp.UseConcurrentWrites(true))
	if err != nil {
		return nil, fmt.Errorf("start sftp: %w", err)
	}
	return client, nil
}

func putSFTP(client *sftp.Client, from *moving, remote string, mode fs.FileMode) error {
	folder := path.Dir(remote)
	if err := client.MkdirAll(folder); err != nil {
		return fmt.Errorf("make folder: %w", explainSFTP(client, path.Dir(folder), 0, err))
	}
	temp := path.Join(folder, "."+path.Base(remote)+".hcl-"+rand.Text())
	to, err := client.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return explainSFTP(client, folder, 0, err)
	}
	_, err = to.ReadFrom(from)
	if _, ok := client.HasExtension("fsync@openssh.com"); ok && err == nil {
		err = to.Sync()
	}
	err = errors.Join(err, to.Close())
	if err == nil {
		err = client.Chmod(temp, mode)
	}
	if err == nil {
		err = client.PosixRename(temp, remote)
	}
	if err != nil {
		_ = client.Remove(temp) // the first error is the one to tell
		size := int64(0)
		if info, e := from.Stat(); e == nil {
			size = info.Size()
		}
		err = explainSFTP(client, folder, size, err)
	}
	return err
}

// explainSFTP says what is behind a failure for which the protocol has no number: that
// the disk with a folder has no room for as many bytes more, or takes no new file.
func explainSFTP(client *sftp.Client, folder string, size int64, err error) error {
	var status *sftp.StatusError
	if !errors.As(err, &status) || status.FxCode() != sftp.ErrSSHFxFailure {
		return err
	}
	disk, e := client.StatVFS(folder)
	switch {
	case e != nil:
		return err
	case disk.Files > 0 && disk.Favail == 0:
		return fmt.Errorf("the disk with %s is full: it takes no more files (%w)", folder, err)
	case disk.Bavail*disk.Frsize < uint64(max(size, 1)):
		free := plain.Bytes(int64(disk.Bavail * disk.Frsize))
		return fmt.Errorf("the disk with %s is full: it has %s free, of %s that are needed (%w)",
			folder, free, plain.Bytes(size), err)
	}
	return fmt.Errorf("the host does not say why; a quota may be used up (%w)", err)
}

// moving is a file that is read, and says so. It tells the library its size, so that
// that writes several blocks at once.
type moving struct {
	ctxReader
	file  *os.File
	moved func()
}

func (m *moving) Read(p []byte) (int, error) {
	m.moved()
	return m.ctxReader.Read(p)
}

func (m *moving) Stat() (fs.FileInfo, error) { return m.file.Stat() }
