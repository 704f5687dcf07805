package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// handover is how a prompt's KV cache goes from prefill to decode. Prefill keeps a handle for
// each prompt that it has read; decode fetches it before its first token.
type handover struct {
	given   atomic.Int64 // handles that were fetched
	mu      sync.Mutex
	handles map[string]chan handle // by room or block; a decode may come first and wait
}

// handle stands for the KV cache of a prompt.
type handle struct {
	Prompt int `json:"prompt"` // tokens
}

// handleWait is how long decode waits for what is prefilled. The engines wait 300 s.
const handleWait = 30 * time.Second

func (h *handover) slot(id string) chan handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handles == nil {
		h.handles = map[string]chan handle{}
	}
	if h.handles[id] == nil {
		h.handles[id] = make(chan handle, 1)
	}
	return h.handles[id]
}

// give keeps a handle until it is fetched.
func (h *handover) give(id string, prompt int) {
	select {
	case h.slot(id) <- handle{prompt}:
	default: // it is there: the room was used twice
	}
}

// ServeHTTP gives a handle away, once: GET /sim/kv?id=ID. It answers as SGLang's bootstrap
// server as well: GET /route says whether all ranks are registered, and /health that it is up.
func (h *handover) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/sim/kv" {
		answer(w, struct{}{})
		return
	}
	id := r.URL.Query().Get("id")
	ctx, cancel := context.WithTimeout(r.Context(), handleWait)
	defer cancel()
	select {
	case got := <-h.slot(id):
		h.mu.Lock()
		delete(h.handles, id)
		h.mu.Unlock()
		h.given.Add(1)
		answer(w, got)
	case <-ctx.Done():
		w.WriteHeader(http.StatusGone)
	}
}

// fetch takes a handle from where it was made.
func fetch(ctx context.Context, door, id string) (got handle, err error) {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+door+"/sim/kv?id="+id, nil)
	if err != nil {
		return got, err
	}
	res, err := http.DefaultClient.Do(ask)
	if err != nil {
		return got, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return got, errors.New(res.Status)
	}
	return got, json.NewDecoder(io.LimitReader(res.Body, 1<<10)).Decode(&got)
}

// split is what a request says of prefill and decode apart: SGLang's names, vLLM's and
// TensorRT-LLM's.
type split struct {
	BootstrapHost string `json:"bootstrap_host"`
	BootstrapPort int    `json:"bootstrap_port"`
	BootstrapRoom *int64 `json:"bootstrap_room"`
	KV            *kv    `json:"kv_transfer_params"`
	Disaggregated *struct {
		RequestType string `json:"request_type"` // "context_only" or "generation_only"
		State       string `json:"opaque_state"` // "host:port id"
	} `json:"disaggregated_params"`
}

// kv is vLLM's kv_transfer_params.
type kv struct {
	DecodeElsewhere  bool   `json:"do_remote_decode"`
	PrefillElsewhere bool   `json:"do_remote_prefill"`
	Engine           string `json:"remote_engine_id,omitempty"`
	Blocks           []int  `json:"remote_block_ids,omitempty"`
	Host             string `json:"remote_host,omitempty"`
	Port             int    `json:"remote_port,omitempty"`
}

// half is one side of a request: what it gives or takes; the zero value is a whole request.
type half struct {
	gives, takes string // the handle's id
	door         string // where it is taken from
	params       any    // what the prefill answer carries for the router
}

// addedTo is an answer with what the router is to give to the other side.
func (h half) addedTo(answer []byte) []byte {
	if h.params == nil {
		return answer
	}
	answer = bytes.Replace(answer, []byte(`,"kv_transfer_params":null`), nil, 1)
	more, _ := json.Marshal(h.params) // words and numbers
	return append(append(answer[:len(answer)-1], ','), more[1:]...)
}

// saysSplit reports whether a request's body may be one side of it.
func saysSplit(body []byte) bool {
	return bytes.Contains(body, []byte(`"bootstrap_room"`)) || bytes.Contains(body, []byte(`"kv_transfer_params"`)) ||
		bytes.Contains(body, []byte(`"disaggregated_params"`))
}

// halfOf reads from a request's body which side of it this engine is asked for.
func halfOf(s *Server, body []byte) (half, *refusal) {
	var in split
	if !saysSplit(body) {
		if s.cfg.Place.Role == Decode && s.cfg.As == SGLang {
			return half{}, bad("this is a decode server, and the request has no bootstrap room")
		}
		return half{}, nil
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return half{}, bad("request body: " + err.Error())
	}
	switch role := s.cfg.Place.Role; {
	case in.BootstrapRoom != nil:
		room := strconv.FormatInt(*in.BootstrapRoom, 10)
		if role == Prefill {
			return half{gives: room}, nil
		}
		return half{takes: room, door: net.JoinHostPort(in.BootstrapHost, strconv.Itoa(in.BootstrapPort))}, nil
	case in.KV != nil && in.KV.DecodeElsewhere:
		id := s.id("kv")
		host, port, _ := net.SplitHostPort(s.door())
		number, _ := strconv.Atoi(port)
		return half{gives: id, params: map[string]any{"kv_transfer_params": kv{PrefillElsewhere: true, Engine: id, Blocks: []int{1}, Host: host, Port: number}}}, nil
	case in.KV != nil && in.KV.PrefillElsewhere:
		return half{takes: in.KV.Engine, door: net.JoinHostPort(in.KV.Host, strconv.Itoa(in.KV.Port))}, nil
	case in.Disaggregated != nil && in.Disaggregated.RequestType == "context_only":
		id := s.id("ctx")
		return half{gives: id, params: map[string]any{"disaggregated_params": map[string]string{"request_type": "generation_only", "opaque_state": s.door() + " " + id}}}, nil
	case in.Disaggregated != nil:
		door, id, _ := bytes.Cut([]byte(in.Disaggregated.State), []byte(" "))
		return half{takes: string(id), door: string(door)}, nil
	}
	return half{}, nil
}

// door is where others fetch what this server prefilled.
func (s *Server) door() string {
	if s.cfg.Place.Door == "" {
		return s.address
	}
	host, port, _ := net.SplitHostPort(s.cfg.Place.Door)
	return net.JoinHostPort(hostName(host), port)
}

// takeHandle waits for what was prefilled. An engine that prefills by itself says nothing of it,
// and counts it.
func takeHandle(ctx context.Context, s *Server, h half, prompt int) error {
	switch {
	case h.takes == "":
		s.lifetime.local.Add(int64(prompt))
		return nil
	case s.cfg.LocalPrefill:
		s.lifetime.local.Add(int64(prompt))
		return nil
	}
	n := s.lifetime.transfers.Add(1)
	if every := int64(s.cfg.LoseKV); every > 0 && n%every == 0 {
		s.lifetime.failed.Add(1)
		return fmt.Errorf("KVTransferError(bootstrap_room=%s): Failed to get kvcache from prefill instance, it might be dead", h.takes)
	}
	got, err := fetch(ctx, h.door, h.takes)
	if err != nil {
		s.lifetime.failed.Add(1)
		return fmt.Errorf("KVTransferError(bootstrap_room=%s): %w", h.takes, err)
	}
	s.lifetime.external.Add(int64(got.Prompt))
	return nil
}
