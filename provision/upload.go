package provision

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// uploadSFTP copies a file over one session with sshd's file transfer.
func uploadSFTP(ctx context.Context, s *ssh.Session, local, remote string, mode fs.FileMode) error {
	from, err := os.Open(local)
	if err != nil {
		return err
	}
	defer from.Close()
	w, err := s.StdinPipe()
	if err != nil {
		return err
	}
	r, err := s.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.RequestSubsystem("sftp"); err != nil {
		return fmt.Errorf("start sftp, which sshd needs a Subsystem line for: %w", err)
	}
	client, err := sftp.NewClientPipe(r, w, sftp.UseConcurrentWrites(true))
	if err != nil {
		return fmt.Errorf("start sftp: %w", err)
	}
	defer client.Close()
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

	err = putSFTP(ctx, client, from, remote, mode)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return err
}

func putSFTP(ctx context.Context, client *sftp.Client, from *os.File, remote string, mode fs.FileMode) error {
	if err := client.MkdirAll(path.Dir(remote)); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	temp := path.Join(path.Dir(remote), "."+path.Base(remote)+".hcl-"+rand.Text())
	to, err := client.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = to.ReadFrom(&sized{ctxReader{ctx, from}, from})
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
	}
	return err
}

// sized tells the library the size, so that it writes several blocks at once.
type sized struct {
	ctxReader
	file *os.File
}

func (s *sized) Stat() (fs.FileInfo, error) { return s.file.Stat() }
