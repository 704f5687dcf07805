package origin

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
	"github.com/google/go-cmp/cmp"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParseRef(t *testing.T) {
	tests := []struct {
		image       string
		want        Ref
		name, exact string
	}{
		{"vllm/vllm-openai:v0.11.0", Ref{"docker.io", "vllm/vllm-openai", "v0.11.0", ""}, "vllm/vllm-openai", "vllm/vllm-openai:v0.11.0"},
		{"ubuntu", Ref{"docker.io", "library/ubuntu", "", ""}, "ubuntu", "ubuntu:latest"},
		{"docker.io/ubuntu:24.04", Ref{"docker.io", "library/ubuntu", "24.04", ""}, "ubuntu", "ubuntu:24.04"},
		{"docker.io/library/ubuntu:latest", Ref{"docker.io", "library/ubuntu", "latest", ""}, "ubuntu", "ubuntu:latest"},
		{"index.docker.io/a/b", Ref{"docker.io", "a/b", "", ""}, "a/b", "a/b:latest"},
		{"docker.io/library/a/b", Ref{"docker.io", "library/a/b", "", ""}, "library/a/b", "library/a/b:latest"},
		{"nvcr.io/nvidia/tensorrt-llm/release:1", Ref{"nvcr.io", "nvidia/tensorrt-llm/release", "1", ""},
			"nvcr.io/nvidia/tensorrt-llm/release", "nvcr.io/nvidia/tensorrt-llm/release:1"},
		{"localhost/x", Ref{"localhost", "x", "", ""}, "localhost/x", "localhost/x:latest"},
		{"localhost:5000/x", Ref{"localhost:5000", "x", "", ""}, "localhost:5000/x", "localhost:5000/x:latest"},
		{"127.8.9.1:5000/x:y", Ref{"127.8.9.1:5000", "x", "y", ""}, "127.8.9.1:5000/x", "127.8.9.1:5000/x:y"},
		{"[::1]:5000/x", Ref{"[::1]:5000", "x", "", ""}, "[::1]:5000/x", "[::1]:5000/x:latest"},
		{"a/b:c@" + someDigest, Ref{"docker.io", "a/b", "c", someDigest}, "a/b", "a/b@" + someDigest},
		{"a/b@" + someDigest, Ref{"docker.io", "a/b", "", someDigest}, "a/b", "a/b@" + someDigest},
	}
	for _, tt := range tests {
		got, err := ParseRef(tt.image)
		if err != nil {
			t.Errorf("ParseRef(%q): %v", tt.image, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("ParseRef(%q) (-want +got):\n%s", tt.image, diff)
		}
		if got.Name() != tt.name || got.Exact() != tt.exact {
			t.Errorf("%q: name %q, exact %q; want %q, %q", tt.image, got.Name(), got.Exact(), tt.name, tt.exact)
		}
		again, err := ParseRef(got.String())
		if again != got || err != nil {
			t.Errorf("%q is %q, which is %+v, %v", tt.image, got, again, err)
		}
	}
}

func TestParseRefRefuses(t *testing.T) {
	const form = "write [registry/]repository[:tag]"
	tests := map[string]string{
		"": form, "/x": form, "a/../b": form, "a//b": form, "x/": form, "-x": form, "a:b:c": form, "a:-x": form, strings.Repeat("a", 300): form,
		strings.Repeat("0123456789abcdef", 4): form,
		"a b":                                 "a blank", "a:v1\n": "a blank",
		"a:":                                   "no tag after the colon",
		"a@sha256:12":                          "64 hexadecimal digits",
		"a@":                                   "64 hexadecimal digits",
		"a@md5:" + strings.Repeat("0", 32):     "64 hexadecimal digits",
		"a@sha512:" + strings.Repeat("0", 128): "64 hexadecimal digits",
		"vllm/vLLM-OpenAI:v1":                  "in small letters: vllm/vllm-openai",
		"https://docker.io/a/b":                "leave out https://",
		"docker://a/b:c":                       "leave out docker://",
	}
	for image, want := range tests {
		_, err := ParseRef(image)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRef(%q) = %v, want %q", image, err, want)
		}
	}
}

func TestFloats(t *testing.T) {
	for image, want := range map[string]bool{
		"a": true, "a:latest": true, "h:5000/a": true, "h:5000/a:latest": true, "a:v1": false, "h:5000/a:v1": false,
		"a:latest@" + someDigest: false, "a@" + someDigest: false,
	} {
		r, err := ParseRef(image)
		if err != nil || r.Floats() != want {
			t.Errorf("%q floats: %v, %v; want %v", image, r.Floats(), err, want)
		}
		if pinned := strings.Contains(image, "@"); r.Pinned() != pinned {
			t.Errorf("%q is pinned: %v", image, r.Pinned())
		}
	}
}

func TestRegistryURL(t *testing.T) {
	for image, want := range map[string]string{
		"vllm/vllm-openai": "https://registry-1.docker.io", "nvcr.io/a/b": "https://nvcr.io", "registry-1.docker.io/a/b": "https://registry-1.docker.io",
		"localhost:5000/x": "http://localhost:5000", "127.8.9.1:5000/x": "http://127.8.9.1:5000", "[::1]:5000/x": "http://[::1]:5000", "10.0.0.1:5000/x": "https://10.0.0.1:5000",
	} {
		r, err := ParseRef(image)
		if got := base(r.Registry); got != want || err != nil {
			t.Errorf("%q is asked at %s, %v; want %s", image, got, err, want)
		}
	}
}

// FuzzParseRef holds the names that we show against Docker's own reading of them.
func FuzzParseRef(f *testing.F) {
	f.Add("docker.io/library/ubuntu:24.04@" + someDigest)
	f.Add("localhost:5000/a/b_c-d:x")
	f.Fuzz(func(t *testing.T, image string) {
		r, err := ParseRef(image)
		named, wrong := reference.ParseNormalizedNamed(image)
		if err != nil {
			if d, ok := named.(reference.Digested); wrong == nil && !(ok && d.Digest().Algorithm() != "sha256") {
				t.Errorf("ParseRef(%q) = %v; Docker takes it", image, err)
			}
			return
		}
		if got, want := r.String(), reference.FamiliarString(named); got != want {
			t.Errorf("%q is %q, want %q", image, got, want)
		}
		if got, want := r.Name(), reference.FamiliarName(named); got != want {
			t.Errorf("the name of %q is %q, want %q", image, got, want)
		}
	})
}
