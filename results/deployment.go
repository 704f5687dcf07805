package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/telemetry"
)

// Deployment is one start of an engine: one container or process, or several that
// work as one. Of several, it says what holds of all, and what the first one is.
type Deployment struct {
	ID       string            `json:"id"`
	RunID    string            `json:"run_id"`
	Engine   string            `json:"engine"` // "vllm.h200"
	Kind     string            `json:"kind"`
	Host     string            `json:"host"` // of all members: "h200", or "h200-1, h200-2"
	GPUs     string            `json:"gpus"` // of these hosts: "8xH200"
	Model    string            `json:"model"`
	Image    string            `json:"image"`           // as written
	Digest   string            `json:"digest"`          // what really ran; empty for a process
	Command  []string          `json:"command"`         // secrets redacted
	Identity map[string]string `json:"identity"`        // what the deployment id is the hash of
	Facts    json.RawMessage   `json:"facts,omitempty"` // of the host, when it was measured
	Started  time.Time         `json:"started"`
	Ready    float64           `json:"ready_s"` // from container start to the first proven token

	GPUCount     int               `json:"gpu_count,omitempty"`      // GPUs that the engine uses; 0: not known
	PricePerHour float64           `json:"price_per_hour,omitempty"` // USD for the whole hosts; 0: not known of all
	Versions     map[string]string `json:"versions,omitempty"`       // inside the container: "vllm", "torch", "cuda", …
	Served       json.RawMessage   `json:"served,omitempty"`         // the configuration that the engine says it runs with; see ServedBy
	Phases       []Phase           `json:"phases,omitempty"`         // what getting ready took
	CompileCache string            `json:"compile_cache,omitempty"`  // "cold", or "warm" with kernels of an earlier start; empty: none
	Listener     *Listener         `json:"listener,omitempty"`       // whether the run's own engine answered; nil: not known
	Begun        time.Time         `json:"begun,omitzero"`           // when it was given its hosts, and what it needs was brought there; zero: not known
	Stopped      time.Time         `json:"stopped,omitzero"`         // when it was taken down; zero: not known
	Members      []Member          `json:"members,omitempty"`        // of several, in order of starting

	Clients map[string]json.RawMessage `json:"clients,omitempty"` // facts of the other hosts that load is sent from
}

// Member is one container or process of a deployment.
type Member struct {
	Role     string            `json:"role,omitempty"` // "serve", "prefill", "decode", "router"
	Instance int               `json:"instance"`       // of the role, from 0
	Rank     int               `json:"rank"`           // in the instance, from 0
	Host     string            `json:"host,omitempty"`
	GPUs     string            `json:"gpus,omitempty"` // of its host
	Image    string            `json:"image,omitempty"`
	Digest   string            `json:"digest,omitempty"`
	Command  []string          `json:"command,omitempty"`
	Facts    json.RawMessage   `json:"facts,omitempty"`
	GPUCount int               `json:"gpu_count,omitempty"` // that it uses
	Price    float64           `json:"price_per_hour,omitempty"`
	Versions map[string]string `json:"versions,omitempty"`
	Listener *Listener         `json:"listener,omitempty"`
}

// SetMembers says of which members the deployment is. Their hosts and GPUs are added up.
func (d *Deployment) SetMembers(all []Member) {
	first := all[0]
	d.Image, d.Digest, d.Command, d.Facts, d.Versions, d.Listener =
		first.Image, first.Digest, first.Command, first.Facts, first.Versions, first.Listener
	d.Host, d.GPUs, d.GPUCount, d.PricePerHour, d.Members = "", "", 0, 0, nil
	hosts, working, known := map[string]bool{}, map[string]bool{}, true
	for _, m := range all {
		d.GPUCount += m.GPUCount
		if m.Role != "router" && !working[m.Host] { // GPUs beside a router alone have no part in it
			working[m.Host] = true
			d.GPUs = AddGPUs(d.GPUs, m.GPUs)
		}
		if !hosts[m.Host] {
			hosts[m.Host] = true
			d.Host = joined(d.Host, m.Host)
			d.PricePerHour += m.Price
			known = known && (m.Price > 0 || m.GPUs == "")
		}
	}
	if !known { // of one of them alone it would be too little
		d.PricePerHour = 0
	}
	if len(all) > 1 {
		d.Members = slices.Clone(all)
	}
}

// All returns the members: of a deployment that says nothing of them itself, if it was
// started; an engine that somebody else runs has none.
func (d *Deployment) All() []Member {
	if len(d.Members) > 0 || len(d.Command) == 0 && d.Image == "" {
		return d.Members
	}
	return []Member{{
		Role: "serve", Host: d.Host, GPUs: d.GPUs, Image: d.Image, Digest: d.Digest, Command: d.Command, Facts: d.Facts,
		GPUCount: d.GPUCount, Price: d.PricePerHour, Versions: d.Versions, Listener: d.Listener,
	}}
}

// Name tells the member from the others of its deployment: "decode 0", "serve 0 rank 1",
// "router".
func (m Member) Name() string {
	name := cmp.Or(m.Role, "member")
	if m.Role != "router" {
		name += " " + strconv.Itoa(m.Instance)
	}
	if m.Rank > 0 {
		name += " rank " + strconv.Itoa(m.Rank)
	}
	return name
}

// ServedBy is the configuration that a member says it runs with. Of several, Served has what
// each says under its name.
func (d *Deployment) ServedBy(m Member) json.RawMessage {
	if len(d.Members) == 0 {
		return d.Served
	}
	var said map[string]json.RawMessage
	if json.Unmarshal(d.Served, &said) != nil {
		return nil // whoever stored it had something else in mind
	}
	return said[m.Name()]
}

// StreamInterval is how many tokens the engine sends at a time, as its flags say: of several roles
// that which generates. 0: they do not say.
func (d *Deployment) StreamInterval() int {
	for _, role := range []string{"", "decode.", "serve."} {
		for _, name := range []string{"--stream-interval", "config.stream_interval", "config.stream-interval"} {
			if n, err := strconv.Atoi(d.Identity[role+name]); err == nil {
				return n
			}
		}
	}
	return 0
}

// ForcedAcceptance is how many tokens a step of speculative decoding brings because the engine was told
// to accept drafts whatever they are, and the setting that says it: as [telemetry.ForcedAcceptance] does.
func (d *Deployment) ForcedAcceptance() (tokens float64, by string) {
	return telemetry.ForcedAcceptance(d.Identity)
}

// BatchInvariant reports whether the engine was told to answer alike whatever else it answers meanwhile. Of several roles it is not known.
func (d *Deployment) BatchInvariant() bool {
	for _, name := range []string{"env VLLM_BATCH_INVARIANT", "--enable-deterministic-inference"} {
		if value, said := d.Identity[name]; said && value != "0" && value != "false" {
			return true
		}
	}
	return false
}

// GPUsUsed is how many GPUs the engine uses; 0: not known.
func (d *Deployment) GPUsUsed() int { return cmp.Or(d.GPUCount, CountGPUs(d.GPUs)) }

// CountGPUs reads "8xH200", and of several hosts "16xH200, 8xB200"; 0: not known of all.
func CountGPUs(gpus string) (sum int) {
	for part := range strings.SplitSeq(gpus, ", ") {
		n, _, found := strings.Cut(part, "x")
		count, err := strconv.Atoi(n)
		if !found || err != nil {
			return 0
		}
		sum += count
	}
	return sum
}

func joined(list, name string) string { return strings.Trim(list+", "+name, ", ") }

// AddGPUs adds "8xH200" and "8xH200" up to "16xH200"; GPUs of another model stand
// beside them.
func AddGPUs(sum, more string) string {
	count, model, _ := strings.Cut(more, "x")
	n, err := strconv.Atoi(count)
	all := strings.Split(sum, ", ")
	for i, part := range all {
		before, same, _ := strings.Cut(part, "x")
		if m, wrong := strconv.Atoi(before); err == nil && wrong == nil && same == model {
			all[i] = fmt.Sprintf("%dx%s", m+n, model)
			return strings.Join(all, ", ")
		}
	}
	return joined(sum, more)
}

// Phase is a part of getting ready: pulling, loading weights, compiling, capturing
// graphs.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Listener is whether the server that answered on an engine's port was the one that
// the run had started, and not an older one or somebody else's.
type Listener struct {
	Proved bool   `json:"proved"`
	By     string `json:"by"` // what proved it, or why it could not be
}

// String is the proof for people.
func (l Listener) String() string {
	if l.Proved {
		return l.By
	}
	return "not proved to be the one that was started: " + l.By
}

// WithoutPrices is the deployment, and nothing of what its hosts cost.
func (d Deployment) WithoutPrices() Deployment {
	d.PricePerHour, d.Members = 0, slices.Clone(d.Members)
	for i := range d.Members {
		d.Members[i].Price = 0
	}
	return d
}
