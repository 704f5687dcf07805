package prompts

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // images of users
	_ "image/png"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hclbench/load"
)

// The bounds of images that are read: of one, and of all that a run keeps.
const (
	maxImage = 64 << 20
	maxAlbum = 1 << 30
)

// album is the images of a data set's lines: those that stand in them as data URIs, and files of its
// folder. Each file is read once, and is one piece of every request that has it.
type album struct {
	dir   string // empty: the data set has none
	keep  bool   // else they are only looked at
	files map[string]picture
	bytes int // that are kept
}

func newAlbum(j load.Job, keep bool) *album {
	dir := j.Workload.Dataset.ImageDir
	if dir != "" {
		dir = fileOf(j, dir)
	}
	return &album{dir: dir, keep: keep, files: map[string]picture{}}
}

// line reads a line of a [load.JSONL] data set, and looks at its images.
func (a *album) line(w load.Workload, raw []byte) (l line, err error) {
	if l, err = parseLine(w, raw); err == nil {
		looked := l
		if wrong := a.illustrate(&looked); wrong != nil {
			err = fmt.Errorf("%w: %w", errImage, wrong)
		}
	}
	return l, err
}

// illustrate gives a line its images.
func (a *album) illustrate(l *line) error {
	switch {
	case len(l.ImageFiles) > 0:
		return a.ask(l)
	case bytes.Contains(l.Messages, []byte(`"image_url"`)):
		return a.frame(l)
	}
	return nil
}

// ask makes a message of a line's text, and its files behind it.
func (a *album) ask(l *line) error {
	b := append([]byte(`[{"role":"user","content":[{"type":"text","text":`), quoted(*l.Prompt)...)
	b = append(b, '}')
	for _, name := range l.ImageFiles {
		one, err := a.file(name)
		if err != nil {
			return err
		}
		l.pictures = append(l.pictures, one)
		b = appendPictureHole(b)
	}
	l.Prompt, l.Messages = nil, append(b, "]}]"...)
	return nil
}

// frame takes the images out of a line's messages, and leaves holes in their places. What the
// engine is to fetch itself stays.
func (a *album) frame(l *line) error {
	var list []map[string]any
	d := json.NewDecoder(bytes.NewReader(l.Messages))
	d.UseNumber() // an integer stays as it was written
	if err := d.Decode(&list); err != nil {
		return plainError(err)
	}
	for i, m := range list {
		parts, _ := m["content"].([]any)
		for k, p := range parts {
			part, _ := p.(map[string]any)
			inner, _ := part["image_url"].(map[string]any)
			url, ok := inner["url"].(string)
			if !ok || part["type"] != "image_url" || strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
				continue
			}
			one, err := a.picture(url)
			if err != nil {
				return fmt.Errorf("message %d, part %d: %w", i+1, k+1, err)
			}
			inner["url"] = pictureMark
			l.pictures = append(l.pictures, one)
		}
	}
	if l.pictures == nil {
		return nil
	}
	text, err := json.Marshal(list)
	l.Messages = text
	return err
}

// picture is the image of a data URI, or of a file of the folder.
func (a *album) picture(url string) (picture, error) {
	if !strings.HasPrefix(url, "data:") {
		return a.file(url)
	}
	kind, data, ok := strings.Cut(url, ";base64,")
	if !ok {
		return nil, fmt.Errorf("%.40q: it is not a data URI in base64", url)
	}
	file, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, fmt.Errorf("%.40q: %w", url, err)
	}
	if _, err := imageKind(file); err != nil {
		return nil, fmt.Errorf("%.40q: %w", kind, err)
	}
	return a.kept(kind, file) // anew: what they were taken out of may have had line ends
}

// file is a file of the folder.
func (a *album) file(name string) (picture, error) {
	if p, known := a.files[name]; known {
		return p, nil
	}
	switch {
	case a.dir == "":
		return nil, fmt.Errorf("file %q: write image_dir in the data set, the folder where it lies", name)
	case !filepath.IsLocal(name):
		return nil, fmt.Errorf("file %q: it lies outside of image_dir", name)
	}
	f, err := os.Open(filepath.Join(a.dir, name))
	if err != nil {
		return nil, fmt.Errorf("file %q: %w", name, errors.Unwrap(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxImage+1))
	if err == nil && len(b) > maxImage {
		err = fmt.Errorf("it has more than %d MiB", maxImage>>20)
	}
	kind := ""
	if err == nil {
		kind, err = imageKind(b)
	}
	if err != nil {
		return nil, fmt.Errorf("file %q: %w", name, err)
	}
	if a.files[name], err = a.kept("data:"+kind, b); err != nil {
		return nil, err
	}
	return a.files[name], nil
}

// kept is an image as one piece: a data URI, whose head says the kind.
func (a *album) kept(head string, file []byte) (picture, error) {
	if !a.keep {
		return picture{}, nil
	}
	if a.bytes += base64.StdEncoding.EncodedLen(len(file)); a.bytes > maxAlbum {
		return nil, fmt.Errorf("the images of the run have more than %d MiB", maxAlbum>>20)
	}
	uri := bytes.TrimSuffix(quoted(head+";base64,"), []byte{'"'})
	return picture{append(base64.StdEncoding.AppendEncode(uri, file), '"')}, nil
}

// checkLines looks at a [load.JSONL] data set and its images as a run does.
func checkLines(j load.Job) error {
	if err := sameImages(j); err != nil {
		return err
	}
	return checkEntries(newAlbum(j, false).line)(j)
}

// sameImages makes sure that the data set's images are those that are meant.
func sameImages(j load.Job) error {
	d := j.Workload.Dataset
	if d.ImageDir == "" || d.ImageDirSHA256 == "" {
		return nil
	}
	is, err := folderSum(fileOf(j, d.ImageDir))
	if err == nil {
		err = sameSum(d.ImageDirSHA256, is)
	}
	if err != nil {
		err = fmt.Errorf("read image_dir %s: %w", filepath.Base(d.ImageDir), err)
	}
	return err
}

// folderSum is the SHA-256 of a folder, in hex, as a lock has it: of the sorted lines "SUM  PATH" of all files in it.
func folderSum(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir) // a link to a folder would be no folder
	if err != nil {
		return "", err
	}
	all := sha256.New()
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || e.IsDir():
			return err
		case name == dir:
			return errors.New("it is not a folder")
		}
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			return err // a pipe would be waited for
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		one := sha256.New()
		if _, err := io.Copy(one, f); err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		fmt.Fprintf(all, "%x  %s\n", one.Sum(nil), filepath.ToSlash(rel))
		return err
	})
	return hex.EncodeToString(all.Sum(nil)), err
}

// imageKind is the media type of an image. Those that the standard library reads have to have a sound header.
func imageKind(b []byte) (string, error) {
	kind := http.DetectContentType(b)
	if !strings.HasPrefix(kind, "image/") {
		return "", errors.New("it is not an image")
	}
	if slices.Contains([]string{"image/png", "image/jpeg", "image/gif"}, kind) {
		if _, _, err := image.DecodeConfig(bytes.NewReader(b)); err != nil {
			return "", fmt.Errorf("it is not an image: %w", err)
		}
	}
	return kind, nil
}
