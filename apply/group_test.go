package apply_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/origin"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/results"
	"hclbench/telemetry"
	"hclbench/testhost"
)

// flags are flags written as "name=value" or "name".
func flags(words ...string) (list []engines.Flag) {
	for _, w := range words {
		name, v, said := strings.Cut(w, "=")
		f := engines.Flag{Name: name}
		if text := provision.Plain(v); said {
			f.Value = &text
		}
		list = append(list, f)
	}
	return list
}

// splitOf is prefill and decode behind a router: simulated engines, run as processes of
// hosts, each with flags of its own.
func splitOf(as string, prefill, decode, router *provision.Host, more map[string][]string) *engines.Engine {
	sim := func(role string) *engines.Engine {
		e := &engines.Engine{Kind: engines.Sim, Name: role, Flags: flags(append(more[role], "as="+as)...), Model: &engines.Model{Repo: "m"}}
		slices.SortFunc(e.Flags, func(a, b engines.Flag) int { return strings.Compare(a.Name, b.Name) })
		e.Ready.Stall = 5 * time.Second
		return e
	}
	front := sim("router")
	front.Model, front.Router = nil, true
	front.Flags = flags(more["router"]...)
	on := func(role string, e *engines.Engine, h *provision.Host) engines.Instance {
		return engines.Instance{Role: role, Engine: e, Hosts: []*provision.Host{h}}
	}
	return &engines.Engine{Kind: engines.GroupKind, Name: "pd", Placement: engines.Placement{
		on(engines.Prefill, sim(engines.Prefill), prefill), on(engines.Decode, sim(engines.Decode), decode), on(engines.Route, front, router),
	}}
}

// cellsOf is a lab with one benchmark of an engine.
func cellsOf(e *engines.Engine, hosts []*provision.Host, cells int) *hcl.Config {
	b := hcl.Benchmark{Name: "chat", Repeat: 1}
	endpoint := load.Completions
	for _, in := range e.Placement {
		if in.Engine != nil && slices.ContainsFunc(in.Engine.Flags, func(f engines.Flag) bool {
			return f.Name == "as" && f.Value.Reveal() == engines.SGLang
		}) {
			endpoint = load.Generate // SGLang's router reads no token ids on completions
		}
	}
	for n := range cells {
		b.Cells = append(b.Cells, hcl.Cell{
			Axes: []hcl.Axis{{Name: "concurrency", Value: int64(n + 1)}}, Engine: e,
			Workload: load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 40}, Requests: 8, Concurrency: n + 1,
				OutputTokens: 6, IgnoreEOS: true, Endpoint: endpoint},
		})
	}
	return &hcl.Config{Lab: hcl.Lab{Name: "groups", Lease: hcl.DefaultLease}, Hosts: hosts, Engines: []*engines.Engine{e}, Benchmarks: []hcl.Benchmark{b}}
}

// fleet are hosts without Docker in networks of their own.
func fleet(t *testing.T, n int) (b *bench, machines []*testhost.Host, blocks []*provision.Host) {
	t.Helper()
	for i := range n {
		h := testhost.New(t, testhost.Options{Namespace: true})
		machines = append(machines, h)
		blocks = append(blocks, &provision.Host{
			Name: "n" + string(rune('0'+i)), Address: h.Addr, User: h.User, IdentityFile: h.IdentityFile, Runtime: provision.Process,
		})
	}
	cabled, err := testhost.Cable(machines...)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range cabled {
		blocks[i].Fabric.Address = at
	}
	b = newBench(t, machines[0])
	b.opt.SSH.KnownHosts = nil
	for _, h := range machines {
		b.opt.SSH.KnownHosts = append(b.opt.SSH.KnownHosts, h.KnownHosts)
	}
	return b, machines, blocks
}

// TestGroup has prefill, decode and a router on three hosts come up, be measured and go.
func TestGroup(t *testing.T) {
	t.Parallel()
	b, machines, hosts := fleet(t, 3)
	words := filepath.Join(t.TempDir(), "words.txt")
	if err := os.WriteFile(words, []byte(strings.Repeat("one two three ", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{engines.SGLang, engines.VLLM} {
		e := splitOf(as, hosts[0], hosts[1], hosts[2], nil)
		lab := cellsOf(e, hosts, 2)
		w := &lab.Benchmarks[0].Cells[1].Workload
		// The router has no /tokenize, the workers have.
		w.Dataset = load.Dataset{Kind: load.Text, Path: words, InputTokens: 40}
		if as == engines.VLLM { // long enough to be looked at twice
			w.Requests, w.Duration = 0, load.Duration(2500*time.Millisecond)
		}
		r := b.carryOut(t.Context(), plan.New(lab, plan.Options{}), nil)
		if r.err != nil || r.Valid+r.Suspect != 2 {
			t.Fatalf("%s: %+v, %v\n%s", as, r.Outcome, r.err, told(r))
		}
		roles := map[string]string{}
		for _, m := range r.rows[0].Deployment.Members {
			roles[m.Role] = m.Host
		}
		want := map[string]string{"prefill": "n0", "decode": "n1", "router": "n2"}
		if !maps.Equal(roles, want) {
			t.Errorf("members %v, want %v", roles, want)
		}
		if got := readOf(r.rows[1].Telemetry); as == engines.VLLM && !slices.Equal(got, []string{
			"decode 0 of n1", "fabric2", "fabric3 of n0", "fabric3 of n1", "host", "host of n0", "host of n1", "prefill 0 of n0",
		}) {
			t.Errorf("telemetry of %q, problems %q", got, r.rows[1].Telemetry.Problems)
		}
		if r.rows[0].Summary.Failed > 0 || r.rows[0].Summary.Completed != 8 {
			t.Errorf("summary %+v", r.rows[0].Summary)
		}
	}
	for i := range machines {
		b.host = machines[i]
		b.noAgent()
	}
}

// TestLeftovers: a cell that begins while a member holds what came before it is doubted.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	b, _, hosts := fleet(t, 2)
	e := splitOf(engines.SGLang, hosts[0], hosts[1], hosts[1], map[string][]string{"decode": {"hold-kv=12"}})
	e.Placement[1].Engine.Ready.Stall = time.Second
	r := b.carryOut(t.Context(), plan.New(cellsOf(e, hosts, 1), plan.Options{}), nil)
	const want = "decode 0 on n1: 12 % of its KV cache was in use when the cell began, without a request"
	if r.err != nil || r.Suspect != 1 || !slices.Contains(r.rows[0].Summary.Verdict.Texts(), want) {
		t.Errorf("%+v, %v, %+v\n%s", r.Outcome, r.err, r.rows[0].Verdict(), told(r))
	}
}

// readOf are the sources of what was read, with their hosts.
func readOf(r *telemetry.Record) (sources []string) {
	for _, s := range r.Series {
		name := strings.TrimSuffix(s.Of+" of "+s.Host, " of ")
		if !slices.Contains(sources, name) {
			sources = append(sources, name)
		}
	}
	slices.Sort(sources)
	return sources
}

// told are the messages of a run.
func told(r ran) string {
	var s strings.Builder
	for _, e := range r.events {
		if e.Message != "" {
			s.WriteString(e.Type + " " + e.Host + " " + e.Role + " " + e.Message + "\n")
		}
	}
	return s.String()
}

func errorsOf(rows []results.Row) (list []string) {
	for _, r := range rows {
		list = append(list, r.Error)
	}
	return list
}

// TestRanks has engines over three hosts, whose rank 0 answers when all are there.
func TestRanksOfHosts(t *testing.T) {
	t.Parallel()
	b, machines, hosts := fleet(t, 3)
	for name, c := range map[string]struct {
		more []string
		want string // empty: it works
	}{
		"sglang":                     {[]string{"as=sglang"}, ""},
		"vllm":                       {[]string{"as=vllm"}, ""},
		"vllm data parallel":         {[]string{"as=vllm", "data-parallel-size=24"}, ""},
		"a rank says it is up early": {[]string{"as=sglang", "early-ready=true"}, ""},
		"all die before they are up": {[]string{"as=vllm", "not-ready-for=1h", "die-after=500ms"}, "exited with code 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b.TB = t
			e := &engines.Engine{Kind: engines.Sim, Name: "wide", Placement: engines.On(hosts...), Model: &engines.Model{Repo: "m"}, Flags: flags(c.more...)}
			e.Ready.Stall = 20 * time.Second
			slices.SortFunc(e.Flags, func(a, b engines.Flag) int { return strings.Compare(a.Name, b.Name) })
			r := b.carryOut(t.Context(), plan.New(cellsOf(e, hosts, 1), plan.Options{}), nil)
			if c.want == "" && (r.err != nil || r.Valid+r.Suspect != 1) || c.want != "" && (r.Void != 1 || !strings.Contains(r.rows[0].Error, c.want)) {
				t.Errorf("%+v, %v, %v\n%s", r.Outcome, r.err, errorsOf(r.rows), told(r))
			}
			for i := range machines {
				b.host = machines[i]
				b.noAgent()
			}
		})
	}
}

// TestOtherWeights: hosts whose caches mean different commits by one name start nothing.
func TestOtherWeights(t *testing.T) {
	t.Parallel()
	b, machines, hosts := fleet(t, 2)
	for i, commit := range []string{"aaaa", "bbbb"} {
		model := filepath.Join(machines[i].Home, "models/hub/models--org--model")
		for file, text := range map[string]string{"refs/main": commit, "snapshots/" + commit + "/config.json": "{}"} {
			at := filepath.Join(model, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o777), os.WriteFile(at, []byte(text), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
	}
	e := &engines.Engine{
		Kind: engines.VLLM, Name: "wide", Placement: engines.On(hosts...),
		Model: &engines.Model{Name: "m", Repo: "org/model", Cache: "~/models", Pos: "lab.hcl:3"},
	}
	r := b.carryOut(t.Context(), plan.New(cellsOf(e, hosts, 1), plan.Options{}), nil)
	if r.err != nil || r.Void != 1 {
		t.Fatalf("%+v, %v\n%s", r.Outcome, r.err, told(r))
	}
	for _, want := range []string{"model m (lab.hcl:3) is not the same on host n0 and on host n1", "commit aaaa and commit bbbb"} {
		if !strings.Contains(r.rows[0].Error, want) {
			t.Errorf("the error is %q, want %q", r.rows[0].Error, want)
		}
	}
}

// TestFetchEverywhere: all hosts fetch the model at once. Where one fails, and where the run is
// broken off, the others end too.
func TestFetchEverywhere(t *testing.T) {
	t.Parallel()
	b, machines, hosts := fleet(t, 2)
	hub := testhost.NewHub(t, "127.0.0.1:0", map[string][]byte{"config.json": []byte("{}")})
	reached, err := machines[0].Listen(net.JoinHostPort(hosts[0].Fabric.Address, "0")) // by both
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: hub}
	go server.Serve(reached)
	t.Cleanup(func() { server.Close() })
	b.opt.Hub = origin.Hub{URL: "http://" + reached.Addr().String()}
	e := &engines.Engine{
		Kind: engines.VLLM, Name: "wide", Placement: engines.On(hosts...),
		Model: &engines.Model{Name: "m", Repo: hub.Repo, Cache: "~/models", Download: true, Pos: "lab.hcl:3"},
	}
	for _, fails := range []bool{true, false} {
		b.TB = t
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		both, asked, gone := make(chan struct{}), atomic.Int64{}, make(chan string, 2)
		// Nobody gets an answer before both have asked.
		hub.Before(func(w http.ResponseWriter, r *http.Request, _ string) bool {
			if asked.Add(1) == 2 {
				close(both)
				if fails {
					w.WriteHeader(http.StatusForbidden)
					return true
				}
				interrupt()
			}
			select {
			case <-both:
			case <-r.Context().Done():
				return true
			}
			<-r.Context().Done()
			from, _, _ := net.SplitHostPort(r.RemoteAddr)
			gone <- from
			return true
		})
		r := b.carryOut(ctx, plan.New(cellsOf(e, hosts, 1), plan.Options{}), nil)
		if n := asked.Load(); n != 2 {
			t.Fatalf("fails: %v, asked %d times\n%s", fails, n, told(r))
		}
		var looked []string
		for _, e := range r.events {
			if strings.HasPrefix(e.Message, "looking for model org/model") {
				looked = append(looked, e.Host)
			}
		}
		if slices.Sort(looked); !slices.Equal(looked, []string{"n0", "n1"}) {
			t.Errorf("fails: %v, told of it on %q\n%s", fails, looked, told(r))
		}
		first := <-gone
		if fails {
			testhost.WantError(t, errors.New(r.rows[0].Error), nil, "model m (lab.hcl:3): host n", "access refused")
		} else if second := <-gone; first == second || !errors.Is(r.err, context.Canceled) {
			t.Errorf("interrupted: %s and %s have ended, %v\n%s", first, second, r.err, told(r))
		}
		for _, b.host = range machines {
			b.noAgent()
		}
	}
}

// TestCheckOfMembers: each host is looked at for what the members on it need, and for nothing else.
func TestCheckOfMembers(t *testing.T) {
	t.Parallel()
	b, _, hosts := fleet(t, 2)
	e := splitOf(engines.VLLM, hosts[0], hosts[1], hosts[1], nil)
	dir := t.TempDir()
	for _, in := range e.Placement[:2] {
		in.Engine.Kind, in.Engine.Flags = engines.VLLM, nil
		in.Engine.Model = &engines.Model{Name: in.Role, Repo: filepath.Join(dir, in.Role)}
	}
	if err := os.Mkdir(e.Placement[1].Engine.Model.Repo, 0o755); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"n0": {"model prefill: there is no " + filepath.Join(dir, "prefill") + " on the host"},
		"n1": {"model decode: " + filepath.Join(dir, "decode") + " is empty"},
	}
	for _, c := range place.Check(t.Context(), place.Scope{Lab: "groups", Hosts: hosts, Engines: []*engines.Engine{e}}, b.opt.Options) {
		var got []string
		for _, f := range c.Findings {
			if strings.HasPrefix(f.Check, "model") {
				got = append(got, f.Check+": "+f.Have)
			}
		}
		if !slices.Equal(got, want[c.Host.Name]) || c.Err != nil {
			t.Errorf("%s: %q, %v; want %q", c.Host.Name, got, c.Err, want[c.Host.Name])
		}
	}
}

// TestGroupOnOneMachine: a group over two blocks of one machine is told that they are one.
func TestGroupOnOneMachine(t *testing.T) {
	t.Parallel()
	b, _, hosts := fleet(t, 1)
	again := *hosts[0]
	again.Name = "again"
	hosts = append(hosts, &again)
	r := b.carryOut(t.Context(), plan.New(cellsOf(splitOf(engines.VLLM, hosts[0], &again, hosts[0], nil), hosts, 1), plan.Options{}), nil)
	testhost.WantError(t, r.err, nil, "is the same machine as another host of this lab",
		"give an engine of several members one block of it")
	b.noAgent()
}

// TestBrokenOffUnproved: a cell whose load is whole, and whose proof is not, is not kept when the run is
// broken off there, by whomever. Left alone it is void: decode has read the prompts itself.
func TestBrokenOffUnproved(t *testing.T) {
	t.Parallel()
	b, _, hosts := fleet(t, 2)
	lab := cellsOf(splitOf(engines.VLLM, hosts[0], hosts[1], hosts[0], map[string][]string{"decode": {"local-prefill=true"}}), hosts, 1)
	w := &lab.Benchmarks[0].Cells[0].Workload
	w.Dataset.InputTokens = 400
	lab.Lab.Lease = 5 * time.Second // renewed each second
	for name, c := range map[string]struct {
		breaks func(interrupt context.CancelFunc)
		want   error
	}{
		"interrupted": {func(interrupt context.CancelFunc) { interrupt() }, context.Canceled},
		"taken away": {func(context.CancelFunc) {
			if _, err := place.Destroy(t.Context(), place.Scope{Lab: "groups", Hosts: hosts}, agent.Destroying{Store: "another", Force: true}, b.opt.Options, nil); err != nil {
				t.Error(err)
			}
		}, new(agent.HeldError)},
		"left alone": {func(context.CancelFunc) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b.TB = t
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			looks := 0
			r := b.carryOut(ctx, plan.New(lab, plan.Options{}), func(e apply.Event) {
				if e.Type == apply.Waiting && strings.HasPrefix(e.Message, "looking again at what it counts: decode 0 on n1: it has read") {
					looks++
					c.breaks(interrupt)
				}
			})
			if looks != 1 {
				t.Fatalf("it was looked at again %d times\n%s", looks, told(r))
			}
			if c.want == nil {
				if r.err != nil || r.Void != 1 || !strings.Contains(r.rows[0].Error, "the engine did not work as it was planned: decode 0") {
					t.Errorf("%+v, %v, %q", r.Outcome, r.err, errorsOf(r.rows))
				}
				return
			}
			held := c.want != context.Canceled && errors.As(r.err, new(*agent.HeldError))
			if len(r.rows) != 0 || !held && !errors.Is(r.err, c.want) {
				t.Errorf("%d cells are kept, %+v; %v", len(r.rows), r.Outcome, r.err)
			}
		})
	}
}

// TestRouterMindsCache: a router that has nothing in flight gives all to one server, and so none is idle for want of
// requests at once. Seen behind sglang-router 0.3.2.
func TestRouterMindsCache(t *testing.T) {
	t.Parallel()
	b, _, hosts := fleet(t, 1)
	e := splitOf(engines.VLLM, hosts[0], hosts[0], hosts[0], map[string][]string{"router": {"mind-cache=true"}})
	serve := e.Placement[0]
	serve.Role = engines.Serve
	e.Placement = engines.Placement{serve, serve, e.Placement[2]}
	r := b.carryOut(t.Context(), plan.New(cellsOf(e, hosts, 2), plan.Options{}), nil)
	if r.err != nil || r.Valid+r.Suspect == 0 {
		t.Errorf("%+v, %v\n%s", r.Outcome, r.err, told(r))
	}
}

// TestServesOthers: what somebody else asks of an engine while a cell is measured makes the cell suspect.
func TestServesOthers(t *testing.T) {
	t.Parallel()
	b, _, hosts := fleet(t, 1)
	e := &engines.Engine{Kind: engines.Sim, Name: "alone", Placement: engines.On(hosts[0]), Model: &engines.Model{Repo: "m"}, Flags: flags("itl=1ms")}
	lab := cellsOf(e, hosts, 2)
	for i := range lab.Benchmarks[0].Cells {
		w := &lab.Benchmarks[0].Cells[i].Workload
		w.Requests, w.Duration = 0, load.Duration(3*time.Second)
	}
	conn, err := reach.Dial(t.Context(), hosts[0], b.opt.SSH, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	other := http.Client{Transport: &http.Transport{DialContext: conn.Dial}}
	asked := false
	r := b.carryOut(t.Context(), plan.New(lab, plan.Options{}), func(event apply.Event) {
		if event.Type != apply.Progress || event.Progress.Sent == 0 || asked {
			return
		}
		asked = true
		resp, err := other.Post(engines.BaseURL(e)+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"a","max_tokens":1000}`))
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	})
	strange := func(row results.Row) bool {
		return slices.ContainsFunc(row.Verdict().Texts(), func(text string) bool { return strings.Contains(text, "it has served others meanwhile") })
	}
	if r.err != nil || len(r.rows) != 2 || !strange(r.rows[0]) || strange(r.rows[1]) {
		t.Errorf("%+v, %v\n%s", r.Outcome, r.err, told(r))
		for _, row := range r.rows {
			t.Logf("%v: %+v", row.Axes, row.Verdict())
		}
	}
}
