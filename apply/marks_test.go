package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/telemetry"
)

// TestOfflineWindow: of what a tool lets be known of its end, the earliest counts, on
// the host's clock.
func TestOfflineWindow(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
	}
	for name, c := range map[string]struct {
		told     marks
		from, to float64
	}{
		"the file alone":               {marks{}, 70, 100},
		"a line at the end":            {marks{ends: at(1096)}, 66, 96},
		"a line at the beginning":      {marks{begins: at(1065)}, 65, 95},
		"a line that came late":        {marks{ends: at(1160)}, 70, 100},
		"a beginning that came late":   {marks{begins: at(1080)}, 70, 100},
		"the nearest of all that came": {marks{begins: at(1065), ends: at(1096)}, 65, 95},
	} {
		// The host's clock is 1000 s behind this machine's.
		got := c.told.window(30*time.Second, -1000*time.Second, at(100))
		if want := (telemetry.Window{Zero: at(c.from), From: at(c.from), To: at(c.to)}); got != want {
			t.Errorf("%s: %v to %v, want %v to %v", name, got.From, got.To, want.From, want.To)
		}
	}
}

// TestMarks reads what the tools print around what they measure.
func TestMarks(t *testing.T) {
	for kind, c := range map[string]struct {
		log          string
		begins, ends bool
	}{
		engines.VLLM:   {"Adding requests: 100%|██████████| 8/8 [00:00<00:00, 120.41it/s]\nProcessed prompts:   0%|          | 0/8 [00:00<?, ?it/s]\rProcessed prompts: 100%|██████████| 8/8 [00:02<00:00,  3.84it/s, est. speed input: 123.02 toks/s, output: 61.51 toks/s]\nThroughput: 3.81 requests/s\n", false, true},
		engines.SGLang: {"[2025-03-01 12:00:00 TP0] Capture cuda graph begin.\n\nWarmup...\n\nBenchmark...\n", true, false},
		engines.TRTLLM: {"[TensorRT-LLM][INFO] Benchmark done. Reporting results...\n", false, false},
	} {
		e := &engines.Engine{Kind: kind, Placement: engines.On(&provision.Host{Name: "h"}), Model: &engines.Model{Repo: "org/model"}, Image: "image:v0.11.0"}
		bench, err := engines.Offline(e, engines.Batch{Requests: 8, Kind: engines.Random, InputTokens: 8, OutputTokens: 8})
		if err != nil {
			t.Fatal(err)
		}
		var told marks
		w := (&engine{d: &plan.Deployment{Engine: e}}).waitFor("", &member{tell: teller{to: func(Event) {}}})
		w.line = func(line string) { told.see(&bench, line) }
		w.read(0, strings.NewReader(c.log), 0, func(error) {})
		if told.begins.IsZero() == c.begins || told.ends.IsZero() == c.ends {
			t.Errorf("%s: %+v", kind, told)
		}
	}
}

// TestDatasetFile: the file is where it was brought to, and the one that is meant.
func TestDatasetFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "chats.json"), []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	const sum = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945" // of "[]"
	local := filepath.Join(dir, "chats.json")
	for _, c := range []struct{ sum, want string }{{"", ""}, {strings.ToUpper(sum), ""}, {strings.Repeat("0", 64), "chats.json: its sha256 is " + sum}} {
		at, source, err := datasetFile(local, "/there", load.Dataset{Kind: load.ShareGPT, Path: "chats.json", SHA256: c.sum})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("sha256 %s: %v, want an error with %q", c.sum, err, c.want)
			}
		} else if err != nil || at != "/there" || source.SHA256 != sum {
			t.Errorf("sha256 %q: %s, %+v, %v", c.sum, at, source, err)
		}
	}
}
