// Package recording reads what real engines have said: the files of testdata/real, which `make record-engines` writes,
// and those of testdata/real/by-hand.
package recording

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Text is all of a recording, which has the name that it has in testdata/real: "vllm-0.32.0/metrics.txt".
func Text(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Names are the recordings that a pattern of [filepath.Match] finds, in order: "*/log-fail-*". There is one at least.
func Names(t testing.TB, patterns ...string) (names []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(dir(t), pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no recording %s: %v", pattern, err)
		}
		for _, name := range found {
			names = append(names, strings.TrimPrefix(name, dir(t)+string(filepath.Separator)))
		}
	}
	return names
}

// Answer is an answer over HTTP. A recording without a head is the body of a good one.
func Answer(t testing.TB, name string) (status int, head http.Header, body string) {
	t.Helper()
	text, head := Text(t, name), http.Header{}
	if !strings.HasPrefix(text, "HTTP/") {
		return http.StatusOK, head, text
	}
	first, rest, _ := strings.Cut(text, "\n")
	status, err := strconv.Atoi(strings.Fields(first)[1])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for {
		line, more, whole := strings.Cut(rest, "\n")
		if rest = more; strings.TrimSpace(line) == "" || !whole {
			return status, head, rest
		}
		field, value, _ := strings.Cut(line, ":")
		head.Add(field, strings.TrimSpace(value))
	}
}

// Events are the data of an answer's stream of events, but for the last of OpenAI's, which is no JSON.
func Events(t testing.TB, name string) (events []string) {
	t.Helper()
	_, _, body := Answer(t, name)
	for line := range strings.Lines(body) {
		if data, is := strings.CutPrefix(strings.TrimSpace(line), "data: "); is && data != "[DONE]" {
			events = append(events, data)
		}
	}
	return events
}

// Lines are those of a log as a terminal shows them: of a line that was written over, its last state.
func Lines(t testing.TB, name string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(Text(t, name)) {
		line = strings.TrimSpace(line)
		lines = append(lines, line[strings.LastIndexByte(line, '\r')+1:])
	}
	return lines
}

// dir is testdata/real, seen from the room whose test runs.
func dir(t testing.TB) string {
	t.Helper()
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		found := filepath.Join(at, "testdata", "real")
		if _, err := os.Stat(found); err == nil {
			return found
		}
		above := filepath.Dir(at)
		if above == at {
			t.Fatal("no folder above has testdata/real")
		}
		at = above
	}
}
