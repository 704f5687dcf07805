package sim

import (
	"fmt"
	"net/http"
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
	answer(w, map[string]any{"version": simVersion, "engine": s.cfg.As, "model_path": s.cfg.Model, "served_model_name": s.cfg.Model})
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"object": "list",
		"data": []map[string]any{{
			"id": s.cfg.Model, "object": "model", "created": s.started.Unix(), "owned_by": s.cfg.As, "root": s.cfg.Model, "max_model_len": 131072,
		}},
	})
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
	answer(w, map[string]any{"tokens": ids, "count": n, "max_model_len": 131072})
}

// metrics are those that a benchmark reads, under the names of the engine.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	running := s.inFlight
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	write := func(name, kind string, value int64) {
		fmt.Fprintf(w, "# HELP %s Simulated.\n# TYPE %s %s\n%s{engine=\"0\",model_name=%s} %d\n", name, name, kind, name, quote(s.cfg.Model), value)
	}
	if s.cfg.As == SGLang {
		write("sglang:num_running_reqs", "gauge", int64(running))
		write("sglang:num_queue_reqs", "gauge", 0)
		write("sglang:prompt_tokens_total", "counter", s.lifetime.prompt.Load())
		write("sglang:generation_tokens_total", "counter", s.lifetime.generated.Load())
		write("sglang:num_requests_total", "counter", s.lifetime.finished.Load())
		return
	}
	write("vllm:num_requests_running", "gauge", int64(running))
	write("vllm:num_requests_waiting", "gauge", 0)
	write("vllm:prompt_tokens_total", "counter", s.lifetime.prompt.Load())
	write("vllm:generation_tokens_total", "counter", s.lifetime.generated.Load())
	write("vllm:iteration_tokens_total_count", "counter", s.lifetime.chunks.Load())
	write("vllm:request_success_total", "counter", s.lifetime.finished.Load())
}
