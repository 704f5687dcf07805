package load

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBodies: what is sent to each endpoint, byte for byte. A body that changes is another load.
func TestBodies(t *testing.T) {
	got := map[string]bool{}
	for _, endpoint := range Endpoints() {
		for _, form := range []Form{IDs, Words, Messages} {
			for _, adapter := range []string{"", "sql"} {
				for _, w := range []Workload{
					{Endpoint: endpoint, IgnoreEOS: true},
					{Endpoint: endpoint, NoStream: true, Temperature: 0.5, ExtraBody: `{"top_p": 0.9, "sampling_params": {"min_p": 0.1}}`},
				} {
					template, err := NewTemplate(Target{Model: "m"}, w, form, adapter)
					if err != nil {
						t.Fatal(err)
					}
					got[string(template.Fill([]byte("PROMPT"), 7, nil))] = true
				}
			}
		}
	}
	if diff := cmp.Diff(strings.Fields(bodies), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}

const bodies = `
{"ignore_eos":true,"input":PROMPT,"max_output_tokens":7,"model":"m","store":false,"stream":true,"temperature":0}
{"ignore_eos":true,"input":PROMPT,"max_output_tokens":7,"model":"sql","store":false,"stream":true,"temperature":0}
{"ignore_eos":true,"max_tokens":7,"messages":PROMPT,"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0}
{"ignore_eos":true,"max_tokens":7,"messages":PROMPT,"model":"sql","stream":true,"stream_options":{"include_usage":true},"temperature":0}
{"ignore_eos":true,"max_tokens":7,"messages":[{"content":PROMPT,"role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0}
{"ignore_eos":true,"max_tokens":7,"messages":[{"content":PROMPT,"role":"user"}],"model":"sql","stream":true,"stream_options":{"include_usage":true},"temperature":0}
{"ignore_eos":true,"max_tokens":7,"model":"m","prompt":PROMPT,"stream":true,"stream_options":{"include_usage":true},"temperature":0}
{"ignore_eos":true,"max_tokens":7,"model":"sql","prompt":PROMPT,"stream":true,"stream_options":{"include_usage":true},"temperature":0}
{"input":PROMPT,"max_output_tokens":7,"model":"m","sampling_params":{"min_p":0.1},"store":false,"stream":false,"temperature":0.5,"top_p":0.9}
{"input":PROMPT,"max_output_tokens":7,"model":"sql","sampling_params":{"min_p":0.1},"store":false,"stream":false,"temperature":0.5,"top_p":0.9}
{"input":PROMPT,"model":"m","sampling_params":{"min_p":0.1},"top_p":0.9}
{"input":PROMPT,"model":"m"}
{"input":PROMPT,"model":"sql","sampling_params":{"min_p":0.1},"top_p":0.9}
{"input":PROMPT,"model":"sql"}
{"input_ids":PROMPT,"lora_path":"sql","sampling_params":{"ignore_eos":true,"max_new_tokens":7,"temperature":0},"stream":true}
{"input_ids":PROMPT,"lora_path":"sql","sampling_params":{"max_new_tokens":7,"min_p":0.1,"temperature":0.5},"stream":false,"top_p":0.9}
{"input_ids":PROMPT,"sampling_params":{"ignore_eos":true,"max_new_tokens":7,"temperature":0},"stream":true}
{"input_ids":PROMPT,"sampling_params":{"max_new_tokens":7,"min_p":0.1,"temperature":0.5},"stream":false,"top_p":0.9}
{"lora_path":"sql","sampling_params":{"ignore_eos":true,"max_new_tokens":7,"temperature":0},"stream":true,"text":PROMPT}
{"lora_path":"sql","sampling_params":{"max_new_tokens":7,"min_p":0.1,"temperature":0.5},"stream":false,"text":PROMPT,"top_p":0.9}
{"max_tokens":7,"messages":PROMPT,"model":"m","sampling_params":{"min_p":0.1},"stream":false,"temperature":0.5,"top_p":0.9}
{"max_tokens":7,"messages":PROMPT,"model":"sql","sampling_params":{"min_p":0.1},"stream":false,"temperature":0.5,"top_p":0.9}
{"max_tokens":7,"messages":[{"content":PROMPT,"role":"user"}],"model":"m","sampling_params":{"min_p":0.1},"stream":false,"temperature":0.5,"top_p":0.9}
{"max_tokens":7,"messages":[{"content":PROMPT,"role":"user"}],"model":"sql","sampling_params":{"min_p":0.1},"stream":false,"temperature":0.5,"top_p":0.9}
{"max_tokens":7,"model":"m","prompt":PROMPT,"sampling_params":{"min_p":0.1},"stream":false,"temperature":0.5,"top_p":0.9}
{"max_tokens":7,"model":"sql","prompt":PROMPT,"sampling_params":{"min_p":0.1},"stream":false,"temperature":0.5,"top_p":0.9}
{"model":"m","query":PROMPT,"sampling_params":{"min_p":0.1},"top_p":0.9}
{"model":"m","query":PROMPT}
{"model":"sql","query":PROMPT,"sampling_params":{"min_p":0.1},"top_p":0.9}
{"model":"sql","query":PROMPT}
{"sampling_params":{"ignore_eos":true,"max_new_tokens":7,"temperature":0},"stream":true,"text":PROMPT}
{"sampling_params":{"max_new_tokens":7,"min_p":0.1,"temperature":0.5},"stream":false,"text":PROMPT,"top_p":0.9}
`
