package tokenizer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// vector is a text and the ids that Hugging Face's library makes of it.
type vector struct {
	Text string  `json:"text"`
	IDs  []int32 `json:"ids"`
}

// families are the tokenizers in testdata, and whether decoding an encoding
// returns the text that was encoded.
var families = []struct {
	name      string
	roundTrip bool
}{
	{"deepseek", true},
	{"llama3", true},
	{"qwen2", false}, // normalizes
}

// shaped is a tokenizer.json of a family.
func shaped(t testing.TB, family string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../testdata/tokenizers", family+"-shaped.json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func load(t testing.TB, family string) *Tokenizer {
	t.Helper()
	got, err := Read(bytes.NewReader(shaped(t, family)))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func vectors(t testing.TB, family string) []vector {
	t.Helper()
	f, err := os.Open(filepath.Join("../testdata/tokenizers", family+"-vectors.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	for d := json.NewDecoder(bufio.NewReader(z)); d.More(); {
		var v vector
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if len(all) != 6010 {
		t.Fatalf("%s: %d vectors, want 6010", family, len(all))
	}
	return all
}

// TestVectors holds every encoding against Hugging Face's.
func TestVectors(t *testing.T) {
	for _, family := range families {
		t.Run(family.name, func(t *testing.T) {
			tok := load(t, family.name)
			wrong := 0
			for _, v := range vectors(t, family.name) {
				got := tok.Encode(v.Text)
				if !slices.Equal(got, v.IDs) {
					if wrong++; wrong <= 5 {
						t.Errorf("Encode(%q)\n got %v\nwant %v", v.Text, got, v.IDs)
					}
				}
				want := v.Text
				if !family.roundTrip {
					want = nfc(want)
				}
				if back := tok.Decode(v.IDs); back != want {
					t.Errorf("Decode(%v) = %q, want %q", v.IDs, back, want)
				}
			}
			if wrong > 0 {
				t.Errorf("%d encodings are wrong", wrong)
			}
		})
	}
}

// withoutScanners returns a tokenizer that splits by regular expressions only.
func withoutScanners(t testing.TB, family string) *Tokenizer {
	t.Helper()
	tok := load(t, family)
	var f file
	if err := json.Unmarshal(shaped(t, family), &f); err != nil {
		t.Fatal(err)
	}
	all, err := steps(f.PreTokenizer, "Split", "ByteLevel")
	if err != nil {
		t.Fatal(err)
	}
	tok.splitters = nil
	for _, s := range all[:len(all)-1] {
		m, err := newMatcher(*s.Pattern.Regex, s.Behavior, s.Invert)
		if err != nil {
			t.Fatal(err)
		}
		tok.splitters = append(tok.splitters, m)
	}
	return tok
}

// TestFallback holds the regular expressions against the vectors, and so against the scanners, too.
func TestFallback(t *testing.T) {
	for _, family := range families {
		t.Run(family.name, func(t *testing.T) {
			tok := withoutScanners(t, family.name)
			for _, v := range vectors(t, family.name) {
				if got := tok.Encode(v.Text); !slices.Equal(got, v.IDs) {
					t.Fatalf("Encode(%q)\n got %v\nwant %v", v.Text, got, v.IDs)
				}
			}
		})
	}
}

// TestSharedUse encodes from several goroutines at once, each beginning
// elsewhere, so that they write one another's places in the cache.
func TestSharedUse(t *testing.T) {
	tok, all := load(t, "deepseek"), vectors(t, "deepseek")
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range all {
				v := all[(i+worker*700)%len(all)]
				if got := tok.Encode(v.Text); !slices.Equal(got, v.IDs) {
					t.Errorf("Encode(%q) = %v, want %v", v.Text, got, v.IDs)
				}
			}
		})
	}
	wg.Wait()
}

// TestLongPieces encodes pieces without any place to split: the time must grow
// with their length, not with its square, which would be 100 times as long.
func TestLongPieces(t *testing.T) {
	tests := []struct {
		family, unit string
		size         int // bytes of the short one
	}{
		{"deepseek", "a", 100_000},
		{"deepseek", "supercalifragilistic", 5_000},
		{"deepseek", "中文字符", 5_000},
		{"deepseek", " ", 5_000},
		{"deepseek", "\x01", 5_000}, // matched by nothing
		{"llama3", "zq", 5_000},
		{"llama3", " ", 5_000},
		{"llama3", "=", 5_000},
		{"qwen2", "e\u0301", 5_000},
		{"qwen2", "\u0301\u0323", 5_000}, // marks to put in order
	}
	tokenizers := make(map[string]*Tokenizer)
	for _, family := range families {
		tokenizers[family.name] = load(t, family.name)
	}
	for _, tt := range tests {
		t.Run(tt.family+"/"+tt.unit, func(t *testing.T) {
			tok := tokenizers[tt.family]
			took := func(size int) time.Duration {
				text := strings.Repeat(tt.unit, size/len(tt.unit))
				start := time.Now()
				ids := tok.Encode(text)
				took := time.Since(start)
				if got := tok.Decode(ids); got != tok.normalize(text) {
					t.Fatal("the text is another one after decoding")
				}
				return took
			}
			// Other work on the machine only adds time, so that the least counts.
			short, long := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
			for range 8 {
				short, long = min(short, took(tt.size)), min(long, took(10*tt.size))
				if long <= 40*short {
					return
				}
			}
			t.Errorf("%d bytes took %v, %d bytes %v: more than 40 times as long", 10*tt.size, long, tt.size, short)
		})
	}
}

// TestDecode decodes what is no text, as Rust's String::from_utf8_lossy does.
func TestDecode(t *testing.T) {
	tok := load(t, "llama3")
	tests := []struct{ bytes, want string }{
		{"a\xffb", "a\ufffdb"},
		{"\xff\xfe", "\ufffd\ufffd"},
		{"\xe4\xb8", "\ufffd"},              // one character, cut short
		{"\xe4\xb8\xe4\xb8\xad", "\ufffd中"}, // and one after it
		{"\xf0\x9f\x91x", "\ufffdx"},
		{"\xf0\x9f", "\ufffd"},
		{"\xc0\xaf", "\ufffd\ufffd"}, // nothing starts so
		{"\xe0\x80\x80", "\ufffd\ufffd\ufffd"},
		{"\xed\xa0\x80", "\ufffd\ufffd\ufffd"}, // a surrogate
		{"\xf4\x90", "\ufffd\ufffd"},
	}
	for _, tt := range tests {
		ids := tok.Encode(tt.bytes)
		if got := tok.Decode(ids); got != tt.want {
			t.Errorf("Decode of %q = %q, want %q", tt.bytes, got, tt.want)
		}
		var one []byte
		for _, id := range ids {
			one = tok.AppendDecode(one, []int32{id})
		}
		if string(one) != tt.bytes {
			t.Errorf("AppendDecode one by one = %q, want %q", one, tt.bytes)
		}
	}
	if got := tok.Decode([]int32{-1, 1 << 30}); got != "" {
		t.Errorf("Decode of no tokens = %q", got)
	}
}

// TestUnicode fails when Go's tables are newer than what assignedSince adds to:
// it must then be made anew, and what is newer than Unicode 16 taken out.
func TestUnicode(t *testing.T) {
	if unicode.Version != goUnicode {
		t.Errorf("Go has Unicode %s, the additions were made for %s", unicode.Version, goUnicode)
	}
}

// TestSlowNFC holds the long way against the library, on text that both take.
func TestSlowNFC(t *testing.T) {
	check := func(s string) {
		t.Helper()
		if got, want := slowNFC(s), norm.NFC.String(s); got != want {
			t.Errorf("slowNFC(%+q) = %+q, want %+q", s, got, want)
		}
	}
	for _, v := range vectors(t, "qwen2") {
		check(v.Text)
	}
	for r := range rune(0x30000) {
		p := norm.NFD.PropertiesString(string(r))
		if p.Decomposition() != nil || p.CCC() != 0 || r%97 == 0 && utf8.ValidRune(r) {
			check("a" + string(r) + "\u0323\u0301" + string(r) + "\u1161\u11a8" + string(r))
		}
	}
	check("a\xff\u0301\xc3e\u0301")
}

// FuzzEncode checks what holds for any text: nothing is lost, all ids exist,
// and scanners and regular expressions agree.
func FuzzEncode(f *testing.F) {
	for _, v := range vectors(f, "deepseek")[:60] {
		f.Add(v.Text)
	}
	f.Add("e" + strings.Repeat("\u0301\u0323", 20))
	f.Add("\xff\xc3 a\xe4\xb8")
	var scanned, matched []*Tokenizer
	for _, family := range families {
		scanned = append(scanned, load(f, family.name))
		matched = append(matched, withoutScanners(f, family.name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, family := range families {
			tok := scanned[i]
			ids := tok.Encode(text)
			for _, id := range ids {
				if _, ok := tok.tokens[id]; !ok {
					t.Errorf("%s: there is no token %d", family.name, id)
				}
			}
			want := text
			if !family.roundTrip {
				want = nfc(text)
			}
			if got := string(tok.AppendDecode(nil, ids)); got != want {
				t.Errorf("%s: %+q, want %+q", family.name, got, want)
			}
			if got := matched[i].Encode(text); !slices.Equal(got, ids) {
				t.Errorf("%s: by regular expressions %v, by scanners %v", family.name, got, ids)
			}
		}
	})
}
