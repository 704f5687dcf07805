package load

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// uncounted are the members of a workload of which another value makes no other load.
var uncounted = []string{
	"Speed",        // what is simulated at another speed is another engine
	"SLO",          // computed from the records, whenever it is asked
	"Dataset.Path", // the content counts
	"Dataset.Tokenizer", "Dataset.ImageDir", "Dataset.Shots",
}

func fingerprinted() Workload {
	return Workload{
		Dataset: Dataset{Kind: Random, InputTokens: 100, RangeRatio: new(0.5), Path: "data/prompts.jsonl", SHA256: strings.Repeat("0", 64),
			Tokenizer: "tokenizer.json", TokenizerSHA256: strings.Repeat("1", 64),
			ImageDir: "photos", ImageDirSHA256: strings.Repeat("2", 64), Shots: "shots.jsonl", ShotsSHA256: strings.Repeat("3", 64)},
		Requests: 500, Concurrency: 16, Rate: 5, OutputTokens: 800, IgnoreEOS: true, Endpoint: Completions, Burstiness: 2, BatchSize: 1,
	}
}

// TestEveryMemberCounts changes each member alone.
func TestEveryMemberCounts(t *testing.T) {
	try := func(name string, of func(*Workload) reflect.Value) {
		want := !slices.Contains(uncounted, name)
		w := fingerprinted()
		before := w.Fingerprint()
		switch v := of(&w); v.Interface().(type) {
		case []Stage:
			v.Set(reflect.ValueOf([]Stage{{Duration: Duration(time.Minute), Rate: 2}}))
		case []Adapter:
			v.Set(reflect.ValueOf([]Adapter{{Name: "sql", Share: 0.5}}))
		case []ImageSize:
			v.Set(reflect.ValueOf([]ImageSize{{640, 480, 1}}))
		case []Objective:
			v.Set(reflect.ValueOf([]Objective{{Metric: "ttft", Max: Duration(time.Second)}}))
		default:
			anotherValue(t, name, v)
		}
		if got := !maps.Equal(before, w.Fingerprint()); got != want {
			t.Errorf("%s: another value makes another load: %v, want %v", name, got, want)
		}
	}
	for i := range reflect.TypeFor[Workload]().NumField() {
		field := reflect.TypeFor[Workload]().Field(i)
		if field.Name != "Dataset" {
			try(field.Name, func(w *Workload) reflect.Value { return reflect.ValueOf(w).Elem().Field(i) })
			continue
		}
		for j := range field.Type.NumField() {
			try("Dataset."+field.Type.Field(j).Name, func(w *Workload) reflect.Value { return reflect.ValueOf(&w.Dataset).Elem().Field(j) })
		}
	}
}

// anotherValue sets v to a value that it has not.
func anotherValue(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("another")
		if name == "Dataset.Convention" {
			v.SetString(ConventionVLLM)
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 2)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Pointer:
		v.Set(reflect.ValueOf(new(0.25)))
	default:
		t.Fatalf("%s: no other value of a %s is known", name, v.Type())
	}
}

func TestFingerprint(t *testing.T) {
	w := fingerprinted()
	w.ExtraBody, w.Stages = `{"b": [1.0, 2], "a": "<x>"}`, []Stage{{Duration: Duration(time.Minute), Rate: 2}, {Duration: Duration(time.Second), Concurrency: 3}}
	var got []string
	for name, value := range w.Fingerprint() {
		got = append(got, name+" = "+value)
	}
	slices.Sort(got)
	want := []string{
		"burstiness = 2",
		"concurrency = 16",
		"dataset.convention = sglang",
		"dataset.image_dir_sha256 = " + strings.Repeat("2", 64),
		"dataset.input_tokens = 100",
		"dataset.kind = random",
		"dataset.range_ratio = 0.5",
		"dataset.sha256 = " + strings.Repeat("0", 64),
		"dataset.shots_sha256 = " + strings.Repeat("3", 64),
		"dataset.tokenizer_sha256 = " + strings.Repeat("1", 64),
		"endpoint = completions",
		`extra_body = {"a":"<x>","b":[1.0,2]}`,
		"ignore_eos = true",
		"output_tokens = 800",
		"rate = 5",
		"requests = 500",
		"stages = 1m0s rate 2, 1s concurrency 3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fingerprint (-want +got):\n%s", diff)
	}
}

// TestSameLoad: what is said and what holds anyway are one load, and so are two ways to write one.
func TestSameLoad(t *testing.T) {
	for name, change := range map[string]func(*Workload){
		"Poisson":            func(w *Workload) { w.Burstiness = 1 },
		"the stall":          func(w *Workload) { w.Stall = Duration(DefaultStall) },
		"the slowdown":       func(w *Workload) { w.Dataset.Slowdown = 1 },
		"the whole range":    func(w *Workload) { w.Dataset.RangeRatio = new(1.0) },
		"the convention":     func(w *Workload) { w.Dataset.Convention = ConventionSGLang },
		"digits":             func(w *Workload) { w.Dataset.SHA256 = strings.ToUpper(w.Dataset.SHA256) },
		"blanks and order":   func(w *Workload) { w.ExtraBody = "{\"a\":1,\n \"b\": 2}" },
		"the file elsewhere": func(w *Workload) { w.Dataset.Path = "../elsewhere.jsonl" },
		"the most images":    func(w *Workload) { w.Dataset.MaxImages = 255 },
		"proportions": func(w *Workload) {
			w.Dataset.ImageSizes = []ImageSize{{64, 64, 0.1}, {640, 480, 0.2}}
		},
	} {
		w := fingerprinted()
		w.Burstiness, w.Dataset.RangeRatio, w.Dataset.SHA256, w.ExtraBody = 0, nil, strings.Repeat("ab", 32), `{"b":2,"a":1}`
		w.Dataset.ImageSizes = []ImageSize{{64, 64, 1}, {640, 480, 2}}
		before := w.Fingerprint()
		change(&w)
		if diff := cmp.Diff(before, w.Fingerprint()); diff != "" {
			t.Errorf("%s makes another load (-before +after):\n%s", name, diff)
		}
	}
	w := Workload{Dataset: Dataset{Kind: JSONL, Path: "a.jsonl"}}
	before := w.Fingerprint()
	if w.Dataset.Path = "b.jsonl"; maps.Equal(before, w.Fingerprint()) {
		t.Error("without a checksum the path does not count")
	}
}

// TestFingerprintOfBatch: what the engine's own benchmark is given, and nothing of how a
// load would be sent.
func TestFingerprintOfBatch(t *testing.T) {
	w := fingerprinted()
	got := Batch{Dataset: w.Dataset, Requests: w.Requests, OutputTokens: w.OutputTokens}.Fingerprint()
	want := map[string]string{"mode": "offline", "requests": "500", "output_tokens": "800"}
	for name, value := range w.Fingerprint() {
		if strings.HasPrefix(name, "dataset.") {
			want[name] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
}
