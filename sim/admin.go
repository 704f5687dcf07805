package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// simVersion is what the engine says about itself where engines name their
// version.
const simVersion = "0.0.0+sim"

func (s *Server) health(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]string{"version": simVersion})
}

// lacking answers where the engine has nothing, or not by that method.
func lacking(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"detail":"%s"}`, http.StatusText(status))
	}
}

func (s *Server) serverInfo(w http.ResponseWriter, _ *http.Request) {
	info := map[string]any{"version": simVersion, "model_path": s.cfg.Model, "served_model_name": s.cfg.Model}
	if s.cfg.As == VLLM {
		info = map[string]any{"vllm_config": map[string]any{"model_config": map[string]any{"model": s.cfg.Model, "served_model_name": s.cfg.Model}}}
	}
	tellFlags(s, info)
	answer(w, info)
}

// tellFlags adds the flags of the command line under the names, and in the parts,
// in which the engine tells them.
func tellFlags(s *Server, info map[string]any) {
	told := map[string]string{}
	maps.Copy(told, s.cfg.Flags)
	maps.Copy(told, s.cfg.Lies)
	for flag, text := range told {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			value = text
		}
		in, name := info, strings.ReplaceAll(flag, "-", "_")
		switch s.cfg.As {
		case SGLang:
			if name == "tp" || name == "dp" || name == "pp" {
				name += "_size"
			}
		case VLLM:
			for _, part := range []string{"vllm_config", vllmParts[name]} {
				if part == "" {
					continue
				}
				if in[part] == nil {
					in[part] = map[string]any{}
				}
				in = in[part].(map[string]any)
			}
			if name == "kv_cache_dtype" {
				name = "cache_dtype"
			}
		}
		in[name] = value
	}
}

// vllmParts are the parts of VllmConfig in which vLLM tells its flags: a list of its own, as the
// engine is one. From the table by which answers are read a wrong row would read back as right.
var vllmParts = map[string]string{
	"tensor_parallel_size": "parallel_config", "pipeline_parallel_size": "parallel_config", "data_parallel_size": "parallel_config",
	"max_model_len": "model_config", "dtype": "model_config", "quantization": "model_config",
	"kv_cache_dtype": "cache_config", "gpu_memory_utilization": "cache_config", "enable_prefix_caching": "cache_config",
	"enable_chunked_prefill": "scheduler_config", "max_num_batched_tokens": "scheduler_config", "max_num_seqs": "scheduler_config",
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	list := []map[string]any{}
	longest, _ := s.modelLen()
	for _, name := range append([]string{s.cfg.Model}, s.cfg.Adapters...) {
		one := map[string]any{"id": name, "object": "model", "created": s.started.Unix(), "owned_by": s.cfg.As, "root": name,
			"parent": nil, "max_model_len": longest}
		if name != s.cfg.Model {
			one["parent"] = s.cfg.Model
		}
		if s.cfg.As == VLLM {
			one["permission"] = []any{map[string]any{"id": s.id("modelperm"), "object": "model_permission", "created": s.started.Unix(),
				"allow_create_engine": false, "allow_sampling": true, "allow_logprobs": true, "allow_search_indices": false, "allow_view": true,
				"allow_fine_tuning": false, "organization": "*", "group": nil, "is_blocking": false}}
		}
		list = append(list, one)
	}
	answer(w, map[string]any{"object": "list", "data": list})
}

// modelLen is the longest context: what the command line says, or 131072, beyond which it takes prompts too.
func (s *Server) modelLen() (tokens int, told bool) {
	for _, told := range []map[string]string{s.cfg.Lies, s.cfg.Flags} {
		for _, name := range []string{"max-model-len", "context-length"} {
			if n, err := strconv.Atoi(told[name]); err == nil && n > 0 {
				return n, true
			}
		}
	}
	return 131072, false
}

// flush drops a cache that is not there. While requests run the engines do not: SGLang refuses, and vLLM says so.
func (s *Server) flush(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	busy := s.inFlight > 0
	s.mu.Unlock()
	switch {
	case s.cfg.As == VLLM:
		answer(w, map[string]bool{"success": !busy})
	case busy && s.cfg.As == SGLang:
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, "Flush cache failed.\n")
	default:
		io.WriteString(w, "Cache flushed.\nPlease check backend logs for more details. "+
			"(When there are running or waiting requests, the operation will not be performed.)\n")
	}
}

// firstID is the id of the first word.
const firstID = 1000

// tokenize makes one token of every word: ids count up from 1000.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Prompt string `json:"prompt"` // vLLM's name, and SGLang's
		Text   string `json:"text"`
	}
	if err := decode(w, r, &req); err != nil {
		refuse(w, s.cfg.As, http.StatusBadRequest, "BadRequestError", err.Error())
		return
	}
	n := len(strings.Fields(req.Prompt + " " + req.Text))
	ids := make([]int, n)
	for i := range ids {
		ids[i] = firstID + i
	}
	longest, _ := s.modelLen()
	answer(w, map[string]any{"tokens": ids, "count": n, "max_model_len": longest})
}

// loads is what SGLang's scheduler says of itself when it is asked.
func (s *Server) loads(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	running := s.inFlight
	s.mu.Unlock()
	const room = 65536 // tokens
	held := room * s.cfg.HoldKV / 100
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"timestamp":"%s","version":"%s","accelerator":null,"num_accelerators":1,"loads":[{"timestamp":%d,"dp_rank":0,"num_running_reqs":%d,`+
		`"num_waiting_reqs":0,"num_waiting_uncached_tokens":0,"num_used_tokens":%d,"num_total_tokens":%[5]d,"num_active_tokens":0,`+
		`"num_prealloc_ready_tokens":0,"max_total_num_tokens":%[6]d,"max_running_requests":4096,"token_usage":%[7]g,"gen_throughput":0,"cache_hit_rate":0,`+
		`"utilization":0,"total_prefill_uncached_tokens":%[8]d,"total_prefill_busy_us":0,"decode_moments":[0,0,0,0,0,0],`+
		`"memory":{"weight_gb":0,"kv_cache_gb":0,"graph_gb":0,"token_capacity":%[6]d},"disaggregation":{"mode":"null","prefill_bootstrap_queue_reqs":0,`+
		`"prefill_inflight_queue_reqs":0,"decode_prealloc_queue_reqs":0,"decode_transfer_queue_reqs":0,"decode_retracted_queue_reqs":0,`+
		`"kv_transfer_speed_gb_s":0,"kv_transfer_latency_ms":0},"queues":{"waiting":0,"grammar":0,"paused":0,"retracted":0,"prealloc_ready":0}}]}`,
		time.Now().UTC().Format(time.RFC3339), simVersion, time.Now().Unix(), running, held, room, float64(s.cfg.HoldKV)/100, s.lifetime.prompt.Load())
}

// metrics are those that a benchmark reads, under the names and with the labels of the engine.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	running := s.inFlight
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	model := "model_name=" + quote(s.cfg.Model)
	write := func(name, kind, labels string, value float64) {
		if kind != "" {
			fmt.Fprintf(w, "# HELP %s Simulated.\n# TYPE %s %s\n", name, name, kind)
		}
		fmt.Fprintf(w, "%s{%s} %s\n", name, labels, strconv.FormatFloat(value, 'f', -1, 64))
	}
	held := float64(s.cfg.HoldKV) / 100
	prompt, generated, finished := float64(s.lifetime.prompt.Load()), float64(s.lifetime.generated.Load()), float64(s.lifetime.finished.Load())
	failed := float64(s.lifetime.failed.Load())
	if s.cfg.As == SGLang {
		unit := `engine_type="unified",`
		if role := s.cfg.Place.Role; role != "" {
			unit = fmt.Sprintf(`engine_type=%q,`, role)
		}
		rank := unit + model + `,moe_ep_rank="0",pp_rank="0",tp_rank="0"`
		total := unit + `is_streaming="true",` + model
		write("sglang:num_running_reqs", "gauge", rank, float64(running))
		write("sglang:num_queue_reqs", "gauge", rank, 0)
		write("sglang:token_usage", "gauge", rank, held)
		write("sglang:prompt_tokens_total", "counter", total, prompt)
		write("sglang:generation_tokens_total", "counter", total, generated)
		write("sglang:num_requests_total", "counter", total, finished)
		if s.cfg.Place.Role == Prefill {
			write("sglang:kv_transfer_total_mb_count", "histogram", rank, float64(s.kv.given.Load()))
		}
		if failed > 0 { // like the engine, which shows no counter before it counts
			write("sglang:num_transfer_failed_reqs_total", "counter", rank, failed)
		}
		return
	}
	fmt.Fprintf(w, "# HELP process_start_time_seconds Simulated.\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.2f\n",
		float64(s.started.UnixMilli())/1000)
	engine := `engine="0",` + model
	write("vllm:num_requests_running", "gauge", engine, float64(running))
	write("vllm:num_requests_waiting", "gauge", engine, 0)
	write("vllm:kv_cache_usage_perc", "gauge", engine, held)
	write("vllm:prompt_tokens_total", "counter", engine, prompt)
	write("vllm:generation_tokens_total", "counter", engine, generated)
	write("vllm:iteration_tokens_total_count", "counter", engine, float64(s.lifetime.chunks.Load()))
	write("vllm:request_success_total", "counter", `engine="0",finished_reason="length",`+model, finished)
	write("vllm:prompt_tokens_by_source_total", "counter", engine+`,source="local_compute"`, float64(s.lifetime.local.Load()))
	write("vllm:prompt_tokens_by_source_total", "", engine+`,source="external_kv_transfer"`, float64(s.lifetime.external.Load()))
	if _, transfers := s.cfg.Flags["kv-transfer-config"]; transfers || s.cfg.Place.Role != "" {
		write("vllm:nixl_num_failed_transfers_total", "counter", engine, failed)
	}
}
