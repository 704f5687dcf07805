package smi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestParse holds the forms of the releases against each other: each tells of the
// power of some GPUs.
func TestParse(t *testing.T) {
	for _, c := range []struct{ name, printed, want string }{
		{"rocm-smi 5.7 to 7", `{"card0": {"Average Graphics Package Power (W)": "94.0"}, "card1": {"Average Graphics Package Power (W)": "N/A (Secondary die)"}, "card10": {"Average Graphics Package Power (W)": "97.5"}, "system": {"Driver version": "6.10.5"}}`, "0: 94, 1: none, 10: 97.5"},
		{"rocm-smi, of a card nothing is known",
			`{"card0": {"Average Graphics Package Power (W)": "94.0"}, "card2": {"Average Graphics Package Power (W)": "95.0"}}`, "0: 94, 2: 95"},
		{"rocm-smi, cards with numbers that no card has", `{"card-1": {}, "card4294967296": {}, "card0": {"Average Graphics Package Power (W)": "94.0"}}`, "0: 94"},
		{"amd-smi, a GPU with a number that none has", `[{"gpu": 4294967296000, "power": {"socket_power": 142}}]`, "0: 142"},
		{"rocm-smi, the driver alone", `{"system": {"Driver version": "6.10.5"}}`, ""},
		{"a warning before it", "WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n\n" + `{"card0": {"Average Graphics Package Power (W)": "94.0"}}`, "0: 94"},
		{"the library's words before it, and a warning behind it",
			"Expected integer value from monitor, but got \"\"\n" + `{"card0": {"Average Graphics Package Power (W)": "94.0"}}` + "\nWARNING: User is missing the following required groups: render, video", "0: 94"},
		{"warnings with brackets before it",
			"[WARN] group render\n[0]\n{not JSON}\n" + `[{"gpu": 0, "power": {"socket_power": {"value": 142, "unit": "W"}}}]`, "0: 142"},
		{"amd-smi of ROCm 6.1 to 6.4", `[
    {
        "gpu": 1,
        "power": {
            "socket_power": "N/A"
        }
    },
    {
        "gpu": 0,
        "power": {
            "socket_power": {
                "value": 142,
                "unit": "W"
            }
        }
    }
]`, "0: 142, 1: none"},
		{"amd-smi of ROCm 7", `{"gpu_data": [{"gpu": 0, "power": {"socket_power": {"value": 142, "unit": "W"}}}, {"gpu": 1, "power": "N/A"}]}`, "0: 142, 1: none"},
		{"amd-smi of ROCm 6.0, one GPU", `{"gpu": 0, "power": {"socket_power": 142}}`, "0: 142"},
		{"amd-smi, an error", `{"error": "AMDSMI has returned error '-1034' - 'NOT_INIT - Device not initialized'", "code": -1034}`, "error: AMDSMI has returned error '-1034' - 'NOT_INIT - Device not initialized'"},
		{"a line of an error", "ERROR:root:Driver not initialized (amdgpu not found in modules)",
			"error: ERROR:root:Driver not initialized (amdgpu not found in modules)"},
		{"a trace of calls", "Traceback (most recent call last):\n  File \"amdsmi_cli.py\", line 97\nPermissionError: Command requires elevation\n\n", "error: PermissionError: Command requires elevation"},
		{"nothing", " \n", "error: it printed nothing"},
		{"half of it", `[{"gpu": 0, "pow`, `error: [{"gpu": 0, "pow`},
		{"something else", `{"version": "26.0.0"}`, "error: what it printed is of no known form"},
	} {
		gpus, _, err := Parse(c.printed)
		var got []string
		for _, g := range gpus {
			is := "none"
			if watts, ok := First(g.At("average graphics package power (w)"), g.At("power", "socket_power")).Number(); ok {
				is = fmt.Sprint(watts)
			}
			got = append(got, fmt.Sprintf("%d: %s", g.Index, is))
		}
		told := strings.Join(got, ", ")
		if err != nil {
			told = "error: " + err.Error()
		}
		if told != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, told, c.want)
		}
	}
}

// TestValues are the ways in which the tools write a number, and that they have none.
func TestValues(t *testing.T) {
	for _, c := range []struct{ printed, text, number, bytes string }{
		{`{"value": 196592, "unit": "MB"}`, "196592", "196592", "206141652992"},
		{`{"value": 0, "unit": "B"}`, "0", "0", "0"},
		{`{"value": 1, "unit": "GB"}`, "1", "1", "1073741824"},
		{`{"value": 1, "unit": "furlong"}`, "1", "1", "none"},
		{`{"value": "N/A", "unit": "MB"}`, "", "none", "none"},
		{`196592`, "196592", "196592", "none"}, // in what, it does not say
		{`"206141652992"`, "206141652992", "2.06141652992e+11", "none"},
		{`"(132Mhz)"`, "(132Mhz)", "132", "none"},
		{`"\t\tAMD Instinct MI300X"`, "AMD Instinct MI300X", "300", "none"},
		{`"-1"`, "-1", "none", "none"},
		{`"N/A"`, "", "none", "none"},
		{`"N/A (Secondary die)"`, "", "none", "none"},
		{`"unknown"`, "unknown", "none", "none"},
		{`null`, "", "none", "none"},
		{`[]`, "", "none", "none"},
	} {
		from := json.NewDecoder(strings.NewReader(c.printed))
		from.UseNumber()
		var v Value
		if err := from.Decode(&v.any); err != nil {
			t.Fatal(err)
		}
		number, bytes := "none", "none"
		if n, ok := v.Number(); ok {
			number = fmt.Sprint(n)
		}
		if n, ok := v.Bytes(""); ok {
			bytes = fmt.Sprint(n)
		}
		if v.Text() != c.text || number != c.number || bytes != c.bytes {
			t.Errorf("%s: %q, number %s, bytes %s; want %+v", c.printed, v.Text(), number, bytes, c)
		}
	}
	if n, ok := (Value{"206141652992"}).Bytes("B"); n != 206141652992 || !ok {
		t.Errorf("bytes in bytes: %d, %v", n, ok)
	}
}

// TestLists: amd-smi of ROCm 7 writes one status for each part of a GPU.
func TestLists(t *testing.T) {
	gpus, _, err := Parse(`[{"gpu": 0, "one": "ACTIVE", "parts": {"xcp_0": ["NOT ACTIVE", {"value": 3, "unit": "%"}], "xcp_1": ["N/A"]}, "list": [{"pid": 7}, "no more"]}]`)
	if err != nil {
		t.Fatal(err)
	}
	texts := func(v Value) (all []string) {
		for _, of := range v.List() {
			all = append(all, of.Text())
		}
		slices.Sort(all)
		return all
	}
	if got := texts(gpus[0].At("parts")); !slices.Equal(got, []string{"", "3", "NOT ACTIVE"}) {
		t.Errorf("parts are %q", got)
	}
	if got := texts(gpus[0].At("one")); !slices.Equal(got, []string{"ACTIVE"}) {
		t.Errorf("one is %q", got)
	}
	items := gpus[0].At("list").Items()
	if len(items) != 1 || items[0].At("pid").Text() != "7" {
		t.Errorf("items are %v", items)
	}
}

// TestNVIDIA: a line of nvidia-smi for each GPU, under the names of the query; what else it says is told.
func TestNVIDIA(t *testing.T) {
	gpus, other := NVIDIA("index,name,memory.used,clocks_throttle_reasons.active",
		"1, NVIDIA H200, 1024, 0x0000000000000044", "Unable to determine the device handle for GPU0: 0000:1B:00.0: Unknown Error", "",
		"2, NVIDIA GB10, [N/A], [Not Supported]", "4096, NVIDIA H200, 1, 0x0", "-1, NVIDIA H200, 1, 0x0", "3, NVIDIA H200")
	var got []string
	for _, g := range gpus {
		used, isKnown := g.MemoryInUse()
		mask, isMask := g.At("clocks_throttle_reasons.active").Mask()
		got = append(got, fmt.Sprint(g.Index, " ", g.Name(), " ", used, " ", isKnown, " ", mask, " ", isMask))
	}
	if want := []string{"1 NVIDIA H200 1073741824 true 68 true", "2 NVIDIA GB10 0 false 0 false"}; !slices.Equal(got, want) {
		t.Errorf("GPUs %q, want %q", got, want)
	}
	if len(other) != 4 || !strings.HasPrefix(other[0], "Unable") {
		t.Errorf("it said %q", other)
	}
	rows, _ := Rows("gpu_uuid,pid,process_name", "GPU-a, 77, a name, with a comma")
	if len(rows) != 1 || rows[0].At("process_name").Text() != "a name, with a comma" {
		t.Errorf("rows %v", rows)
	}
	if gpus, _ := NVIDIA("name", "a", "b"); len(gpus) != 2 || gpus[1].Index != 1 {
		t.Errorf("GPUs without an index: %v", gpus)
	}
}
