package agent

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"hclbench/flow"
	"hclbench/origin"
	"hclbench/plain"
)

const (
	filesAtOnce  = 8               // of a model
	fetchTries   = 6               // of a file, in a row without a byte
	fetchPause   = time.Second     // before the second; it doubles
	fetchStall   = 2 * time.Minute // without a byte: the connection is given up
	moveInterval = 500 * time.Millisecond
	lockPoll     = time.Second // how often a cache is looked at that another download is at work in
)

// modelCache is Hugging Face's cache directory with one model in it:
//
//	hub/models--ORG--NAME/blobs/SUM           the files, by their checksums
//	hub/models--ORG--NAME/snapshots/COMMIT/   links to them, by their names
//	hub/models--ORG--NAME/refs/main           the commit that a branch was last
//
// A file that is on its way is blobs/SUM.incomplete, as in Hugging Face's own
// library, so each goes on where the other stopped.
type modelCache struct {
	dir      string // HF_HOME
	hub      origin.Hub
	repo     string
	revision string // "" is main
	who      string // fetches it, for others who want to

	pause, stall time.Duration
	progress     func(ModelProgress) // called from one goroutine at a time

	mu   sync.Mutex
	at   ModelProgress
	told time.Time
}

func (m *modelCache) in(parts ...string) string {
	return filepath.Join(append([]string{cachePath(m.dir, m.repo)}, parts...)...)
}

func cachePath(dir, repo string) string {
	return path.Join(dir, "hub", "models--"+strings.ReplaceAll(repo, "/", "--"))
}

// ModelFiles asks the hub what a revision of a model is today, "" being main, and
// which of its files engines load. Errors are those of [origin.Hub.Commit].
func ModelFiles(ctx context.Context, hub origin.Hub, repo, revision string) (commit string, files []origin.File, err error) {
	commit = cmp.Or(revision, "main")
	if !isCommit(commit) {
		if commit, err = hub.Commit(ctx, repo, commit); err != nil {
			return "", nil, err
		}
	}
	files, err = hub.Files(ctx, repo, commit)
	return commit, needed(files), err
}

// fetch brings the model into the cache, and returns its commit. What is there, by
// name and size, is not fetched; what is fetched has the hub's checksum. A hub
// that cannot be reached is no error when the model is there and whole.
func (m *modelCache) fetch(ctx context.Context) (commit string, err error) {
	revision := cmp.Or(m.revision, "main")
	commit, files, err := ModelFiles(ctx, m.hub, m.repo, revision)
	if errors.Is(err, origin.ErrNotReachable) && ctx.Err() == nil {
		return m.kept(ctx, err)
	}
	if err != nil {
		return "", err
	}
	for _, dir := range []string{m.in("blobs"), m.in("refs"), m.in("snapshots", commit)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", fmt.Errorf("make the model's cache: %w (the login must be able to write there)", err)
		}
	}
	release, err := m.lock(ctx, files)
	if err != nil {
		return "", err
	}
	defer release()

	missing, err := m.missing(files)
	if err != nil {
		return "", err
	}
	m.at.Phase = Downloading
	m.reportProgress(true)
	if err := m.fits(m.at.Total - m.at.Bytes); err != nil {
		return "", err
	}
	if err := m.download(ctx, commit, missing); err != nil {
		return "", err
	}
	m.reportProgress(true)
	for _, f := range files {
		if err := m.link(commit, f); err != nil {
			return "", err
		}
	}
	// Engines that know no revisions load what main is here, and a lab that says
	// another commit means that.
	for _, ref := range []string{revision, "main"} {
		if isCommit(ref) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(m.in("refs", ref)), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(m.in("refs", ref), []byte(commit), 0o644); err != nil {
			return "", err
		}
	}
	return commit, nil
}

// lock waits until nobody else fetches the model into this cache, be it from another
// machine that shares the disk, and tells whom it waits for and how far that one is.
func (m *modelCache) lock(ctx context.Context, files []origin.File) (release func(), err error) {
	// Who has it stands in the file: for people, so nothing depends on it.
	file := m.in(".hcl-lock")
	lock := flock.New(file, flock.SetPermissions(0o666))
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		ours, err := lock.TryLock()
		if err != nil {
			return nil, fmt.Errorf("lock the model's cache: %w", err)
		}
		if ours {
			break
		}
		who, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("lock the model's cache: %w", err)
		}
		if _, err := m.missing(files); err != nil {
			return nil, err
		}
		m.at.Phase, m.at.For = WaitingFor, cmp.Or(strings.TrimSpace(string(who)), "somebody")
		m.reportProgress(true)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-poll.C:
		}
	}
	if err := os.WriteFile(file, []byte(m.who+"\n"), 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the model's cache: %w", err), lock.Close())
	}
	return func() {
		_ = os.Truncate(file, 0) // the next one says its own
		lock.Close()
	}, nil
}

func isCommit(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*sha1.Size
}

// kept is the commit of the model as it is there, when the hub cannot be asked.
func (m *modelCache) kept(ctx context.Context, why error) (string, error) {
	there, err := findModel("", m.in(), m.revision, func(command string) (string, error) {
		out, err := exec.CommandContext(ctx, "sh", "-c", command).Output()
		return string(out), err
	})
	if err != nil {
		return "", errors.Join(why, err)
	}
	if !isCommit(there.Commit) {
		return "", why
	}
	if err := there.Whole(); err != nil {
		return "", fmt.Errorf("%w, and what is in the cache is not whole: %w", why, err)
	}
	return there.Commit, nil
}

// otherForms are endings of the same weights for other programs than engines.
var otherForms = []string{".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".gguf", ".tflite", ".ot"}

// needed leaves out what engines do not load of a model that has safetensors: the
// same weights once more, in other forms and below "original" and "onnx".
func needed(files []origin.File) []origin.File {
	top := func(f origin.File, pattern string) bool { ok, _ := path.Match(pattern, f.Path); return ok }
	if !slices.ContainsFunc(files, func(f origin.File) bool { return top(f, "*.safetensors") }) {
		return files
	}
	models := slices.ContainsFunc(files, func(f origin.File) bool { return top(f, "model*.safetensors") })
	return slices.DeleteFunc(slices.Clone(files), func(f origin.File) bool {
		return slices.Contains(otherForms, path.Ext(f.Path)) || strings.HasPrefix(f.Path, "original/") || strings.HasPrefix(f.Path, "onnx/") ||
			models && top(f, "consolidated*.safetensors")
	})
}

// missing are the files that are not there. It sets how far the model is.
func (m *modelCache) missing(files []origin.File) (missing []origin.File, err error) {
	m.at, missing, err = compare(files, func(blob string) (int64, error) {
		info, err := os.Stat(m.in("blobs", blob))
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	})
	return missing, err
}

// compare holds a cache against the files that should be in it. size is of a file of
// the cache; its error [fs.ErrNotExist] is none.
func compare(files []origin.File, size func(blob string) (int64, error)) (p ModelProgress, missing []origin.File, err error) {
	seen := map[string]bool{}
	for _, f := range files {
		p.Total += f.Size
		p.Files++
		n, err := size(f.Sum)
		switch {
		case seen[f.Sum] || err == nil && n == f.Size:
			p.Done++
			p.Bytes += f.Size
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return p, nil, err
		}
		seen[f.Sum] = true
		if part, err := size(f.Sum + ".incomplete"); err == nil && part <= f.Size {
			p.Bytes += part
		}
		missing = append(missing, f)
	}
	return p, missing, nil
}

func (m *modelCache) fits(room int64) error {
	if room == 0 {
		return nil
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(m.in("blobs"), &disk); err != nil {
		return fmt.Errorf("ask for room on the disk: %w", err)
	}
	if free := int64(disk.Bavail) * int64(disk.Bsize); free < room {
		return fmt.Errorf("%s still takes %s, and the disk of %s has %s free: make room, or give the model a cache on another disk", m.repo, plain.Bytes(room), m.dir, plain.Bytes(free))
	}
	return nil
}

// download fetches files side by side; the first that cannot be had ends it.
func (m *modelCache) download(ctx context.Context, commit string, files []origin.File) error {
	group, some := errgroup.WithContext(ctx)
	group.SetLimit(filesAtOnce)
	for _, f := range files {
		group.Go(func() error {
			if some.Err() != nil {
				return nil // no file is read again for nothing
			}
			return m.file(some, commit, f)
		})
	}
	return cmp.Or(group.Wait(), context.Cause(ctx))
}

// errSum says that a file is not what the hub says it is.
var errSum = errors.New("it has another checksum than the hub says")

func (m *modelCache) file(ctx context.Context, commit string, f origin.File) error {
	pause, wrong := m.pause, 0
	for try := 1; ; try++ {
		moved, err := m.piece(ctx, commit, f)
		if err == nil {
			m.mu.Lock()
			m.at.Done++
			m.mu.Unlock()
			m.reportProgress(false)
			return nil
		}
		if errors.Is(err, errSum) {
			wrong++
		} else if moved {
			try, pause = 1, m.pause
		}
		last := wrong == 2 || errors.Is(err, origin.ErrAccess) || errors.Is(err, origin.ErrNotFound) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, fs.ErrPermission)
		if ctx.Err() != nil || last || try == fetchTries {
			return fmt.Errorf("download %s of %s: %w", f.Path, m.repo, err)
		}
		if !flow.Pause(ctx, pause) {
			return context.Cause(ctx)
		}
		pause = min(2*pause, 30*time.Second)
	}
}

// sumOf is the checksum that a file's Sum is of.
func sumOf(f origin.File) hash.Hash {
	if len(f.Sum) == hex.EncodedLen(sha256.Size) {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h
}

// piece fetches what is missing of a file over one connection, and gives the file
// its name when it is whole and right. moved says whether anything has come.
func (m *modelCache) piece(ctx context.Context, commit string, f origin.File) (moved bool, err error) {
	whole := m.in("blobs", f.Sum)
	part, err := openPart(whole+".incomplete", f.Size)
	if err != nil {
		return false, err
	}
	defer part.Close()
	sum := sumOf(f)
	have, err := io.Copy(sum, part)
	if err != nil {
		return false, err
	}
	drop := func() error {
		m.move(-have)
		have, sum = 0, sumOf(f)
		_, err := part.Seek(0, io.SeekStart)
		return errors.Join(part.Truncate(0), err)
	}
	if have < f.Size {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		still := time.AfterFunc(m.stall, func() { cancel(fmt.Errorf("%w: nothing has come for %s", origin.ErrNotReachable, m.stall)) })
		defer still.Stop()
		body, at, err := m.hub.Open(ctx, m.repo, commit, f.Path, have)
		if err != nil {
			return false, cmp.Or(context.Cause(ctx), err)
		}
		defer body.Close()
		if at != have {
			if err := drop(); err != nil {
				return false, err
			}
		}
		arrived := written(func(n int) {
			moved = true
			still.Reset(m.stall)
			have += int64(n)
			m.move(int64(n))
		})
		_, err = io.CopyN(io.MultiWriter(part, sum, arrived), body, f.Size-have)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return moved, cmp.Or(context.Cause(ctx), err)
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.Sum {
		return moved, errors.Join(errSum, drop())
	}
	// On the disk before it has its name, which says that it is whole.
	if err := part.Sync(); err != nil {
		return moved, err
	}
	return moved, os.Rename(whole+".incomplete", whole)
}

// openPart opens what has come of a file, which is begun anew when it is larger than the whole: that was not counted.
func openPart(path string, size int64) (*os.File, error) {
	part, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	st, err := part.Stat()
	if err == nil && st.Size() > size {
		err = part.Truncate(0)
	}
	if err != nil {
		part.Close()
		return nil, err
	}
	return part, nil
}

type written func(n int)

func (w written) Write(p []byte) (int, error) { w(len(p)); return len(p), nil }

// link gives a file its name in the snapshot.
func (m *modelCache) link(commit string, f origin.File) error {
	name := m.in("snapshots", commit, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	to, err := filepath.Rel(filepath.Dir(name), m.in("blobs", f.Sum))
	if err != nil {
		return err
	}
	if now, err := os.Readlink(name); err == nil && now == to {
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(to, name)
}

// move counts bytes that have come, or that were for nothing.
func (m *modelCache) move(n int64) {
	m.mu.Lock()
	m.at.Bytes += n
	m.mu.Unlock()
	m.reportProgress(false)
}

// reportProgress passes the progress on, not too often unless it must be now.
func (m *modelCache) reportProgress(now bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now || time.Since(m.told) >= moveInterval {
		m.told = time.Now()
		m.progress(m.at)
	}
}
