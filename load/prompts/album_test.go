package prompts

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/sim"
)

// dot is an image of one pixel.
const dot = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="

// photos is a folder with an image, and with what is none.
func photos(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	gif, _ := base64.StdEncoding.DecodeString(dot)
	for name, text := range map[string]string{"dot.gif": string(gif), "text.png": "a text", "torn.png": "\x89PNG\r\n\x1a\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestAlbum: images of lines travel as they are, behind a prompt or where they stand in messages, and requests with
// the same file share its piece.
func TestAlbum(t *testing.T) {
	const uri = "data:image/gif;base64," + dot
	path := written(t, "looks.jsonl", `{"prompt":"a b","image_files":["dot.gif","dot.gif"],"output_tokens":1}
{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"dot.gif"}},{"type":"text","text":"c"},`+
		`{"type":"image_url","image_url":{"url":"http://a/b.png"}},{"type":"image_url","image_url":{"url":"`+uri+`"}}]}],"output_tokens":2}
{"prompt":"d","output_tokens":3}`)
	server := httptest.NewServer(sim.New(sim.Config{}))
	defer server.Close()
	for _, salt := range []bool{false, true} {
		w := load.Workload{Requests: 6, Endpoint: load.Chat,
			Dataset: load.Dataset{Kind: load.JSONL, Path: path, ImageDir: photos(t), Salt: salt}}
		j := job(w)
		j.Target.BaseURL = server.URL
		if err := CheckInputs(j); err != nil {
			t.Fatal(err)
		}
		texts, shared := map[int]string{}, map[*byte]bool{}
		for _, r := range requestsOf(t, j, ForPrompt) {
			if r.Output == 3 {
				continue
			}
			s := look(t, r)
			want := map[int][]string{1: {uri, uri}, 2: {uri, "http://a/b.png", uri}}[r.Output]
			if !slices.Equal(s.images, want) {
				t.Errorf("salt %v: images %q, want %q", salt, s.images, want)
			}
			texts[r.Output] = s.text
			if r.Output == 1 {
				shared[&r.Body[1][0]], shared[&r.Body[3][0]] = true, true
			}
		}
		if len(shared) != 1 {
			t.Errorf("salt %v: the same file is held %d times", salt, len(shared))
		}
		if !strings.HasSuffix(texts[1], "a b") || !strings.HasSuffix(texts[2], "c") || (texts[1] != "a b") != salt {
			t.Errorf("salt %v: texts %v", salt, texts)
		}
	}
}

// TestBadAlbum: an image that is none is told of with its line, before anything is sent.
func TestBadAlbum(t *testing.T) {
	dir := photos(t)
	part := func(url string) string {
		return `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}],"output_tokens":1}`
	}
	for _, c := range []struct{ dir, text, want string }{
		{dir, `{"prompt":"a","image_files":["none.png"],"output_tokens":1}`, `line 1: image: file "none.png": no such file`},
		{dir, `{"prompt":"a","image_files":["text.png"],"output_tokens":1}`, `line 1: image: file "text.png": it is not an image`},
		{dir, `{"prompt":"a","image_files":["torn.png"],"output_tokens":1}`, `line 1: image: file "torn.png": it is not an image: `},
		{dir, `{"prompt":"a","image_files":["../x.png"],"output_tokens":1}`, `line 1: image: file "../x.png": it lies outside of image_dir`},
		{"", `{"prompt":"a","image_files":["dot.gif"],"output_tokens":1}`, `line 1: image: file "dot.gif": write image_dir`},
		{dir, `{"image_files":["dot.gif"],"output_tokens":1}`, `line 1: "image_files" goes with a "prompt"`},
		{dir, part("data:image/png;base64,AAAA"), `line 1: image: message 1, part 2: "data:image/png": it is not an image`},
		{dir, part("data:image/png;base64,!"), `line 1: image: message 1, part 2: "data:image/png;base64,!": illegal base64`},
		{dir, part("data:,x"), `line 1: image: message 1, part 2: "data:,x": it is not a data URI`},
		{dir, part("torn.png"), `line 1: image: message 1, part 2: file "torn.png"`},
	} {
		w := load.Workload{Requests: 1, Endpoint: load.Chat,
			Dataset: load.Dataset{Kind: load.JSONL, Path: written(t, "t.jsonl", c.text), ImageDir: c.dir}}
		if err := CheckInputs(job(w)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestDataURIs: what stands in a data URI, line ends in its base64 and quotes in its parameters, makes no body that is
// not JSON.
func TestDataURIs(t *testing.T) {
	line := `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":` +
		`"data:image/gif;name=\"b\";base64,` + dot[:8] + `\r\n` + dot[8:] + `\n"}}]}],"output_tokens":1}`
	j := job(load.Workload{Requests: 1, Endpoint: load.Chat, OutputTokens: 1,
		Dataset: load.Dataset{Kind: load.JSONL, Path: written(t, "t.jsonl", line)}})
	server := httptest.NewServer(sim.New(sim.Config{}))
	defer server.Close()
	j.Target.BaseURL = server.URL
	if err := CheckInputs(j); err != nil {
		t.Fatal(err)
	}
	want := []string{`data:image/gif;name="b";base64,` + dot}
	if s := look(t, requestsOf(t, j, ForPrompt)[0]); !slices.Equal(s.images, want) {
		t.Errorf("images %q, want %q", s.images, want)
	}
}

// TestOtherImages: images are held against the checksum of their folder before anything is sent.
func TestOtherImages(t *testing.T) {
	dir := t.TempDir()
	lines := ""
	for _, name := range []string{"a.txt", "b/c.txt"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
		lines += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(name)), name)
	}
	j := job(load.Workload{Requests: 1, Endpoint: load.Chat, Dataset: load.Dataset{Kind: load.JSONL,
		Path: written(t, "t.jsonl", `{"prompt":"a","output_tokens":1}`), ImageDir: dir,
		ImageDirSHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(lines)))}})
	if _, err := opened(t, j, true); err != nil || CheckInputs(j) != nil {
		t.Fatalf("%v, %v", err, CheckInputs(j))
	}
	if err := os.WriteFile(filepath.Join(dir, "b", "c.txt"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := opened(t, j, true)
	for _, err := range []error{err, CheckInputs(j)} {
		if err == nil || !strings.Contains(err.Error(), ", not "+j.Workload.Dataset.ImageDirSHA256) {
			t.Errorf("another image: %v", err)
		}
	}
}
