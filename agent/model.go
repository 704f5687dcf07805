package agent

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/base64"
	endian "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision/reach"
)

// Model is one that a host is to have.
type Model struct {
	Repo     string `json:"repo"`
	Revision string `json:"revision,omitempty"` // empty: main
	Cache    string `json:"cache"`              // Hugging Face's cache directory on the host; "~/" is below the home
	Hub      string `json:"hub,omitempty"`      // URL; empty: [origin.HuggingFace]
	Token    string `json:"token,omitempty"`    // for the hub; it is kept nowhere
	Agent    string `json:"user_agent,omitempty"`
}

// ModelProgress is how far a model's download is. What was there counts as done.
type ModelProgress struct {
	Bytes int64  `json:"bytes"`
	Total int64  `json:"total"`
	Files int    `json:"files"`
	Done  int    `json:"done"`          // files
	Phase string `json:"phase"`         // [Downloading] or [WaitingFor]
	For   string `json:"for,omitempty"` // who fetches the model meanwhile, when we wait
}

// The phases of a download.
const (
	Downloading = "downloading"
	WaitingFor  = "waiting" // for somebody else's download of the same model
)

// modelEvent is one line of the answer; the last has a commit or an error.
type modelEvent struct {
	Progress *ModelProgress `json:"progress,omitempty"`
	Commit   string         `json:"commit,omitempty"`
	Error    string         `json:"error,omitempty"`
}

// fetchModel brings a model to the host and tells how far it is; it ends with its
// request, and keeps what has come.
func (s *server) fetchModel(w http.ResponseWriter, r *http.Request) error {
	var want Model
	if err := read(r, &want); err != nil {
		return err
	}
	if !filepath.IsAbs(want.Cache) {
		return fail(http.StatusBadRequest, "%q is not an absolute path", want.Cache)
	}
	enc, flush := json.NewEncoder(w), http.NewResponseController(w)
	tell := func(e modelEvent) {
		enc.Encode(e) // an error here is the caller gone, which ends the request
		flush.Flush()
	}
	m := modelCache{
		dir: want.Cache, repo: want.Repo, revision: want.Revision, who: s.lessor.holder(),
		hub:   origin.Hub{Client: origin.Client{UserAgent: want.Agent}, URL: want.Hub, Token: want.Token},
		pause: fetchPause, stall: fetchStall,
		progress: func(p ModelProgress) { tell(modelEvent{Progress: &p}) },
	}
	s.Log.Info("fetching", "model", want.Repo, "cache", want.Cache)
	commit, err := m.fetch(r.Context())
	if err != nil {
		why := plain.NewSecrets(want.Token).Hide(err.Error())
		s.Log.Warn("fetching", "model", want.Repo, "err", why)
		tell(modelEvent{Error: why})
		return nil
	}
	tell(modelEvent{Commit: commit})
	return nil
}

// atHome is a path that may begin with the home, on a host with that home.
func atHome(home, p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return path.Join(home, rest)
	}
	return p
}

// FetchModel brings a model to the host, and returns its commit. A download that
// breaks off, be it for the hub's connection or ours, goes on where it was. The
// token goes to the hub, and is kept nowhere.
func (a *Client) FetchModel(ctx context.Context, m Model, progress func(ModelProgress)) (commit string, err error) {
	m.Cache = atHome(a.home, m.Cache)
	var last modelEvent
	most := int64(-1)
	err = a.persist(ctx, func() (more bool, err error) {
		before := most
		last, err = a.fetchModel(ctx, m, func(p ModelProgress) { most = max(most, p.Bytes); progress(p) })
		return most > before, err
	})
	switch {
	case err != nil:
		return "", cmp.Or(context.Cause(ctx), err)
	case last.Error != "":
		return "", fmt.Errorf("%s: %s", a.host, last.Error)
	}
	return last.Commit, nil
}

func (a *Client) fetchModel(ctx context.Context, m Model, progress func(ModelProgress)) (modelEvent, error) {
	resp, err := a.open(ctx, "POST", "/v1/models", m)
	if err != nil {
		return modelEvent{}, err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var e modelEvent
		if err := dec.Decode(&e); err != nil {
			return e, fmt.Errorf("agent on %s: the answer broke off: %w", a.host, err)
		}
		if e.Progress == nil {
			return e, nil
		}
		progress(*e.Progress)
	}
}

// modelScript prints what a host has of a model. Its arguments are a directory, or
// instead a cache and a revision.
//
//go:embed modelcheck.sh
var modelScript string

// ModelThere is what a host has of a model.
type ModelThere struct {
	Dir    string // where it is, or would be
	Commit string // in a cache: that the revision was when it was last asked for
	Mount  string // of the disk that it is on; "": not known
	Free   int64  // bytes there

	exists bool
	blobs  map[string]int64  // of a cache, with their sizes
	files  map[string]int64  // of the directory, by their paths below it
	text   map[string][]byte // of the directory: indexes, and headers of safetensors
}

// ModelIn looks at a directory of the host that should hold a model. A path that
// begins with "~/" is below the home. Nothing is changed there.
func ModelIn(ctx context.Context, c *reach.Conn, dir string) (ModelThere, error) {
	return lookForModel(ctx, c, dir, "", "")
}

// ModelInCache looks at Hugging Face's cache directory on the host for a revision of
// a model; "" is main. Paths are those of [ModelIn].
func ModelInCache(ctx context.Context, c *reach.Conn, cache, repo, revision string) (ModelThere, error) {
	return lookForModel(ctx, c, "", cachePath(cache, repo), revision)
}

func lookForModel(ctx context.Context, c *reach.Conn, dir, cache, revision string) (ModelThere, error) {
	m, err := findModel(atHome(c.Home(), dir), atHome(c.Home(), cache), revision, func(command string) (string, error) { return c.Run(ctx, command, nil) })
	if err != nil {
		return m, fmt.Errorf("look at the model: %w", err)
	}
	return m, nil
}

// findModel has the script run where the model should be.
func findModel(dir, cache, revision string, run func(command string) (string, error)) (ModelThere, error) {
	out, err := run("set -- " + plain.Quote(dir) + " " + plain.Quote(cache) + " " + plain.Quote(cmp.Or(revision, "main")) + "\n" + modelScript)
	if err != nil {
		return ModelThere{}, err
	}
	m := ModelThere{blobs: map[string]int64{}, files: map[string]int64{}, text: map[string][]byte{}}
	for line := range strings.Lines(out) {
		kind, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		first, rest, _ := strings.Cut(value, " ")
		name := strings.TrimPrefix(rest, "./")
		var err error
		switch kind {
		case "commit":
			m.Commit = value
		case "disk":
			if m.Mount = rest; rest != "" {
				m.Free, err = strconv.ParseInt(first, 10, 64)
				m.Free <<= 10
			}
		case "dir":
			m.Dir = value
		case "there":
			m.exists = true
		case "blob":
			m.blobs[name], err = strconv.ParseInt(first, 10, 64)
		case "file":
			m.files[name], err = strconv.ParseInt(first, 10, 64)
		case "text":
			m.text[name], err = unpack(first)
		}
		if err != nil {
			return m, fmt.Errorf("read %s: %w", kind, err)
		}
	}
	return m, nil
}

// maxText is what the safetensors library takes for a header at most, and room for an index.
const maxText = 100_000_008

func unpack(packed string) ([]byte, error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, maxText))
}

// Files counts the files of the model, and their bytes.
func (m ModelThere) Files() (n int, size int64) {
	for _, s := range m.files {
		size += s
	}
	return len(m.files), size
}

// Known reports whether it is known what will be loaded: what is there, or what was fetched. What
// is not there yet is fetched later, and a cache that cannot be read may hold anything.
func (m ModelThere) Known() bool {
	return m.exists || m.Commit != "" && m.Dir == ""
}

// Differs says in what a model is another than one on another host: its commit, or in a
// directory the size or header of a file that is loaded; empty: in nothing that shows.
func (m ModelThere) Differs(other ModelThere) string {
	loaded := func(name string) bool { // what others use lies in directories below
		kinds := []string{".safetensors", ".bin", ".gguf", ".json", ".model"}
		return !strings.Contains(name, "/") && slices.Contains(kinds, path.Ext(name))
	}
	switch {
	case !m.Known() || !other.Known():
		return ""
	case m.Commit != other.Commit:
		return fmt.Sprintf("commit %s and commit %s", m.Commit, other.Commit)
	case m.Commit != "":
		return ""
	}
	both := maps.Clone(m.files)
	maps.Copy(both, other.files)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		here, isHere := m.files[name]
		there, isThere := other.files[name]
		switch {
		case !loaded(name):
		case isHere != isThere:
			return "only one has " + name
		case here != there:
			return fmt.Sprintf("%s has %d bytes and %d bytes", name, here, there)
		case !bytes.Equal(m.text[name], other.text[name]):
			return name + " has other contents"
		}
	}
	return ""
}

// Whole says what is missing of a model by what it says of itself: what describes
// it, as config.json does, and every file that an index names must be there, and
// every file of safetensors be as long as its own header says. A directory without
// an index or weights that it knows is only looked for.
func (m ModelThere) Whole() error {
	if !m.exists {
		return fmt.Errorf("there is no %s on the host", m.Dir)
	}
	if len(m.files) == 0 {
		return fmt.Errorf("%s is empty", m.Dir)
	}
	weights := map[string]bool{}
	var wrong []error
	described := false
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		switch {
		case strings.Contains(name, "/"):
		case name == "config.json" || name == "params.json" || path.Ext(name) == ".gguf":
			described = true
		case path.Ext(name) == ".safetensors":
			weights[name] = true
		case strings.HasSuffix(name, ".index.json") && m.text[name] != nil:
			shards, err := shardsOf(m.text[name])
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
			}
			for _, s := range shards {
				weights[s] = true
			}
		}
	}
	if !described {
		wrong = append(wrong, errors.New("config.json is missing"))
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		size, there := m.files[name]
		if !there {
			wrong = append(wrong, fmt.Errorf("%s is missing", name))
		} else if err := checkWeights(name, size, m.text[name]); err != nil {
			wrong = append(wrong, fmt.Errorf("%s %w", name, err))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	const most = 5
	if more := len(wrong) - most; more > 0 {
		wrong = append(wrong[:most], fmt.Errorf("and %d more", more))
	}
	return fmt.Errorf("%s is not whole: %w", m.Dir, errors.Join(wrong...))
}

// Missing are those of a model's files that a cache does not have, and how far that makes it.
func (m ModelThere) Missing(files []origin.File) (p ModelProgress, missing []origin.File) {
	p, missing, _ = compare(files, func(blob string) (int64, error) {
		if size, there := m.blobs[blob]; there {
			return size, nil
		}
		return 0, fs.ErrNotExist
	})
	return p, missing
}

func shardsOf(index []byte) ([]string, error) {
	var is struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &is); err != nil {
		return nil, err
	}
	if len(is.WeightMap) == 0 {
		return nil, errors.New("it names no files")
	}
	shards := slices.Sorted(maps.Values(is.WeightMap))
	for _, s := range shards {
		if !filepath.IsLocal(s) {
			return nil, fmt.Errorf("%q is not below the model", s)
		}
	}
	return slices.Compact(shards), nil
}

// checkWeights holds a file's size against its header. The form is 8 bytes with the header's
// length, the header, then the tensors (https://huggingface.co/docs/safetensors, "Format").
func checkWeights(name string, size int64, head []byte) error {
	if path.Ext(name) != ".safetensors" {
		if size == 0 {
			return errors.New("is empty")
		}
		return nil
	}
	var length uint64
	header := map[string]json.RawMessage{}
	if endian.Read(bytes.NewReader(head), endian.LittleEndian, &length) != nil || length > uint64(len(head)-8) || json.Unmarshal(head[8:8+length], &header) != nil {
		return errors.New("has no header of safetensors")
	}
	delete(header, "__metadata__")
	var end int64
	for name, text := range header {
		var tensor struct {
			DataOffsets [2]int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(text, &tensor); err != nil {
			return fmt.Errorf("has a header with an odd tensor %q", name)
		}
		end = max(end, tensor.DataOffsets[1])
	}
	if want := 8 + int64(length) + end; size != want {
		return fmt.Errorf("has %d of %d bytes", size, want)
	}
	return nil
}
