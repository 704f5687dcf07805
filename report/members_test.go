package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/results"
	"hclbench/telemetry"
)

// member is one of an engine's on a host of 8 GPUs, of which it uses some.
func member(role string, instance, rank int, host string, gpus int) results.Member {
	m := results.Member{
		Role: role, Instance: instance, Rank: rank, Host: host, GPUs: "8xH200", GPUCount: gpus, Price: 30,
		Image: "vllm/vllm-openai:v0.11.0", Digest: "sha256:" + role, Versions: map[string]string{"vllm": "0.11.0"},
		Command: []string{"vllm", role}, Facts: json.RawMessage(`{"os":"os of ` + host + `","gpus":[{"name":"H200"}]}`),
	}
	if role == "router" {
		m.Image, m.Versions, m.GPUs, m.Price = "router:1", nil, "", 0.5
	}
	return m
}

// of are two cells of an engine of these members.
func of(engine string, members ...results.Member) []results.Row {
	rows := []results.Row{row(engine, 16, 240, 24), row(engine, 64, 400, 32)}
	served := map[string]any{}
	for _, m := range members {
		if m.Role != "router" {
			served[m.Name()] = map[string]any{"role": m.Role, "max_model_len": 8192}
		}
	}
	text, _ := json.Marshal(served) // maps of texts and numbers
	for i := range rows {
		d := &rows[i].Deployment
		d.ID, d.Kind, d.Served = "d-"+engine, kindIn(engine), text
		d.Started, d.Ready, d.Stopped = start.Add(-time.Minute), 60, start.Add(time.Hour)
		d.SetMembers(members)
	}
	return rows
}

// Engines of several members: prefill and decode on four hosts, one engine over two, and
// prefill and decode on one.
func fourHosts() []results.Row {
	return of("group.pd", member("prefill", 0, 0, "n0", 8), member("prefill", 1, 0, "n1", 8),
		member("decode", 0, 0, "n2", 8), member("router", 0, 0, "n3", 0))
}

func twoHosts() []results.Row {
	return of("vllm.wide", member("serve", 0, 0, "n0", 8), member("serve", 0, 1, "n1", 8))
}

func oneHost() []results.Row {
	router := member("router", 0, 0, "n0", 0)
	router.GPUs, router.Price = "8xH200", 30
	return of("group.small", member("prefill", 0, 0, "n0", 2), member("decode", 0, 0, "n0", 2), router)
}

// TestPerRole: what a group brings is shared out to all its GPUs, and beside that to those of
// decode and of prefill; its price is that of its part of all hosts.
func TestPerRole(t *testing.T) {
	unknown := fourHosts()
	unknown[0].Deployment.Members[1].GPUCount = 0
	mixed := of("group.mixed", member("prefill", 0, 0, "n0", 8), member("decode", 0, 0, "n1", 4))
	mixed[0].Deployment.Members[1].GPUs, mixed[0].Deployment.Members[1].Price = "8xB200", 50
	mixed[0].Deployment.SetMembers(mixed[0].Deployment.Members)
	unpriced := twoHosts()
	unpriced[0].Deployment.Members[1].Price = 0
	unpriced[0].Deployment.SetMembers(unpriced[0].Deployment.Members)
	for name, c := range map[string]struct {
		rows                  []results.Row
		gpus, decode, prefill float64 // that share; 0: there is no such figure
		text                  string
		usd                   float64
	}{
		"four hosts":  {fourHosts(), 24, 8, 16, "24xH200", 90.5},
		"two hosts":   {twoHosts(), 16, 0, 0, "16xH200", 60},
		"one host":    {oneHost(), 4, 2, 2, "8xH200", 15},
		"not told":    {unknown, 24, 8, 0, "24xH200", 90.5},
		"two models":  {mixed, 12, 4, 8, "8xH200, 8xB200", 30 + 25},
		"one unknown": {unpriced, 16, 0, 0, "16xH200", 0},
	} {
		r := &c.rows[0]
		for _, f := range []struct {
			Metric
			gpus, tokens float64
		}{
			{perGPU, c.gpus, r.Summary.OutputThroughput}, {perDecodeGPU, c.decode, r.Summary.OutputThroughput},
			{perPrefillGPU, c.prefill, r.Summary.InputThroughput},
		} {
			got, ok := f.value(r)
			if ok != (f.gpus > 0) || ok && got != f.tokens/f.gpus {
				t.Errorf("%s: %s is %v, %t; want %v over %v GPUs", name, f.Name, got, ok, f.tokens, f.gpus)
			}
		}
		if got := r.Deployment.GPUs; got != c.text {
			t.Errorf("%s: GPUs %s, want %s", name, got, c.text)
		}
		if got := price(&r.Deployment); got != c.usd {
			t.Errorf("%s: %v USD an hour, want %v", name, got, c.usd)
		}
	}
}

// TestMembersShown: each member is told of under one name, wherever it is.
func TestMembersShown(t *testing.T) {
	four, two, one := fourHosts(), twoHosts(), oneHost()
	holds(t, written(t, func(w io.Writer) error { return Cell(w, four[0], nil) }), "group.pd on n0, n1, n2, n3 24xH200", "Member              prefill 1 on n1, 8×H200\n",
		"\n                    vllm/vllm-openai:v0.11.0 sha256:prefill\n", "Member              router on n3\n",
		"Command of decode 0 vllm decode\n", "Command of router   vllm router\n", "Host n2")
	holds(t, written(t, func(w io.Writer) error { return Cell(w, two[0], nil) }), "Member              serve 0 rank 1 on n1, 8×H200\n", "Command of serve 0 rank 1 vllm serve\n")
	of := func(host, of, name string, values ...float64) telemetry.Series {
		return telemetry.Series{Host: host, Of: of, Name: name, Value: values}
	}
	four[0].Telemetry = &telemetry.Record{Interval: 1, Series: []telemetry.Series{
		of("n0", "prefill 0", telemetry.Waiting, 4, 6), of("n2", "decode 0", telemetry.Waiting, 0, 0), of("n2", "decode 0", telemetry.KVCache, 0.5),
		of("n0", "mlx5_0", telemetry.Sent, 3e9), of("n0", "mlx5_1", telemetry.Sent, 1e9), of("n2", "mlx5_0", telemetry.Received, 4e9, 4e9),
		of("", "eth0", telemetry.Sent, 2e6), of("", "host", telemetry.CPU, 10), of("n0", "host", telemetry.CPU, 30),
	}}
	holds(t, written(t, func(w io.Writer) error { return Cell(w, four[0], nil) }), "Processors of the host (%)        20.0  10.0  30.0\n",
		"Requests in its queue, decode 0      0     0     0\n", "Requests in its queue, prefill 0  5.00  4.00  6.00\n", "KV cache in use (%), decode 0     50.0  50.0  50.0\n",
		"Network             n0: sent 4.0 GB/s, received 0 bytes/s; each of its 2 devices 25 to 75 % of that\n"+
			"                    n2: sent 0 bytes/s, received 4.0 GB/s\n                    the load's sender: sent 2.0 MB/s, received 0 bytes/s\n")
	text := written(t, func(w io.Writer) error { return Cell(w, one[0], nil) })
	holds(t, text, "decode 0 on n0, 8×H200, 2 of them used\n", "Member              router on n0\n")
	if n := strings.Count(text, "os of n0"); n != 1 {
		t.Errorf("the facts of one host are told %d times:\n%s", n, text)
	}
	all := slices.Concat(four, two, one)
	page := written(t, func(w io.Writer) error { return HTML(w, all, About{}) })
	holds(t, page, "<b>6</b> cells", "24×H200 · group pd", "Served configuration of decode 0<", "Command of serve 0 rank 1<",
		"in/prefill GPU")
	waiting := func(host, member string, v ...float64) telemetry.Series {
		return telemetry.Series{Host: host, Of: member, Name: telemetry.Waiting, At: []float64{0, 1, 2}, Value: v}
	}
	four[0].Summary.Series, four[0].Telemetry = nil, &telemetry.Record{Series: []telemetry.Series{
		waiting("n0", "prefill 0", 4, 5, 6), waiting("n1", "prefill 1", 1, 1, 1), waiting("n2", "decode 0", 0, 0, 0),
	}}
	var titles []string
	for _, c := range overTime(&sample{rows: []*results.Row{&four[0]}}) {
		titles = append(titles, c.Title+" "+fmt.Sprint(c.Lines[0].Dots[2].Y))
	}
	if want := []string{"Requests waiting in decode 0", "Requests waiting in prefill 7"}; !slices.Equal(titles, want) {
		t.Errorf("over time %q, want %q", titles, want)
	}
	dir := t.TempDir()
	files, err := SVG(dir, all, About{})
	if want := "online-roles-output-throughput-per-decode-gpu.svg"; err != nil || !slices.Contains(files.Names, want) {
		t.Errorf("no %s among %q, %v", want, files.Names, err)
	}
	files, err = SVG(dir, matrix(), About{})
	if err != nil || slices.ContainsFunc(files.Names, func(name string) bool { return strings.Contains(name, "roles") }) {
		t.Errorf("of engines without roles are %q, %v", files.Names, err)
	}
	ten := slices.Clone(four)
	for i := range ten {
		ten[i].Deployment.Identity = map[string]string{"decode.--stream-interval": "10"}
	}
	holds(t, written(t, func(w io.Writer) error { return Cell(w, ten[0], nil) }), "Streams             10 tokens at a time: ITL is between chunks of so many\n")
	holds(t, written(t, func(w io.Writer) error { return Table(w, ten, Options{Width: 200}) }), "tok/chunk", " 10.0 ")
	csv := written(t, func(w io.Writer) error { return CSV(w, all) })
	holds(t, csv, ",members,", "prefill 0 on n0; prefill 1 on n1; decode 0 on n2; router on n3", "serve 0 on n0; serve 0 rank 1 on n1",
		",output_throughput_per_gpu,output_throughput_per_decode_gpu,input_throughput_per_prefill_gpu,")
	markdown := written(t, func(w io.Writer) error { return Markdown(w, all, About{}) })
	holds(t, markdown, "| tok/s per GPU | tok/s out/decode GPU | tok/s in/prefill GPU |", "| n0, n1, n2, n3 |")
	single := written(t, func(w io.Writer) error { return CSV(w, matrix()) })
	for _, name := range []string{"members", "decode", "prefill"} {
		if strings.Contains(single, name) {
			t.Errorf("%s is told of engines of one member:\n%.300s", name, single)
		}
	}
	groups, err := Where(all, `kind == "group"`)
	if err != nil || len(groups) != 4 {
		t.Errorf("of kind group are %d, %v; want 4", len(groups), err)
	}
	shown, _ := Layout{NoPrices: true}.Apply(four, About{})
	if shown[0].Deployment.Members[0].Price != 0 || four[0].Deployment.Members[0].Price == 0 {
		t.Error("a layout without prices leaves those of members, or takes them from the results")
	}
}

// TestMembersTable: a terminal has the figure over all GPUs first.
func TestMembersTable(t *testing.T) {
	holds(t, table(t, fourHosts(), 80), "output  per GPU  out/decode GPU  in/prefill GPU")
	holds(t, table(t, fourHosts(), 0), "output  per GPU  out/decode GPU  in/prefill GPU")
	holds(t, table(t, twoHosts(), 80), "per GPU")
	if text := table(t, twoHosts(), 0); strings.Contains(text, "decode") {
		t.Errorf("figures of roles that it does not have:\n%s", text)
	}
}

// TestMembersSpent: every host of a group was held, and paid for.
func TestMembersSpent(t *testing.T) {
	var spent []string
	for _, s := range Spent(slices.Concat(fourHosts(), oneHost())) {
		spent = append(spent, fmt.Sprintf("%s %g %g", s.Host, s.Price, s.Held))
	}
	if got, want := strings.Join(spent, ", "), "n0 30 3660, n1 30 3660, n2 30 3660, n3 0.5 3660"; got != want {
		t.Errorf("spent on %s, want %s", got, want)
	}
}

// TestMembersCompared: what differs is said of the member that it is of.
func TestMembersCompared(t *testing.T) {
	before, after := fourHosts(), fourHosts()
	d := &after[0].Deployment
	d.Members[2].Digest, d.Members[2].Versions = "sha256:newer", map[string]string{"vllm": "0.12.0"}
	d.Served = []byte(strings.Replace(string(d.Served), `"decode 0":{"max_model_len":8192`, `"decode 0":{"max_model_len":4096`, 1))
	d.Members[3].Host = "n4"
	var got []string
	for _, diff := range inputDiffs(&before[0], &after[0]) {
		got = append(got, fmt.Sprintf("%s %s → %s", diff.Name, diff.A, diff.B))
	}
	check(t, "what differs", []string{
		"decode 0: image digest sha256:decode → sha256:newer", "decode 0: served: max_model_len 8192 → 4096",
		"decode 0: version: vllm 0.11.0 → 0.12.0",
		"host n3: gpus[0].name H200 → ", "host n3: os os of n3 → ", "host n4: gpus[0].name  → H200", "host n4: os  → os of n3",
		"router: host n3 → n4",
	}, got)
	if got, want := gpusSeen(&before[0]), "4 × H200"; got != want {
		t.Errorf("GPUs seen: %s, want %s", got, want)
	}
}
