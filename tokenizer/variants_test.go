package tokenizer

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
)

// variant is a tokenizer that differs from the base, the first of the file, in
// the parts that it has.
type variant struct {
	Name  string
	Patch map[string]json.RawMessage
	Cases []struct {
		Text    string
		IDs     []int32
		Decoded string
	}
}

func variants(t *testing.T) (base map[string]json.RawMessage, all []variant) {
	t.Helper()
	f, err := os.Open("../testdata/tokenizers/variants.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(z); d.More(); {
		var v variant
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all[0].Patch, all[1:]
}

// read reads a tokenizer of base with some parts exchanged.
func read(t *testing.T, base, patch map[string]json.RawMessage) (*Tokenizer, error) {
	t.Helper()
	parts := maps.Clone(base)
	maps.Copy(parts, patch)
	text, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return Read(bytes.NewReader(text))
}

// TestVariants holds them against Hugging Face's library: added tokens with
// every option, each behavior of Split, other regular expressions, long runs of marks.
func TestVariants(t *testing.T) {
	base, all := variants(t)
	for _, variant := range all {
		t.Run(variant.Name, func(t *testing.T) {
			tok, err := read(t, base, variant.Patch)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range variant.Cases {
				got := tok.Encode(c.Text)
				if !slices.Equal(got, c.IDs) {
					t.Errorf("Encode(%q)\n got %v\nwant %v", c.Text, got, c.IDs)
				}
				if text := tok.Decode(c.IDs); text != c.Decoded {
					t.Errorf("Decode(%v) = %q, want %q", c.IDs, text, c.Decoded)
				}
			}
		})
	}
}
