package origin

import (
	"cmp"
	_ "crypto/sha256" // without it the library knows no digest
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Ref is the name of an image, taken apart as Docker does it.
type Ref struct {
	Registry   string // "docker.io" where none is written
	Repository string // in the registry: "vllm/vllm-openai", "library/debian"
	Tag        string // "" where none is written; Docker takes "latest" then
	Digest     string // "sha256:…"; "" where none is written. Beside it a tag means nothing
}

const latest = "latest"

// ParseRef reads the name of an image: "vllm/vllm-openai:v0.11.0". For what Docker would not take
// the error begins with the name in quotes, and says what to write instead.
func ParseRef(image string) (Ref, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return Ref{}, fmt.Errorf("%q is not the name of an image: %s", image, wrongRef(image))
	}
	r := Ref{Registry: reference.Domain(named), Repository: reference.Path(named)}
	if tagged, ok := named.(reference.Tagged); ok {
		r.Tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		r.Digest = digested.Digest().String()
	}
	if r.Digest != "" && !digestForm.MatchString(r.Digest) {
		return Ref{}, fmt.Errorf("%q is not the name of an image: %s", image, wrongDigest)
	}
	return r, nil
}

const wrongDigest = "a digest is sha256: and 64 hexadecimal digits"

func wrongRef(image string) string {
	name, digest, pinned := strings.Cut(image, "@")
	slash := strings.LastIndex(name, "/")
	repository, tag, tagged := strings.Cut(name[slash+1:], ":")
	repository = name[:slash+1] + repository
	switch {
	case strings.Contains(image, "://"):
		return fmt.Sprintf("leave out %s://", image[:strings.Index(image, "://")])
	case strings.ContainsFunc(image, func(r rune) bool { return r <= ' ' }):
		return "it has a blank in it"
	case pinned && !digestForm.MatchString(digest):
		return wrongDigest
	case tagged && tag == "":
		return "there is no tag after the colon"
	case repository != strings.ToLower(repository):
		return "repositories are written in small letters: " + strings.ToLower(repository)
	}
	return "write [registry/]repository[:tag][@sha256:digest], such as vllm/vllm-openai:v0.11.0"
}

// Name is the image's name without tag and digest, in the short form that Docker
// shows: without the registry where that is Docker Hub.
func (r Ref) Name() string {
	if r.Registry != "docker.io" {
		return r.Registry + "/" + r.Repository
	}
	if short, ok := strings.CutPrefix(r.Repository, "library/"); ok && !strings.Contains(short, "/") {
		return short
	}
	return r.Repository
}

// String is the name in Docker's short form, with the tag and the digest that it has.
func (r Ref) String() string {
	s := r.Name()
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// Exact is the one form of all names that ask for the same image: with the digest,
// or else the tag, and never both.
func (r Ref) Exact() string {
	switch {
	case r.Digest != "":
		r.Tag = ""
	case r.Tag == "":
		r.Tag = latest
	}
	return r.String()
}

// Unpinned is the name of an image without its digest: what it was called before it was pinned.
func Unpinned(image string) string {
	name, _, _ := strings.Cut(image, "@")
	return name
}

// asked is what a registry is asked for: the digest, or else the tag.
func (r Ref) asked() string { return cmp.Or(r.Digest, r.Tag, latest) }

// Pinned reports whether the name can never mean another image: it has a digest.
func (r Ref) Pinned() bool { return r.Digest != "" }

// Floats reports whether the name is meant to become another image: it has neither a
// digest nor a tag other than "latest".
func (r Ref) Floats() bool { return r.Digest == "" && (r.Tag == "" || r.Tag == latest) }
