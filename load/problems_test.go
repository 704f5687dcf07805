package load

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestProblems: each rule names the argument that it is about.
func TestProblems(t *testing.T) {
	good := Workload{Dataset: Dataset{Kind: Random, InputTokens: 5}, Requests: 1, Concurrency: 1, OutputTokens: 1, Endpoint: Completions}
	if p := good.Problems(); p != nil {
		t.Fatalf("a good workload: %v", p)
	}
	shared := Dataset{Kind: SharedPrefix, Groups: 1, PromptsPerGroup: 1, PrefixTokens: 1, QuestionTokens: 1}
	imaged := func(edit func(*Dataset)) func(*Workload) {
		return func(w *Workload) {
			w.Endpoint, w.Dataset = Chat, Dataset{Kind: RandomImages, InputTokens: 5, Images: 2, ImageSizes: []ImageSize{{640, 480, 1}}}
			edit(&w.Dataset)
		}
	}
	for name, c := range map[string]struct {
		edit  func(*Workload)
		field string
	}{
		"arrivals of nothing known": {func(w *Workload) {
			w.Endpoint, w.Dataset = Chat, Dataset{Kind: Conversation, Path: "x", Arrivals: "drawn"}
		}, "dataset.arrivals"},
		"a slowdown of no times":    {func(w *Workload) { w.Endpoint, w.Dataset = Chat, Dataset{Kind: Conversation, Path: "x", Slowdown: 2} }, "dataset.slowdown"},
		"a wait below zero":         {func(w *Workload) { w.Endpoint, w.Dataset = Chat, Dataset{Kind: Conversation, Path: "x", MaxDelay: -1} }, "dataset.max_delay"},
		"no images":                 {imaged(func(d *Dataset) { d.Images = 0 }), "dataset.images"},
		"hundreds of images":        {imaged(func(d *Dataset) { d.Images, d.ImagesRatio = 256, new(1.0) }), "dataset.images"},
		"no size of images":         {imaged(func(d *Dataset) { d.ImageSizes = nil }), "dataset.image_sizes"},
		"a size of nothing":         {imaged(func(d *Dataset) { d.ImageSizes[0].Width = -1 }), "dataset.image_sizes"},
		"a size of no share":        {imaged(func(d *Dataset) { d.ImageSizes[0].Share = 0 }), "dataset.image_sizes"},
		"a size twice":              {imaged(func(d *Dataset) { d.ImageSizes = append(d.ImageSizes, d.ImageSizes[0]) }), "dataset.image_sizes"},
		"a size beyond":             {imaged(func(d *Dataset) { d.ImageSizes[0] = ImageSize{8192, 8192, 1} }), "dataset.image_sizes"},
		"a size of no JPEG":         {imaged(func(d *Dataset) { d.ImageSizes[0] = ImageSize{16, 65536, 1} }), "dataset.image_sizes"},
		"a range of images beyond":  {imaged(func(d *Dataset) { d.ImagesRatio = new(2.0) }), "dataset.images_range_ratio"},
		"more images than may be":   {imaged(func(d *Dataset) { d.MaxImages = 1 }), "dataset.max_images"},
		"images elsewhere":          {func(w *Workload) { imaged(func(*Dataset) {})(w); w.Endpoint = Completions }, "endpoint"},
		"no end":                    {func(w *Workload) { w.Requests = 0 }, "requests"},
		"negative requests":         {func(w *Workload) { w.Requests = -1 }, "requests"},
		"a nanosecond":              {func(w *Workload) { w.Requests, w.Duration = 0, 1 }, "duration"},
		"a century":                 {func(w *Workload) { w.Requests, w.Duration = 0, Duration(100*365*24*time.Hour) }, "duration"},
		"no pace":                   {func(w *Workload) { w.Concurrency = 0 }, "concurrency"},
		"a rate that is none":       {func(w *Workload) { w.Rate = Rate(math.NaN()) }, "rate"},
		"a rate of millennia":       {func(w *Workload) { w.Rate = 1e-9 }, "rate"},
		"overload of a closed loop": {func(w *Workload) { w.StopWhenOverloaded = true }, "stop_when_overloaded"},
		"a burstiness that is none": {func(w *Workload) { w.Rate, w.Burstiness = 1, Rate(math.NaN()) }, "burstiness"},
		"at once without an end":    {func(w *Workload) { w.Requests, w.Duration, w.Concurrency, w.Rate = 0, Duration(time.Second), 0, Inf }, "rate"},
		"two ways to end":           {func(w *Workload) { w.Stages = []Stage{{Duration: Duration(time.Second), Rate: 1}} }, "requests"},
		"a stage of no time":        {func(w *Workload) { w.Requests, w.Stages = 0, []Stage{{Rate: 1}} }, "stages"},
		"a stage of no pace":        {func(w *Workload) { w.Requests, w.Stages = 0, []Stage{{Duration: Duration(time.Second)}} }, "stages"},
		"a rate below zero":         {func(w *Workload) { w.Rate = -1 }, "rate"},
		"nothing left": {func(w *Workload) {
			w.Requests, w.Duration, w.CutBeginning, w.CutEnd = 0, Duration(time.Minute), Duration(30*time.Second), Duration(30*time.Second)
		}, "warmup"},
		"nothing left of stages": {func(w *Workload) {
			w.Requests, w.Stages, w.CutEnd = 0, []Stage{{Duration: Duration(time.Second), Rate: 1}}, Duration(time.Second)
		}, "warmup"},
		"a share of more than all":     {func(w *Workload) { w.Adapters = []Adapter{{"a", 0.5}, {"b", 0.6}} }, "adapters"},
		"a share of nothing":           {func(w *Workload) { w.Adapters = []Adapter{{"a", 0}} }, "adapters"},
		"a share that is none":         {func(w *Workload) { w.Adapters = []Adapter{{"a", math.NaN()}} }, "adapters"},
		"an adapter without a name":    {func(w *Workload) { w.Adapters = []Adapter{{"", 0.5}} }, "adapters"},
		"an adapter twice":             {func(w *Workload) { w.Adapters = []Adapter{{"a", 0.5}, {"a", 0.5}} }, "adapters"},
		"adapters, and another model":  {func(w *Workload) { w.Adapters, w.ExtraBody = []Adapter{{"a", 0.5}}, `{"model": "x"}` }, "extra_body"},
		"adapters, and another path":   {func(w *Workload) { w.Adapters, w.ExtraBody = []Adapter{{"a", 0.5}}, `{"lora_path": "x"}` }, "extra_body"},
		"no output":                    {func(w *Workload) { w.OutputTokens = 0 }, "output_tokens"},
		"a temperature that is none":   {func(w *Workload) { w.Temperature = math.NaN() }, "temperature"},
		"an unknown endpoint":          {func(w *Workload) { w.Endpoint = "audio" }, "endpoint"},
		"a conversation elsewhere":     {func(w *Workload) { w.Dataset = Dataset{Kind: Conversation, Path: "x"} }, "endpoint"},
		"a body that is ours":          {func(w *Workload) { w.ExtraBody = `{"stream": false}` }, "extra_body"},
		"text that cannot be cut":      {func(w *Workload) { w.Endpoint, w.Dataset = Chat, Dataset{Kind: Text, Path: "x", InputTokens: 5} }, "dataset.tokenizer"},
		"a metric that is none":        {func(w *Workload) { w.SLO = []Objective{{"tea", 0, 1}} }, "slo"},
		"a bound of nothing":           {func(w *Workload) { w.SLO = []Objective{{"ttft", 99, 0}} }, "slo"},
		"a first token without stream": {func(w *Workload) { w.NoStream, w.SLO = true, []Objective{{"ttft", 99, 1}} }, "slo"},
		"a first text without stream":  {func(w *Workload) { w.NoStream, w.SLO = true, []Objective{{"ttfa", 0, 1}} }, "slo"},
		"an unknown data set":          {func(w *Workload) { w.Dataset.Kind = "alpaca" }, "dataset.kind"},
		"no file":                      {func(w *Workload) { w.Dataset = Dataset{Kind: JSONL} }, "dataset.path"},
		"empty prompts":                {func(w *Workload) { w.Dataset.InputTokens = 0 }, "dataset.input_tokens"},
		"no groups":                    {func(w *Workload) { w.Dataset = shared; w.Dataset.Groups = 0 }, "dataset.groups"},
		"no questions":                 {func(w *Workload) { w.Dataset = shared; w.Dataset.QuestionTokens = 0 }, "dataset.question_tokens"},
		"a range beyond":               {func(w *Workload) { w.Dataset.RangeRatio = new(2.0) }, "dataset.range_ratio"},
		"an unknown convention":        {func(w *Workload) { w.Dataset.Convention = "hf" }, "dataset.convention"},
		"an unknown filter":            {func(w *Workload) { w.Dataset = Dataset{Kind: ShareGPT, Path: "x"}; w.Dataset.Filter = "hf" }, "dataset.filter"},
		"a filter of random":           {func(w *Workload) { w.Dataset.Filter = ConventionVLLM }, "dataset.filter"},
		"groups of a trace":            {func(w *Workload) { w.Dataset = Dataset{Kind: Trace, Path: "x", Groups: 2} }, "dataset.groups"},
		"a tokenizer of a trace":       {func(w *Workload) { w.Dataset = Dataset{Kind: Trace, Path: "x", Tokenizer: "t"} }, "dataset.tokenizer"},
		"a slowdown that is none":      {func(w *Workload) { w.Dataset = Dataset{Kind: Trace, Path: "x", Slowdown: math.NaN()} }, "dataset.slowdown"},
	} {
		w := good
		c.edit(&w)
		if p := w.Problems(); len(p) != 1 || p[0].Field != c.field || p[0].Text == "" {
			t.Errorf("%s: %+v, want one about %s", name, p, c.field)
		}
	}
	two := good
	two.Requests, two.Endpoint = -1, "x"
	if p := two.Problems(); len(p) != 2 {
		t.Errorf("%+v, want all at once", p)
	}
}

// TestParseAdapter: all of the text counts.
func TestParseAdapter(t *testing.T) {
	for text, want := range map[string]Adapter{"sql=0.5": {"sql", 0.5}, "base:sql=1": {"base:sql", 1}, " sql = .25 ": {"sql", 0.25}, "sql=1e-3": {"sql", 0.001}} {
		if got, err := ParseAdapter(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "sql", "=0.5", " =0.5", "sql=", "sql=0.5abc", "sql=0.5,chat=0.25", "sql=0.5 0.6", "sql=half"} {
		if got, err := ParseAdapter(text); err == nil || err.Error() != fmt.Sprintf("%q is not an adapter: write NAME=SHARE, such as sql=0.25", text) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestParseImageShare: a size has two sides, and a share where it is said.
func TestParseImageShare(t *testing.T) {
	for text, want := range map[string]ImageSize{"640x480": {640, 480, 1}, "64x48=0.25": {64, 48, 0.25}, " 64x48 = 3 ": {64, 48, 3}} {
		if got, err := ParseImageShare(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "640", "640x", "x480", "640x480x3", "640x480x1=1", "axb", "640x480=", "640x480=half"} {
		if got, err := ParseImageShare(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
