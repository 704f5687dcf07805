package page

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"hclbench/report/draw"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/table"
	"hclbench/results"
	"hclbench/telemetry"
)

// TestMembersShown: each member is told of under one name, wherever it is.
func TestMembersShown(t *testing.T) {
	four, two, one := reporttest.FourHosts(), reporttest.TwoHosts(), reporttest.OneHost()
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Cell(w, four[0], figure.Found{}, nil, 0) }), "group.pd on n0, n1, n2, n3 24xH200", "Member              prefill 1 on n1, 8×H200\n",
		"\n                    vllm/vllm-openai:v0.11.0 sha256:prefill\n", "Member              router on n3\n",
		"Command of decode 0 vllm decode\n", "Command of router   vllm router\n", "Host n2")
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Cell(w, two[0], figure.Found{}, nil, 0) }), "Member              serve 0 rank 1 on n1, 8×H200\n", "Command of serve 0 rank 1 vllm serve\n")
	of := func(host, of, name string, values ...float64) telemetry.Series {
		return telemetry.Series{Host: host, Of: of, Name: name, Value: values}
	}
	four[0].Telemetry = &telemetry.Record{Interval: 1, Series: []telemetry.Series{
		of("n0", "prefill 0", telemetry.Waiting, 4, 6), of("n2", "decode 0", telemetry.Waiting, 0, 0), of("n2", "decode 0", telemetry.KVCache, 0.5),
		of("n0", "mlx5_0", telemetry.Sent, 3e9), of("n0", "mlx5_1", telemetry.Sent, 1e9), of("n2", "mlx5_0", telemetry.Received, 4e9, 4e9),
		of("", "eth0", telemetry.Sent, 2e6), of("", "host", telemetry.CPU, 10), of("n0", "host", telemetry.CPU, 30),
	}}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Cell(w, four[0], figure.Found{}, nil, 0) }), "Processors of the host (%)        20.0  10.0  30.0\n",
		"Requests in its queue, decode 0      0     0     0\n", "Requests in its queue, prefill 0  5.00  4.00  6.00\n", "KV cache in use (%), decode 0     50.0  50.0  50.0\n",
		"Network             n0: sent 4.0 GB/s, received 0 bytes/s; each of its 2 devices 25 to 75 % of that\n"+
			"                    n2: sent 0 bytes/s, received 4.0 GB/s\n                    the load's sender: sent 2.0 MB/s, received 0 bytes/s\n")
	text := reporttest.Written(t, func(w io.Writer) error { return table.Cell(w, one[0], figure.Found{}, nil, 0) })
	reporttest.Holds(t, text, "decode 0 on n0, 8×H200, 2 of them used\n", "Member              router on n0\n")
	if n := strings.Count(text, "os of n0"); n != 1 {
		t.Errorf("the facts of one host are told %d times:\n%s", n, text)
	}
	hits := 0.25
	four[0].Telemetry.PrefixHitRate = &hits
	all := slices.Concat(four, two, one)
	page := reporttest.Written(t, func(w io.Writer) error { return HTML(w, all, figure.About{}) })
	reporttest.Holds(t, page, "<b>6</b> cells", "24×H200 · group pd", "Served configuration of decode 0<", "Command of serve 0 rank 1<",
		"in/prefill GPU", "cache hits are of the prompts that prefill looked up")
	waiting := func(host, member string, v ...float64) telemetry.Series {
		return telemetry.Series{Host: host, Of: member, Name: telemetry.Waiting, At: []float64{0, 1, 2}, Value: v}
	}
	four[0].Summary.Series, four[0].Telemetry = nil, &telemetry.Record{Series: []telemetry.Series{
		waiting("n0", "prefill 0", 4, 5, 6), waiting("n1", "prefill 1", 1, 1, 1), waiting("n2", "decode 0", 0, 0, 0),
	}}
	var titles []string
	for _, c := range draw.OverTime(&figure.Sample{Rows: []*results.Row{&four[0]}}) {
		titles = append(titles, c.Title+" "+fmt.Sprint(c.Lines[0].Dots[2].Y))
	}
	if want := []string{"Requests waiting in decode 0", "Requests waiting in prefill 7"}; !slices.Equal(titles, want) {
		t.Errorf("over time %q, want %q", titles, want)
	}
	dir := t.TempDir()
	files, err := draw.SVG(dir, all, figure.About{})
	if want := "online-roles-output-throughput-per-decode-gpu.svg"; err != nil || !slices.Contains(files.Names, want) {
		t.Errorf("no %s among %q, %v", want, files.Names, err)
	}
	files, err = draw.SVG(dir, reporttest.Matrix(), figure.About{})
	if err != nil || slices.ContainsFunc(files.Names, func(name string) bool { return strings.Contains(name, "roles") }) {
		t.Errorf("of engines without roles are %q, %v", files.Names, err)
	}
	ten := slices.Clone(four)
	for i := range ten {
		ten[i].Deployment.Identity = map[string]string{"decode.--stream-interval": "10"}
	}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Cell(w, ten[0], figure.Found{}, nil, 0) }), "Streams             10 tokens at a time: ITL is between chunks of so many\n")
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Table(w, ten, table.Options{Width: 200}) }), "tok/chunk", " 10.0 ")
	csv := reporttest.Written(t, func(w io.Writer) error { return table.CSV(w, all, figure.About{}) })
	reporttest.Holds(t, csv, ",members,", "prefill 0 on n0; prefill 1 on n1; decode 0 on n2; router on n3", "serve 0 on n0; serve 0 rank 1 on n1",
		",output_throughput_per_gpu,output_throughput_per_decode_gpu,input_throughput_per_prefill_gpu,")
	markdown := reporttest.Written(t, func(w io.Writer) error { return table.Markdown(w, all, figure.About{}) })
	reporttest.Holds(t, markdown, "| tok/s per GPU | tok/s out/decode GPU | tok/s in/prefill GPU |", "| n0, n1, n2, n3 |")
	single := reporttest.Written(t, func(w io.Writer) error { return table.CSV(w, reporttest.Matrix(), figure.About{}) })
	for _, name := range []string{"members", "decode", "prefill"} {
		if strings.Contains(single, name) {
			t.Errorf("%s is told of engines of one member:\n%.300s", name, single)
		}
	}
	groups, err := figure.Matching(all, `kind == "group"`)
	if err != nil || len(groups) != 4 {
		t.Errorf("of kind group are %d, %v; want 4", len(groups), err)
	}
	shown, _ := figure.Layout{NoPrices: true}.Apply(four, figure.About{})
	if shown[0].Deployment.Members[0].Price != 0 || four[0].Deployment.Members[0].Price == 0 {
		t.Error("a layout without prices leaves those of members, or takes them from the results")
	}
}
