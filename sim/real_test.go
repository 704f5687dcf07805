package sim

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded is a recording of a real engine: the status of an answer and its body.
func recorded(t *testing.T, engine, name string) (status, body string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "real", engine, name))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "HTTP/") {
		return "200", string(text)
	}
	head, body, _ := strings.Cut(string(text), "\r\n\r\n")
	return strings.Fields(head)[1], body
}

// members are the paths of all members of a JSON text, those of lists under [], with what they hold: null is anything.
func members(t *testing.T, text string) map[string]string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	all := map[string]string{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				walk(at+"."+name, inner)
			}
		case []any:
			all[at] = "a list"
			for _, inner := range v {
				walk(at+"[]", inner)
			}
		case string:
			all[at] = "a text"
		case float64:
			all[at] = "a number"
		case bool:
			all[at] = "a switch"
		default:
			all[at] = "null"
		}
	}
	walk("", v)
	return all
}

// ownClock are members of SGLang's answers with times of its own, which the simulated one does not keep.
var ownClock = regexp.MustCompile(`meta_info\.\w+(_ts|_time|_wait|_latency|_throughput)$`)

// sameMembers is what is different in the members of two answers; where one of two is null, both are that member.
func sameMembers(t *testing.T, real, ours string) string {
	t.Helper()
	want, got := members(t, real), members(t, ours)
	maps.DeleteFunc(want, func(name, _ string) bool { return ownClock.MatchString(name) })
	for name, is := range want {
		if other, has := got[name]; has && (is == "null" || other == "null") {
			got[name] = is
		}
	}
	return cmp.Diff(want, got)
}

// events are the data of a stream's events, but of the last, which is no JSON.
func events(body string) (all []string) {
	for line := range strings.Lines(body) {
		if data, is := strings.CutPrefix(strings.TrimSpace(line), "data: "); is && data != "[DONE]" {
			all = append(all, data)
		}
	}
	return all
}

const (
	asked    = `"max_tokens":8,"temperature":0,"ignore_eos":true`
	streamed = `,"stream":true,"stream_options":{"include_usage":true}`
	sixteen  = `"prompt":[2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000,2000]`
	user     = `"messages":[{"role":"user","content":"one two three"}]`
)

var realOnes = map[string]Config{
	"vllm-0.32.0":   {As: VLLM, Model: "tiny", Flags: map[string]string{"max-model-len": "4096", "enable-prompt-tokens-details": "true"}},
	"sglang-0.5.23": {As: SGLang, Model: "tiny", Flags: map[string]string{"context-length": "8192", "enable-cache-report": "true"}},
}

// TestReal: what a simulated engine answers has the status and the members that the real one's recording has.
func TestReal(t *testing.T) {
	for engine, cfg := range realOnes {
		_, url := start(t, instant(cfg))
		for name, q := range map[string]struct{ path, body string }{
			"models.json":             {"/v1/models", ""},
			"whole-completions.txt":   {"/v1/completions", `{"model":"tiny",` + sixteen + "," + asked + "}"},
			"whole-chat.txt":          {"/v1/chat/completions", `{"model":"tiny",` + user + "," + asked + "}"},
			"stream-completions.txt":  {"/v1/completions", `{"model":"tiny",` + sixteen + "," + asked + streamed + "}"},
			"stream-chat.txt":         {"/v1/chat/completions", `{"model":"tiny",` + user + "," + asked + streamed + "}"},
			"stream-generate.txt":     {"/generate", `{"input_ids":[2000,2001,2002],"sampling_params":{"max_new_tokens":8},"stream":true}`},
			"error-bad-parameter.txt": {"/v1/completions", `{"model":"tiny",` + sixteen + `,"max_tokens":8,"temperature":-1}`},
			"error-no-json.txt":       {"/v1/completions", "{"},
			"error-no-path.txt":       {"/v1/nothing", `{"model":"tiny","prompt":"one"}`},
			"error-no-prompt.txt":     {"/v1/completions", `{"model":"tiny",` + asked + "}"},
			"error-too-long.txt":      {"/v1/completions", `{"model":"tiny","prompt":[2000` + strings.Repeat(",2000", 8999) + `],"max_tokens":8}`},
			"error-unknown-model.txt": {"/v1/completions", `{"model":"other",` + sixteen + "," + asked + "}"},
			"flush-cache.txt":         {"/flush_cache", "{}"},
			"reset-prefix-cache.txt":  {"/reset_prefix_cache", "{}"},
			"version.json":            {"/version", ""},
			"stream-completions-continuous-usage.txt": {"/v1/completions",
				`{"model":"tiny",` + sixteen + "," + asked + `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
		} {
			if _, err := os.Stat(filepath.Join("..", "testdata", "real", engine, name)); err != nil && slices.Contains([]string{
				"stream-generate.txt", "flush-cache.txt", "reset-prefix-cache.txt", "version.json"}, name) { // of the other engine
				continue
			}
			status, real := recorded(t, engine, name)
			method := "POST"
			if q.body == "" {
				method = "GET"
			}
			code, ours := ask(t, method, url+q.path, q.body)
			if status != strconv.Itoa(code) {
				t.Errorf("%s %s: status %d, and the real one's is %s: %s", engine, name, code, status, ours)
				continue
			}
			switch first := strings.TrimSpace(real)[0]; {
			case strings.HasPrefix(name, "stream-"):
				theirs, mine := events(real), events(ours)
				n, m := len(theirs), len(mine)
				if n < 4 || m < 4 {
					t.Errorf("%s %s: %d events, and the real one's are %d", engine, name, m, n)
					continue
				}
				for _, pair := range [][2]string{{theirs[0], mine[0]}, {theirs[1], mine[1]}, {theirs[n-3], mine[m-3]}, {theirs[n-2], mine[m-2]}, {theirs[n-1], mine[m-1]}} {
					if diff := sameMembers(t, pair[0], pair[1]); diff != "" {
						t.Errorf("%s %s (-real +sim):\n%s\n%s\n%s", engine, name, diff, pair[0], pair[1])
					}
				}
			case first == '{':
				if diff := sameMembers(t, real, ours); diff != "" {
					t.Errorf("%s %s (-real +sim):\n%s", engine, name, diff)
				}
			case real != ours:
				t.Errorf("%s %s: %q, and the real one's is %q", engine, name, ours, real)
			}
		}
	}
}

var series = regexp.MustCompile(`(?m)^([\w:]+)(?:\{(.*)\})? \S+$`)
var label = regexp.MustCompile(`(\w+)="`)

// labelsOf are the names of the labels that each metric of a text has.
func labelsOf(text string) map[string]string {
	all := map[string]string{}
	for _, m := range series.FindAllStringSubmatch(text, -1) {
		var names []string
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			names = append(names, l[1])
		}
		slices.Sort(names)
		all[m[1]] = strings.Join(names, " ")
	}
	return all
}

// TestRealMetrics: a simulated engine has no metric that the real one has not, and none with other labels.
func TestRealMetrics(t *testing.T) {
	for engine, cfg := range realOnes {
		_, url := start(t, instant(cfg))
		ask(t, "POST", url+"/v1/completions", `{"prompt":"a","max_tokens":2}`)
		_, real := recorded(t, engine, "metrics.txt")
		_, ours := ask(t, "GET", url+"/metrics", "")
		want, got := labelsOf(real), labelsOf(ours)
		maps.DeleteFunc(want, func(name, _ string) bool { _, has := got[name]; return !has })
		if diff := cmp.Diff(want, got); diff != "" || len(got) < 6 {
			t.Errorf("%s (-real +sim):\n%s", engine, diff)
		}
	}
}

// TestRealServerInfo: likewise of what SGLang says that it runs with.
func TestRealServerInfo(t *testing.T) {
	cfg := realOnes["sglang-0.5.23"]
	cfg.Flags = maps.Clone(cfg.Flags)
	maps.Copy(cfg.Flags, map[string]string{"tp": "2", "mem-fraction-static": "0.8", "kv-cache-dtype": "auto", "disable-radix-cache": "true"})
	_, url := start(t, instant(cfg))
	_, real := recorded(t, "sglang-0.5.23", "server_info.json")
	_, ours := ask(t, "GET", url+"/server_info", "")
	want := members(t, real)
	for name := range members(t, ours) {
		if _, has := want[name]; !has {
			t.Errorf("the real one says nothing of %s", name)
		}
	}
}
