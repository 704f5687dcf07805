package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// simVersion is what the engine says about itself where engines name their
// version.
const simVersion = "0.0.0+sim"

func (s *Server) health(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]string{"version": simVersion})
}

func (s *Server) serverInfo(w http.ResponseWriter, _ *http.Request) {
	info := map[string]any{"version": simVersion, "engine": s.cfg.As, "model_path": s.cfg.Model,
		"served_model_name": s.cfg.Model}
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
	list := []map[string]any{{
		"id": s.cfg.Model, "object": "model", "created": s.started.Unix(), "owned_by": s.cfg.As, "root": s.cfg.Model, "max_model_len": s.modelLen(),
	}}
	for _, name := range s.cfg.Adapters {
		list = append(list, map[string]any{"id": name, "object": "model", "created": s.started.Unix(), "owned_by": s.cfg.As, "parent": s.cfg.Model})
	}
	answer(w, map[string]any{"object": "list", "data": list})
}

// modelLen is the longest context: what the command line says, or 131072.
func (s *Server) modelLen() int {
	for _, told := range []map[string]string{s.cfg.Lies, s.cfg.Flags} {
		if n, err := strconv.Atoi(told["max-model-len"]); err == nil {
			return n
		}
	}
	return 131072
}

// flush drops a cache that is not there. SGLang refuses while requests run.
func (s *Server) flush(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	busy := s.inFlight > 0
	s.mu.Unlock()
	if busy && s.cfg.As == SGLang {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "Flush cache failed: requests are running; the operation will not be performed.\n")
		return
	}
	fmt.Fprint(w, "Cache flushed.\n")
}

// tokenize makes one token of every word: ids count up from 1000.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Prompt string `json:"prompt"` // vLLM's name, and SGLang's
		Text   string `json:"text"`
	}
	if err := decode(w, r, &req); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequestError", err.Error())
		return
	}
	n := len(strings.Fields(req.Prompt + " " + req.Text))
	ids := make([]int, n)
	for i := range ids {
		ids[i] = 1000 + i
	}
	answer(w, map[string]any{"tokens": ids, "count": n, "max_model_len": s.modelLen()})
}

// metrics are those that a benchmark reads, under the names of the engine.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	running := s.inFlight
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	fmt.Fprintf(w, "# HELP process_start_time_seconds Simulated.\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.2f\n", float64(s.started.UnixMilli())/1000)
	write := func(name, kind string, value int64) {
		fmt.Fprintf(w, "# HELP %s Simulated.\n# TYPE %s %s\n%s{engine=\"0\",model_name=%s} %d\n", name, name, kind,
			name, quote(s.cfg.Model), value)
	}
	held := func(name string) {
		fmt.Fprintf(w, "# TYPE %s gauge\n%s{engine=\"0\",model_name=%s} %g\n", name, name, quote(s.cfg.Model), float64(s.cfg.HoldKV)/100)
	}
	if s.cfg.As == SGLang {
		write("sglang:num_running_reqs", "gauge", int64(running))
		write("sglang:num_queue_reqs", "gauge", 0)
		held("sglang:token_usage")
		write("sglang:prompt_tokens_total", "counter", s.lifetime.prompt.Load())
		write("sglang:generation_tokens_total", "counter", s.lifetime.generated.Load())
		write("sglang:num_requests_total", "counter", s.lifetime.finished.Load())
		if s.cfg.Place.Role == Prefill {
			write("sglang:kv_transfer_total_mb_count", "histogram", s.kv.given.Load())
		}
		if failed := s.lifetime.failed.Load(); failed > 0 { // like the engine, which shows no counter before it counts
			write("sglang:num_transfer_failed_reqs_total", "counter", failed)
		}
		return
	}
	write("vllm:num_requests_running", "gauge", int64(running))
	write("vllm:num_requests_waiting", "gauge", 0)
	held("vllm:kv_cache_usage_perc")
	write("vllm:prompt_tokens_total", "counter", s.lifetime.prompt.Load())
	write("vllm:generation_tokens_total", "counter", s.lifetime.generated.Load())
	write("vllm:iteration_tokens_total_count", "counter", s.lifetime.chunks.Load())
	write("vllm:request_success_total", "counter", s.lifetime.finished.Load())
	for source, n := range map[string]int64{"local_compute": s.lifetime.local.Load(), "external_kv_transfer": s.lifetime.external.Load()} {
		fmt.Fprintf(w, "vllm:prompt_tokens_by_source_total{source=%q,model_name=%s} %d\n", source, quote(s.cfg.Model), n)
	}
	write("vllm:nixl_num_failed_transfers_total", "counter", s.lifetime.failed.Load())
}
