package sim

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/testhost/recording"
)

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
	"sglang-0.5.23": {As: SGLang, Model: "tiny", Flags: map[string]string{"context-length": "4096", "enable-cache-report": "true"}},
}

// long is a request's prompt of so many token ids.
func long(ids int) string { return `"prompt":[2000` + strings.Repeat(",2000", ids-1) + `]` }

// requests are what was asked for each recording: a path, and a body where it is a POST.
var requests = map[string][2]string{
	"models.json":            {"/v1/models"},
	"version.json":           {"/version"},
	"version.txt":            {"/version"},
	"health.txt":             {"/health"},
	"liveness.txt":           {"/liveness"},
	"readiness.txt":          {"/readiness"},
	"workers.json":           {"/workers"},
	"loads.json":             {"/v1/loads"},
	"flush-cache.txt":        {"/flush_cache", "{}"},
	"reset-prefix-cache.txt": {"/reset_prefix_cache", "{}"},
	"whole-completions.txt":  {"/v1/completions", `{"model":"tiny",` + sixteen + "," + asked + "}"},
	"whole-chat.txt":         {"/v1/chat/completions", `{"model":"tiny",` + user + "," + asked + "}"},
	"whole-responses.txt":    {"/v1/responses", `{"model":"tiny","input":"one two three","max_output_tokens":8,"temperature":0}`},
	"stream-completions.txt": {"/v1/completions", `{"model":"tiny",` + sixteen + "," + asked + streamed + "}"},
	"stream-completions-continuous-usage.txt": {"/v1/completions", `{"model":"tiny",` + sixteen + "," + asked + `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
	"stream-completions-text.txt":             {"/v1/completions", `{"model":"tiny","prompt":"one two three",` + asked + streamed + "}"},
	"stream-chat.txt":                         {"/v1/chat/completions", `{"model":"tiny",` + user + "," + asked + streamed + "}"},
	"stream-chat-tool.txt": {"/v1/chat/completions", `{"model":"tiny",` + user + `,"max_tokens":48,"tool_choice":{"type":"function","function":{"name":"well"}},` +
		`"tools":[{"type":"function","function":{"name":"well"}}]` + streamed + "}"},
	"stream-responses.txt":         {"/v1/responses", `{"model":"tiny","input":"one two three","max_output_tokens":8,"temperature":0,"stream":true}`},
	"stream-generate.txt":          {"/generate", `{"input_ids":[2000,2001,2002],"sampling_params":{"max_new_tokens":8},"stream":true}`},
	"beyond-context-prompt.txt":    {"/v1/completions", `{"model":"tiny",` + long(9000) + "," + asked + "}"},
	"beyond-context-full.txt":      {"/v1/completions", `{"model":"tiny",` + long(4096) + "," + asked + "}"},
	"beyond-context-answer.txt":    {"/v1/completions", `{"model":"tiny",` + long(4090) + `,"max_tokens":200,"temperature":0,"ignore_eos":true}`},
	"beyond-context-chat.txt":      {"/v1/chat/completions", `{"model":"tiny",` + user + `,"max_tokens":5000,"temperature":0}`},
	"error-bad-parameter.txt":      {"/v1/completions", `{"model":"tiny",` + sixteen + `,"max_tokens":8,"temperature":-1}`},
	"error-no-json.txt":            {"/v1/completions", "{"},
	"error-no-path.txt":            {"/v1/nothing", `{"model":"tiny","prompt":"one"}`},
	"error-no-prompt.txt":          {"/v1/completions", `{"model":"tiny",` + asked + "}"},
	"error-unknown-model.txt":      {"/v1/completions", `{"model":"other",` + sixteen + "," + asked + "}"},
	"error-unknown-model-chat.txt": {"/v1/chat/completions", `{"model":"other",` + user + "," + asked + "}"},
	"dead-worker.txt":              {"/v1/chat/completions", `{"model":"tiny",` + user + "," + asked + "}"},
	"dead-worker-stream.txt":       {"/v1/completions", `{"model":"tiny","prompt":"one two three","max_tokens":8,"stream":true}`},
}

// notSimulated are recordings that a simulated one has no answer to, and why.
var notSimulated = map[string]string{
	"error-token-out-of-vocabulary.txt": "it has no vocabulary",
	"whole-chat-tool.txt":               "the model's weights are random: its call was cut off, and is a text",
	"error-no-embeddings.txt":           "it makes embeddings where the lab says so alone, and has the path",
}

// theirOwn are messages with places in an engine's source.
var theirOwn = []string{"error-no-json.txt", "error-no-prompt.txt"}

// TestReal: what simulated engines and routers answer has the status, the kind and the members that the real one's recordings
// have, and refusals the words.
func TestReal(t *testing.T) {
	urls := map[string]string{}
	for engine, cfg := range realOnes {
		_, urls[engine] = start(t, instant(cfg))
	}
	for engine, as := range map[string]string{"vllm-router-0.1.17": VLLM, "sglang-router-0.3.2": SGLang} {
		dead := httptest.NewServer(New(instant(realOnes["vllm-0.32.0"])))
		for state, worker := range map[string]string{"": urls["vllm-0.32.0"], "dead-worker": dead.URL} {
			router := httptest.NewServer(newRouter(as, Routes{Serve: []Worker{{URL: worker}}}).mux)
			t.Cleanup(router.Close)
			urls[engine+state] = router.URL
			ask(t, "GET", router.URL+"/workers", "") // it has seen the worker
		}
		dead.Close()
	}
	for _, name := range recording.Names(t, "*/*.txt", "*/*.json") {
		engine, file := path.Split(name)
		engine = strings.TrimSuffix(engine, "/")
		q, known := requests[file]
		_, left := notSimulated[file]
		switch {
		case engine == "by-hand", left, strings.HasPrefix(file, "log"), file == "help.txt", file == "metrics.txt", file == "server_info.json":
			continue
		case !known:
			t.Errorf("%s: say what was asked", name)
			continue
		}
		url := urls[engine]
		if strings.HasPrefix(file, "dead-worker") {
			url = urls[engine+"dead-worker"]
		}
		sameAnswer(t, name, url, q[0], q[1])
	}
}

// TestRealRouters: what routers answer where prefill and decode are apart, or no worker has ever come.
func TestRealRouters(t *testing.T) {
	prefill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"kv_transfer_params":{"remote_host":"127.0.0.1"}}`)
	}))
	defer prefill.Close()
	nobody := Worker{URL: "http://127.0.0.2:9"}
	apart, alone := Routes{Prefill: []Worker{{URL: prefill.URL}}, Decode: []Worker{nobody}}, Routes{Serve: []Worker{nobody}}
	for name, c := range map[string]struct {
		as         string
		to         Routes
		path, body string
	}{
		"by-hand/vllm-router-0.1.17/dead-worker-decode.txt":    {VLLM, apart, "/v1/completions", `{"model":"tiny","prompt":"one"}`},
		"by-hand/vllm-router-0.1.17/pd-get-no-path.txt":        {VLLM, apart, "/v1/nothing", ""},
		"by-hand/sglang-router-0.3.2/no-workers-readiness.txt": {SGLang, alone, "/readiness", ""},
		"by-hand/sglang-router-0.3.2/no-workers-models.txt":    {SGLang, alone, "/v1/models", ""},
		"by-hand/sglang-router-0.3.2/no-workers-chat.txt":      {SGLang, alone, "/v1/chat/completions", `{"model":"tiny",` + user + "}"},
	} {
		router := httptest.NewServer(newRouter(c.as, c.to).mux)
		sameAnswer(t, name, router.URL, c.path, c.body)
		router.Close()
	}
}

// sameAnswer holds what a server answers against a recording.
func sameAnswer(t *testing.T, name, url, path, body string) {
	t.Helper()
	status, head, real := recording.Answer(t, name)
	method := "POST"
	if body == "" {
		method = "GET"
	}
	code, kind, ours := askFor(t, method, url+path, body)
	if status != code {
		t.Errorf("%s: status %d, and the real one's is %d: %s", name, code, status, ours)
		return
	}
	if want := head.Get("Content-Type"); want != "" && kind != want {
		t.Errorf("%s: it is %q, and the real one's is %q", name, kind, want)
	}
	host := regexp.MustCompile(`http://127[\d.:]+`)
	real, ours = host.ReplaceAllString(real, "http://worker"), host.ReplaceAllString(ours, "http://worker")
	file := name[strings.LastIndexByte(name, '/')+1:]
	switch {
	case strings.HasPrefix(file, "stream-") && status == http.StatusOK:
		sameStream(t, name, events(real), events(ours))
	case strings.HasPrefix(real, "{") && status != http.StatusOK && !slices.Contains(theirOwn, file):
		var want, got any
		if err := errors.Join(json.Unmarshal([]byte(real), &want), json.Unmarshal([]byte(ours), &got)); err != nil {
			t.Errorf("%s: %v: %s", name, err, ours)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-real +sim):\n%s", name, diff)
		}
	case strings.HasPrefix(real, "{"):
		if diff := sameMembers(t, real, ours); diff != "" {
			t.Errorf("%s (-real +sim):\n%s", name, diff)
		}
	case real != ours:
		t.Errorf("%s: %q, and the real one's is %q", name, ours, real)
	}
}

// sameStream holds the events of two streams against each other: of the Responses API one of each type, in the order in which
// they come, and else the first two and the last three.
func sameStream(t *testing.T, name string, theirs, mine []string) {
	t.Helper()
	n, m := len(theirs), len(mine)
	if n < 3 || m < 3 {
		t.Errorf("%s: %d events, and the real one's are %d", name, m, n)
		return
	}
	byType := func(events []string) (types []string, of map[string]string) {
		of = map[string]string{}
		for _, e := range events {
			var event struct{ Type string }
			if err := json.Unmarshal([]byte(e), &event); err != nil {
				t.Fatalf("%s: %v: %s", name, err, e)
			}
			if of[event.Type] == "" {
				of[event.Type] = e
				types = append(types, event.Type)
			}
		}
		return types, of
	}
	pairs := [][2]string{{theirs[0], mine[0]}, {theirs[n-3], mine[m-3]}, {theirs[n-2], mine[m-2]}, {theirs[n-1], mine[m-1]}}
	if n > 4 { // on a busy machine all tokens may be in two
		pairs = append(pairs, [2]string{theirs[1], mine[1]})
	}
	if types, of := byType(theirs); types[0] != "" {
		ours, ourOf := byType(mine)
		if diff := cmp.Diff(types, ours); diff != "" {
			t.Errorf("%s: types of events (-real +sim):\n%s", name, diff)
			return
		}
		pairs = nil
		for _, each := range types {
			pairs = append(pairs, [2]string{of[each], ourOf[each]})
		}
	}
	for _, pair := range pairs {
		if diff := sameMembers(t, pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-real +sim):\n%s\n%s\n%s", name, diff, pair[0], pair[1])
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

// TestRealMetrics: a simulated engine has no metric that the real one has not, and none with other labels; nor has a router.
func TestRealMetrics(t *testing.T) {
	for engine, cfg := range realOnes {
		_, url := start(t, instant(cfg))
		ask(t, "POST", url+"/v1/completions", `{"prompt":"a","max_tokens":2}`)
		_, ours := ask(t, "GET", url+"/metrics", "")
		sameMetrics(t, engine, ours, 6)
	}
	_, worker := start(t, instant(realOnes["vllm-0.32.0"]))
	for engine, as := range map[string]string{"vllm-router-0.1.17": VLLM, "sglang-router-0.3.2": SGLang} {
		router := httptest.NewServer(newRouter(as, Routes{Serve: []Worker{{URL: worker}}}).mux)
		defer router.Close()
		ask(t, "POST", router.URL+"/v1/completions", `{"prompt":"a","max_tokens":2}`)
		_, ours := ask(t, "GET", router.URL+"/metrics", "")
		sameMetrics(t, engine, ours, 2)
	}
}

func sameMetrics(t *testing.T, engine, ours string, least int) {
	t.Helper()
	want, got := labelsOf(recording.Text(t, engine+"/metrics.txt")), labelsOf(ours)
	maps.DeleteFunc(want, func(name, _ string) bool { _, has := got[name]; return !has })
	if diff := cmp.Diff(want, got); diff != "" || len(got) < least {
		t.Errorf("%s (-real +sim):\n%s\n%s", engine, diff, ours)
	}
}

// TestRealServerInfo: likewise of what SGLang says that it runs with.
func TestRealServerInfo(t *testing.T) {
	cfg := realOnes["sglang-0.5.23"]
	cfg.Flags = maps.Clone(cfg.Flags)
	maps.Copy(cfg.Flags, map[string]string{"tp": "2", "mem-fraction-static": "0.8", "kv-cache-dtype": "auto", "disable-radix-cache": "true"})
	_, url := start(t, instant(cfg))
	_, ours := ask(t, "GET", url+"/server_info", "")
	want := members(t, recording.Text(t, "sglang-0.5.23/server_info.json"))
	for name := range members(t, ours) {
		if _, has := want[name]; !has {
			t.Errorf("the real one says nothing of %s", name)
		}
	}
}
