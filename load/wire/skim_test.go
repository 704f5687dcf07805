package wire

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hclbench/load"
)

func vectors(n int, each string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, each)
	}
	return `{"object":"list","data":[` + strings.Join(parts, ",") + `],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}`
}

// TestSkim: what an answer that generates nothing says, however the reads cut it.
func TestSkim(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		texts        int
		class        string // of the failure; empty: none
		tokens       int
	}{
		{"one vector", vectors(1, "[0.5,-1e-3]"), 1, "", 7},
		{"several", vectors(3, "[ 1 , 2 ]"), 3, "", 7},
		{"base64", vectors(2, `"AACAPw=="`), 2, "", 7},
		{"vectors of a text's tokens", vectors(1, "[[1,2],[3]]"), 1, "", 7},
		{"another order", `{"usage":{"total_tokens":9},"data":[{"embedding":[1]}],"error":null,"object":"list"}`, 1, "", 9},
		{"ranks", `{"id":"r","results":[{"index":1,"document":{"text":"a \"score\": {]"},"relevance_score":0.3},{"relevance_score":0,"index":0}],"usage":{"total_tokens":4}}`, 2, "", 4},
		{"ranks of SGLang", `[{"score":0.9,"document":"a","index":0,"meta_info":{"e2e":[1]}},{"score":-3,"document":"\u005d","index":1}]`, 2, "", 5},
		{"no usage", `{"data":[{"embedding":[1]}]}`, 1, "", 5},
		{"usage elsewhere", `{"x":{"prompt_tokens":3},"data":[{"embedding":[1],"usage":{"prompt_tokens":4}}]}`, 1, "", 5},
		{"too few", vectors(2, "[1]"), 3, load.ClassMalformed, 0},
		{"too many", vectors(2, "[1]"), 1, load.ClassMalformed, 0},
		{"an empty vector", vectors(2, "[]"), 2, load.ClassEmpty, 0},
		{"an empty text", vectors(1, `""`), 1, load.ClassEmpty, 0},
		{"null", vectors(1, "null"), 1, load.ClassEmpty, 0},
		{"no vectors", `{"data":[{"index":0}]}`, 1, load.ClassEmpty, 0},
		{"an error", `{"error":{"message":"no"}}`, 1, load.ClassServer, 0},
		{"an older error", `{"object":"error","message":"no"}`, 1, load.ClassServer, 0},
		{"an error in words", `{"error":"no"}`, 1, load.ClassServer, 0},
		{"nothing", "", 1, load.ClassEmpty, 0},
		{"half of it", `{"data":[{"embedding":[1,2`, 1, load.ClassMalformed, 0},
		{"not JSON", `<html>`, 1, load.ClassMalformed, 0},
		{"a text alone", `"a"`, 1, load.ClassMalformed, 0},
		{"brackets that do not fit", `{"data":[{"embedding":[1}]]}`, 1, load.ClassMalformed, 0},
		{"something behind", vectors(1, "[1]") + "{}", 1, load.ClassMalformed, 0},
		{"too deep", strings.Repeat(`[`, 1000), 1, load.ClassMalformed, 0},
		{"no end", `{"x":"` + strings.Repeat("a", 3<<20), 1, load.ClassMalformed, 0},
	} {
		for _, size := range []int{1, 7, 4 << 10} {
			if size == 1 && len(c.answer) > 1<<20 {
				continue
			}
			r := load.Record{Texts: c.texts, AskedInput: 5}
			var s Stream
			s.Reset(Exchange{Record: &r, Chunks: new(atomic.Int64), Whole: true})
			var err error
			for rest := c.answer; rest != "" && err == nil; rest = rest[min(size, len(rest)):] {
				_, err = s.Feed([]byte(rest[:min(size, len(rest))]), time.Second, 0)
			}
			if err == nil {
				err = s.end()
			}
			class := ""
			if err != nil {
				class, _ = server{}.classify(nil, err)
			}
			if class != c.class || err == nil && (r.InputTokens != c.tokens || r.NoUsage != (c.tokens == 5) || r.First != time.Second || r.End != r.First) {
				t.Errorf("%s, %d bytes at a time: class %q (%v), want %q; record %+v", c.name, size, class, err, c.class, r)
			}
		}
	}
}

// TestSkimKeepsNothing: an answer of many megabytes takes no memory beyond its beginning.
func TestSkimKeepsNothing(t *testing.T) {
	answer := []byte(vectors(64, "["+strings.Repeat("0.0123456789,", 4095)+"1]"))
	r := load.Record{Texts: 64}
	var s Stream
	if n := testing.AllocsPerRun(3, func() {
		s.Reset(Exchange{Record: &r, Chunks: new(atomic.Int64), Whole: true})
		for rest := answer; len(rest) > 0; rest = rest[min(4<<10, len(rest)):] {
			if _, err := s.Feed(rest[:min(4<<10, len(rest))], time.Second, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.end(); err != nil {
			t.Fatal(err)
		}
	}); n > 8 || cap(s.body) > 0 {
		t.Errorf("%v allocations for %d MB, %d bytes are kept", n, len(answer)>>20, cap(s.body))
	}
}

// TestSilentAnswers: both clients read such answers.
func TestSilentAnswers(t *testing.T) {
	body := vectors(2, "["+strings.Repeat("0.25,", 50_000)+"1]")
	bothClients(t, func(t *testing.T, with maker) {
		target := raw(t, func(conn net.Conn) {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
			io.WriteString(conn, body)
		})
		r := load.Record{Texts: 2}
		with.client(t, target, load.Workload{Endpoint: load.Embeddings}).Send(t.Context(), net.Buffers{[]byte("{}")}, Exchange{Record: &r,
			Zero: time.Now(), Chunks: new(atomic.Int64), Whole: true, Endpoint: load.Embeddings})
		if !r.OK() || r.InputTokens != 7 || r.OutputTokens != 0 || r.Last <= r.Sent {
			t.Errorf("%+v", r)
		}
	})
}

// BenchmarkSkim is the cost of a byte of an answer.
func BenchmarkSkim(b *testing.B) {
	answer := []byte(vectors(64, "["+strings.Repeat("-0.0123456789, ", 4095)+"1]"))
	b.SetBytes(int64(len(answer)))
	for b.Loop() {
		var k skim
		if !k.feed(answer) || k.settle(&load.Record{Texts: 64}) != nil {
			b.Fatal(k.items)
		}
	}
}
