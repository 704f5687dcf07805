package agent

import (
	"bytes"
	"context"
	endian "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/origin"
	"hclbench/testhost"
)

// safetensors is a file of one tensor of n bytes.
func safetensors(n int) []byte {
	header := fmt.Sprintf(`{"__metadata__":{"format":"pt"},"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, n, n)
	b := endian.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), bytes.Repeat([]byte{7}, n)...)
}

// sharded are the files of a model in two shards.
func sharded() map[string][]byte {
	return map[string][]byte{
		"config.json":                      []byte(`{"model_type":"test"}`),
		"model.safetensors.index.json":     []byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`),
		"model-00001-of-00002.safetensors": safetensors(3 << 20),
		"model-00002-of-00002.safetensors": safetensors(20_000),
		"pytorch_model.bin":                bytes.Repeat([]byte("b"), 1000),
		"original/consolidated.pth":        []byte("the same once more"),
	}
}

// cacheOf is a cache without patience for a hub's model.
func cacheOf(t *testing.T, hub *testhost.Hub) *modelCache {
	return &modelCache{dir: t.TempDir(), repo: hub.Repo, hub: origin.Hub{URL: hub.URL},
		pause: time.Millisecond, stall: 10 * time.Second, progress: func(ModelProgress) {}}
}

// again is the cache as another run of hcl finds it.
func (m *modelCache) again() *modelCache {
	return &modelCache{dir: m.dir, repo: m.repo, revision: m.revision, hub: m.hub, pause: m.pause, stall: m.stall, progress: m.progress}
}

// TestFetchModel brings a model into a cache as Hugging Face's library lays it out,
// and finds it there the next time, hub or no hub.
func TestFetchModel(t *testing.T) {
	files := sharded()
	hub := testhost.NewHub(t, "127.0.0.1:0", files)
	m := cacheOf(t, hub)
	var last ModelProgress
	m.progress = func(p ModelProgress) { last = p }
	commit, err := m.fetch(t.Context())
	if err != nil || commit != hub.Commit {
		t.Fatalf("fetch = %q, %v", commit, err)
	}
	asked := hub.Asked()
	slices.Sort(asked)
	want := []string{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	root := filepath.Join(m.dir, "hub", "models--org--model")
	var total int64
	for _, name := range want {
		file := filepath.Join(root, "snapshots", commit, name)
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(b, files[name]) {
			t.Errorf("%s is not what the hub has: %v", name, err)
		}
		if to, err := os.Readlink(file); err != nil || to != filepath.Join("..", "..", "blobs", hub.Sum(name)) {
			t.Errorf("%s links to %q, %v", name, to, err)
		}
		total += int64(len(files[name]))
	}
	if b, err := os.ReadFile(filepath.Join(root, "refs", "main")); err != nil || string(b) != commit {
		t.Errorf("refs/main is %q, %v", b, err)
	}
	if last.Total != total || last.Files != 4 {
		t.Errorf("the progress ends with %+v, want %d bytes in 4 files", last, total)
	}
	there := lookIn(t, "", root)
	if err := there.Whole(); err != nil || there.Commit != commit {
		t.Errorf("what was fetched is at commit %q and %v", there.Commit, err)
	}
	if n, size := there.Files(); n != 4 || size != total {
		t.Errorf("what was fetched are %d files of %d bytes", n, size)
	}

	if commit, err := m.again().fetch(t.Context()); err != nil || commit != hub.Commit {
		t.Errorf("again: %q, %v", commit, err)
	}
	check(t, os.WriteFile(filepath.Join(root, "refs", "main"), []byte("another"), 0o644))
	pinned := m.again()
	pinned.revision = hub.Commit
	if _, err := pinned.fetch(t.Context()); err != nil {
		t.Errorf("pinned: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "refs", "main")); err != nil || string(b) != commit {
		t.Errorf("engines that know no revisions would load %q, %v", b, err)
	}
	if asked := hub.Asked(); len(asked) > 0 {
		t.Errorf("asked again for %v", asked)
	}
	alone := m.again()
	alone.hub.URL = "http://127.0.0.1:1"
	if commit, err := alone.fetch(t.Context()); err != nil || commit != hub.Commit {
		t.Errorf("without a hub: %q, %v", commit, err)
	}
	check(t, os.Truncate(filepath.Join(root, "blobs", hub.Sum("model-00002-of-00002.safetensors")), 100))
	if _, err := alone.again().fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "model-00002-of-00002.safetensors has 100 of 20100 bytes") {
		t.Errorf("without a hub and not whole: %v", err)
	}
	if _, err := m.again().fetch(t.Context()); err != nil {
		t.Errorf("mend: %v", err)
	}
	if diff := cmp.Diff([]string{"model-00002-of-00002.safetensors"}, hub.Asked()); diff != "" {
		t.Errorf("mending asked for (-want +got):\n%s", diff)
	}
}

// TestFetchBreaksOff is a hub whose answers end early, then wrongly, then not at
// all: what has come is kept, and what is wrong is not.
func TestFetchBreaksOff(t *testing.T) {
	const shard = "model-00001-of-00002.safetensors"
	files := sharded()
	hub := testhost.NewHub(t, "127.0.0.1:0", files)
	m := cacheOf(t, hub)
	var sent atomic.Int64
	hub.Before(func(w http.ResponseWriter, r *http.Request, name string) bool {
		switch n := sent.Load(); {
		case name != shard:
			return false
		case n == 0: // the first half, then the connection is gone
			sent.Add(1)
			w.Header().Set("Content-Length", strconv.Itoa(len(files[shard])))
			w.Write(files[shard][:2<<20])
			panic(http.ErrAbortHandler)
		case n < 3: // busy
			sent.Add(1)
			w.WriteHeader([]int{0, http.StatusServiceUnavailable, http.StatusTooManyRequests}[n])
			return true
		}
		return false
	})
	if _, err := m.fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, a := range hub.Asked() {
		if strings.HasPrefix(a, shard) {
			asked = append(asked, a)
		}
	}
	if len(asked) != 4 || asked[0] != shard || !strings.HasPrefix(asked[3], shard+"@") || asked[3] == shard+"@0" {
		t.Errorf("asked for %v, want it from the middle in the end", asked)
	}

	// Wrong bytes of the right length are thrown away, once; then it is given up.
	wrong := cacheOf(t, hub)
	hub.Before(func(w http.ResponseWriter, r *http.Request, name string) bool {
		if name != shard {
			return false
		}
		w.Write(bytes.Repeat([]byte("x"), len(files[shard])))
		return true
	})
	_, err := wrong.fetch(t.Context())
	if err == nil || !strings.Contains(err.Error(), "download "+shard+" of org/model: it has another checksum than the hub says") {
		t.Errorf("wrong bytes: %v", err)
	}
	if _, err := os.Stat(wrong.in("blobs", hub.Sum(shard))); err == nil {
		t.Error("wrong bytes have got the file's name")
	}
	if err := lookIn(t, wrong.in("snapshots", hub.Commit), "").Whole(); err == nil {
		t.Error("a model that did not come is whole")
	}

	// A hub that is silent.
	hub.Before(func(w http.ResponseWriter, r *http.Request, name string) bool {
		if name == shard {
			<-r.Context().Done()
		}
		return name == shard
	})
	silent := cacheOf(t, hub)
	silent.stall = 20 * time.Millisecond
	if _, err := silent.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing has come for 20ms") {
		t.Errorf("a silent hub: %v", err)
	}
}

// TestFetchRefused is a model that needs a token, and a disk without room.
func TestFetchRefused(t *testing.T) {
	hub := testhost.NewHub(t, "127.0.0.1:0", sharded())
	m := cacheOf(t, hub)
	hub.Require("hf_s3cret")
	if _, err := m.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "HF_TOKEN") {
		t.Errorf("without a token: %v", err)
	}

	hub.Require("")
	full := cacheOf(t, hub)
	check(t, syscall.Mount("tmpfs", full.dir, "tmpfs", 0, "size=1m"))
	defer syscall.Unmount(full.dir, syscall.MNT_DETACH)
	_, err := full.fetch(t.Context())
	if err == nil || !strings.Contains(err.Error(), "org/model still takes 3.2 MB, and the disk of "+full.dir+" has ") {
		t.Errorf("a full disk: %v", err)
	}
	if asked := hub.Asked(); len(asked) > 0 {
		t.Errorf("asked for %v, although there is no room", asked)
	}
}

// TestFetchAtOnce is two downloads of a model into one cache: the second is told whom
// it waits for and how far that one is, and fetches nothing.
func TestFetchAtOnce(t *testing.T) {
	hub := testhost.NewHub(t, "127.0.0.1:0", sharded())
	first := cacheOf(t, hub)
	first.who = "run r1 of lab l on box, by ada@laptop"
	second := first.again()
	second.who = "somebody else"
	begun, waits := make(chan struct{}), make(chan struct{})
	var once, seen sync.Once
	hub.Before(func(w http.ResponseWriter, r *http.Request, name string) bool {
		once.Do(func() { close(begun) })
		select {
		case <-waits:
		case <-time.After(20 * time.Second): // the second does not wait, and says so below
		}
		return false
	})
	second.progress = func(p ModelProgress) {
		if p.Phase == WaitingFor && p.For == first.who && p.Total > 3<<20 {
			seen.Do(func() { close(waits) })
		}
	}
	fetched := make(chan error, 2)
	go func() {
		_, err := first.fetch(t.Context())
		fetched <- err
	}()
	<-begun
	go func() {
		_, err := second.fetch(t.Context())
		fetched <- err
	}()
	for range 2 {
		check(t, <-fetched)
	}
	select {
	case <-waits:
	default:
		t.Error("nobody was told of the wait")
	}
	if got := len(hub.Asked()); got != 4 {
		t.Errorf("%d files were asked for, want each of 4 once", got)
	}
	if second.at.Phase != Downloading || second.at.For != "" || second.at.Bytes != second.at.Total {
		t.Errorf("the second ends at %+v", second.at)
	}
	if who, err := os.ReadFile(first.in(".hcl-lock")); err != nil || len(who) > 0 {
		t.Errorf("the lock still names %q, %v", who, err)
	}
}

// TestFetchThroughAgent is a download that the caller asks the host's agent for: it
// is told how far it is, what had come when the caller was gone is not fetched again,
// and the token is on no disk and in no log.
func TestFetchThroughAgent(t *testing.T) {
	const shard, token = "model-00001-of-00002.safetensors", "hf_canary9"
	files := sharded()
	hub := testhost.NewHub(t, "127.0.0.1:0", files)
	hub.Require(token)
	var held atomic.Bool
	hub.Before(func(w http.ResponseWriter, r *http.Request, name string) bool {
		if name != shard || !held.CompareAndSwap(false, true) {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(files[shard])))
		w.Write(files[shard][:1<<20])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	dir, cache := shortDir(t), t.TempDir()
	a, _ := serveAs(t, Config{Dir: dir})
	want := Model{Repo: hub.Repo, Cache: cache, Hub: hub.URL, Token: token}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan error, 1)
	go func() {
		_, err := a.FetchModel(ctx, want, func(ModelProgress) {})
		gone <- err
	}()
	part := filepath.Join(cache, "hub/models--org--model/blobs", hub.Sum(shard)+".incomplete")
	limit := time.After(20 * time.Second)
	for {
		if info, err := os.Stat(part); err == nil && info.Size() == 1<<20 {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			t.Fatal("the first MiB has not come within 20 s")
		}
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("FetchModel of a caller that goes = %v", err)
	}
	hub.Asked()

	var first *ModelProgress
	commit, err := a.FetchModel(t.Context(), want, func(p ModelProgress) {
		if first == nil {
			first = &p
		}
	})
	if err != nil || commit != hub.Commit {
		t.Fatalf("FetchModel = %q, %v", commit, err)
	}
	if first == nil || first.Files != 4 || first.Total < 3<<20 || first.Bytes < 1<<20 {
		t.Errorf("the second begins at %+v", first)
	}
	if asked := hub.Asked(); !slices.ContainsFunc(asked, func(a string) bool { return strings.HasPrefix(a, shard+"@") && a != shard+"@0" }) {
		t.Errorf("asked for %v, want the shard from the middle", asked)
	}
	check(t, lookIn(t, "", cachePath(cache, hub.Repo)).Whole())
	for _, root := range []string{cache, dir} {
		filepath.WalkDir(root, func(path string, _ os.DirEntry, _ error) error {
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(token)) {
				t.Errorf("the token is in %s", path)
			}
			return nil
		})
	}
}

// look finds what this machine has of a model.
func lookIn(t *testing.T, dir, cache string) ModelThere {
	t.Helper()
	there, err := findModel(dir, cache, "", func(command string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output()
		return string(out), err
	})
	check(t, err)
	return there
}

// TestModelDiffers: the same model on two hosts is told from another.
func TestModelDiffers(t *testing.T) {
	shard := func(head string) string { return "\x02\x00\x00\x00\x00\x00\x00\x00" + head }
	at := func(change map[string]string) ModelThere {
		dir := t.TempDir()
		files := map[string]string{"config.json": "{}", "a.safetensors": shard("{}"), "README.md": "x"}
		maps.Copy(files, change)
		for name, text := range files {
			check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		return lookIn(t, dir, "")
	}
	whole := at(nil)
	for want, other := range map[string]ModelThere{
		"": at(map[string]string{
			"README.md": "of another length", "notes.txt": "y", "original/params.json": "{}", "onnx/model.bin": "z"}),
		"only one has tokenizer.json":         at(map[string]string{"tokenizer.json": "{}"}),
		"config.json has 2 bytes and 3 bytes": at(map[string]string{"config.json": "{ }"}),
		"a.safetensors has other contents":    at(map[string]string{"a.safetensors": shard("[]")}),
	} {
		if got := whole.Differs(other); got != want {
			t.Errorf("it differs in %q, want %q", got, want)
		}
		if back := other.Differs(whole); (back == "") != (want == "") {
			t.Errorf("%q: seen from the other it differs in %q", want, back)
		}
	}
	if got := (ModelThere{Commit: "a"}).Differs(ModelThere{Commit: "b"}); got != "commit a and commit b" {
		t.Errorf("what was fetched differs in %q", got)
	}
	if got := whole.Differs(lookIn(t, filepath.Join(t.TempDir(), "none"), "")); got != "" {
		t.Errorf("from what is not there yet it differs in %q", got)
	}
	unread, empty := ModelThere{}, lookIn(t, "", cachePath(t.TempDir(), "org/model"))
	for _, other := range []ModelThere{empty, whole, {Commit: "a"}} {
		if got := unread.Differs(other) + other.Differs(unread); got != "" {
			t.Errorf("what could not be read differs in %q from %+v", got, other)
		}
	}
	if got := empty.Differs(ModelThere{Commit: "a"}); got != "" {
		t.Errorf("a cache that is filled later differs in %q from what was fetched", got)
	}
}

// TestModelThere names what is missing of a model and what is cut short.
func TestModelThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a model")
	whole := func(want ...string) {
		t.Helper()
		err := lookIn(t, dir, "").Whole()
		if len(want) == 0 && err != nil {
			t.Errorf("Whole = %v, want none", err)
		}
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("Whole = %v, want %q", err, w)
			}
		}
	}
	whole("there is no " + dir)
	check(t, os.Mkdir(dir, 0o755))
	whole("is empty")
	check(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("#"), 0o644))
	whole("config.json is missing")
	for name, b := range sharded() {
		if !strings.Contains(name, "/") {
			check(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
		}
	}
	whole()
	check(t, os.Truncate(filepath.Join(dir, "model-00001-of-00002.safetensors"), 1<<20))
	check(t, os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")))
	whole("model-00001-of-00002.safetensors has 1048576 of 3145832 bytes", "model-00002-of-00002.safetensors is missing")

	check(t, os.WriteFile(filepath.Join(dir, "model-00002-of-00002.safetensors"), []byte("no"), 0o644))
	whole("model-00002-of-00002.safetensors has no header of safetensors")

	index, err := json.Marshal(map[string]any{"weight_map": map[string]string{"a": "../../etc/passwd"}})
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), index, 0o644))
	whole(`"../../etc/passwd" is not below the model`)
}
