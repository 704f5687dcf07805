package engines

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/testhost/golden"
)

// fingerprinted is an engine of each kind with everything that its kind may have.
func fingerprinted() map[string]*Engine {
	text := func(s string) *provision.Text { t := provision.Plain(s); return &t }
	h200 := &provision.Host{Name: "box", Address: "203.0.113.7", GPUs: provision.GPUs{Count: 8, Model: "H200", Vendor: provision.NVIDIA}}
	mi300x := &provision.Host{Name: "amd", Address: "203.0.113.8", GPUs: provision.GPUs{Count: 8, Model: "MI300X", Vendor: provision.AMD}}
	r1 := &Model{Name: "r1", Repo: "deepseek-ai/DeepSeek-R1", Revision: "56d4cbb", Cache: "/data/huggingface"}
	return map[string]*Engine{
		VLLM: {Kind: VLLM, Name: "h200", Placement: alone(h200, 9000, "0", "1"), Model: r1, Image: "vllm/vllm-openai:v0.11.0",
			Env: []provision.EnvVar{{Name: "HF_TOKEN", Value: provision.Secret("canary")}, {Name: "VLLM_USE_V1", Value: provision.Plain("1")}},
			Flags: []Flag{{Name: "api-key", Value: func() *provision.Text { t := provision.Secret("canary"); return &t }()}, {Name: "host", Value: text("0.0.0.0")},
				{Name: "lora-modules", Value: text("a=x")}, {Name: "lora-modules", Value: text("b = y")}, {Name: "max_model_len", Value: text("8192")}, {Name: "trust-remote-code"}},
			Config:       provision.Plain(`{"compilation-config": {"level": 3, "pass": true}, "kv-cache-dtype": "fp8", "cudagraph-capture-sizes": [1, 2]}`),
			Setup:        []string{"pip install x", "nvidia-smi"},
			CompileCache: "/data/kernels",
			Container:    ContainerSettings{ShmSize: 32 << 30, CapAdd: []string{"SYS_NICE", "IPC_LOCK"}, Mounts: []provision.Mount{{Source: "/data/x", Target: "/x", ReadOnly: true}}}},
		SGLang: {Kind: SGLang, Name: "mi300x", Placement: On(mi300x), Model: r1, Image: "rocm/sglang-staging@sha256:" + strings.Repeat("ab", 32)},
		TRTLLM: {Kind: TRTLLM, Name: "h200", Placement: On(h200), Model: r1, Image: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
			Build: &Build{Commands: []string{"trtllm-build --a", "echo done"}, Output: "/engine", Image: "nvcr.io/nvidia/tensorrt-llm/devel:1.0.0", Inputs: []string{"b", "a"}}},
		OpenAI: {Kind: OpenAI, Name: "ollama", Placement: On(&provision.Host{Name: "cpu", Runtime: provision.Process, Prepare: &provision.Prepare{PowerCap: 600}}), Model: &Model{Repo: "tiny"},
			Command: []provision.Text{provision.Plain("ollama"), provision.Plain("serve"), provision.Plain("--port=1"), provision.Plain("--host"), provision.Plain("::"),
				provision.Plain("--a"), provision.Plain("b c"), provision.Plain("d"), provision.Plain("--a=e"), provision.Plain("--key"), provision.Secret("canary")}},
		External: {Kind: External, Name: "gateway", URL: "http://gateway:8000/v1", URLs: []string{"http://second:8000"}, Model: &Model{Repo: "org/large"}},
		Operated: {Kind: Operated, Name: "mif", Placement: On(&provision.Host{Name: "client", Cluster: &provision.Cluster{Name: "moai"}}), Manifests: &Manifests{Service: "web:80", Objects: []provision.Object{
			{APIVersion: "v1", Kind: "Service", Name: "web", Text: provision.Plain(`{"spec": {"ports": [80]}}`)},
			{APIVersion: "v1", Kind: "Secret", Name: "key", Text: provision.Partly(`{"data": {"key": "canary"}}`, `{"data": {"key": "(sensitive)"}}`, []string{"canary"})}}}},
		Sim: {Kind: Sim, Name: "fast", Placement: On(host("")), Flags: flagsOf("itl=3ms")},
	}
}

// TestFingerprints shows the pairs, so that a reader sees what counts and what does not.
func TestFingerprints(t *testing.T) {
	var b strings.Builder
	all := fingerprinted()
	for _, kind := range Kinds() {
		fmt.Fprintf(&b, "%s\n", kind)
		pairs := Fingerprint(all[kind])
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			fmt.Fprintf(&b, "  %s = %q\n", name, pairs[name])
		}
	}
	golden.Check(t, "fingerprints.golden", b.String())
	if strings.Contains(b.String(), "canary") {
		t.Error("a fingerprint holds a secret")
	}
}

// counts says of every member of an engine, and of what it points to, whether another
// value of it makes another engine. A new member has to be added here, and thought about.
var counts = map[string]bool{
	"Kind": true, "Image": true, "Env": true, "Flags": true, "Config": true, "Setup": true, "Command": true,

	"Placement.Role": false, "Placement.Engine": true, "Placement.Hosts": true, "Placement.GPUIDs": true, "Placement.Port": false,
	"FirstPort": false, "Transfer": false, // of a group: TestGroupFingerprint
	"Router": true, "Words": false, // they follow from the members of a group

	"Declared":     false, // who it stands for in a rehearsal
	"Name":         false,
	"Instance":     false,
	"Description":  false,
	"Pos":          false,
	"APIKey":       false, // it opens a door and steers nothing
	"Ready":        false, // how long to wait
	"CompileCache": false, // a start is faster with it
	"Without":      false, // what the others lack then says it
	"Manifests":    false, // of an engine of manifests only: TestFingerprintOfManifests
	"URL":          false, // of an external engine only: TestFingerprintOfExternal
	"URLs":         false,

	"Host.GPUs": true, "Host.Prepare": true, "Host.Runtime": true, "Host.Requests": true, "Host.Limits": true,
	"Host.Name": false, "Host.Description": false, "Host.Address": false, "Host.User": false, "Host.IdentityFile": false, "Host.HostKey": false,
	"Host.Jump": false, "Host.Docker": false, "Host.ImageFrom": false, "Host.PricePerHour": false, "Host.Require": false, "Host.Pos": false,
	"Host.Rent":   false, // what it is bought from; what is there is one of its facts
	"Host.Fabric": false,

	"Cluster.RuntimeClass": true, "Cluster.HostNetwork": true, "Cluster.GPUResource": true, "Cluster.RDMAResource": true, "Cluster.Mounts": true,
	"Cluster.Name": false, "Cluster.Description": false, "Cluster.Kubeconfig": false, "Cluster.Is": false, // of manifests only: TestFingerprintOfManifests
	"Cluster.Context": false, "Cluster.Namespace": false,
	"Cluster.ServiceAccount": false, "Cluster.ImagePullSecrets": false, "Cluster.Pos": false,
	"Cluster.Image":        false, // of pods without an engine
	"Cluster.NodeSelector": false, // which nodes: what they are is asked of them
	"Cluster.Tolerations":  false, "Cluster.Annotations": true, "Cluster.CreateNamespace": false, "Cluster.WaitForNode": false,

	"Model.Repo": true, "Model.Revision": true,
	"Model.Name": false, "Model.Cache": false, "Model.Size": false, "Model.Pos": false,
	"Model.Download": false, // who brings it

	"Container.Entrypoint": true, "Container.ShmSize": true, "Container.IPC": true, "Container.Network": true, "Container.Privileged": true,
	"Container.User": true, "Container.CapAdd": true, "Container.SecurityOpt": true, "Container.Devices": true, "Container.Mounts": true,
	"Container.Ulimits":   true,
	"Container.StopGrace": false,

	"OfflineCommand": false, // of offline cells alone, in whose identity it is
	"Version":        false, // what is there already, said in words; an offline cell has the tool that follows from it

	"Build.Commands": true, "Build.Image": true, "Build.Inputs": true,
	"Build.Output": false, // where in the container it is kept
}

// TestEveryMemberCounts changes each member alone.
func TestEveryMemberCounts(t *testing.T) {
	tested := map[string]bool{}
	try := func(name string, change func(*Engine) reflect.Value) {
		want, said := counts[name]
		tested[name] = true
		if !said {
			t.Errorf("nobody has said whether %s counts", name)
			return
		}
		e := withBuild()
		before := Fingerprint(e)
		another(t, name, change(e))
		if got := !maps.Equal(before, Fingerprint(e)); got != want {
			t.Errorf("%s: another value makes another engine: %v, want %v", name, got, want)
		}
	}
	inside := map[string]func(*Engine) reflect.Value{
		"Placement":    func(e *Engine) reflect.Value { return reflect.ValueOf(&e.Placement[0]).Elem() },
		"Host.Cluster": func(e *Engine) reflect.Value { return reflect.ValueOf(e.Host().Cluster).Elem() },
		"Model":        func(e *Engine) reflect.Value { return reflect.ValueOf(e.Model).Elem() },
		"Container":    func(e *Engine) reflect.Value { return reflect.ValueOf(&e.Container).Elem() },
		"Build":        func(e *Engine) reflect.Value { return reflect.ValueOf(e.Build).Elem() },
	}
	var every func(name string, of func(*Engine) reflect.Value)
	every = func(name string, of func(*Engine) reflect.Value) {
		members := of(withBuild()).Type()
		for j := range members.NumField() {
			member := name + "." + members.Field(j).Name
			if deeper, nested := inside[member]; nested {
				every(members.Field(j).Name, deeper)
				continue
			}
			try(member, func(e *Engine) reflect.Value { return of(e).Field(j) })
		}
	}
	for i := range reflect.TypeFor[Engine]().NumField() {
		name := reflect.TypeFor[Engine]().Field(i).Name
		of, nested := inside[name]
		if !nested {
			try(name, func(e *Engine) reflect.Value { return reflect.ValueOf(e).Elem().Field(i) })
			continue
		}
		every(name, of)
	}
	every("Host", func(e *Engine) reflect.Value { return reflect.ValueOf(e.Host()).Elem() })
	for name := range counts {
		if !tested[name] {
			t.Errorf("%s is no member any more", name)
		}
	}
}

// TestEveryHostCounts changes each member of each host of engines of several: what counts of the first host
// counts of all.
func TestEveryHostCounts(t *testing.T) {
	inside := map[string]bool{
		"Fabric.Address":   false, // where the host is; what is there is one of its facts
		"Fabric.Interface": true, "Fabric.RDMA": true, "Fabric.GIDIndex": true,
		"Prepare.PersistenceMode": true, "Prepare.NUMABalancing": true, "Prepare.PowerCap": true, "Prepare.LockClocks": true, "Prepare.ECC": true,
	}
	tested := map[string]bool{}
	for _, group := range []string{"recipe-a", "vllm-wide", "vllm-dp", "one-host"} {
		made := func() (*Engine, []*provision.Host) {
			e := groups()[group]
			hosts := e.Placement.Hosts()
			for _, h := range hosts {
				h.Prepare, h.Cluster = new(provision.Prepare), &provision.Cluster{Name: "moai"}
			}
			return e, hosts
		}
		_, hosts := made()
		for i := range hosts {
			var every func(name string, of func(*provision.Host) reflect.Value)
			every = func(name string, of func(*provision.Host) reflect.Value) {
				members := of(hosts[i]).Type()
				for j := range members.NumField() {
					member := name + "." + members.Field(j).Name
					if nested := map[string]bool{"Host.Fabric": true, "Host.Prepare": true, "Host.Cluster": true}[member]; nested {
						every(members.Field(j).Name, func(h *provision.Host) reflect.Value { return reflect.Indirect(of(h).Field(j)) })
						continue
					}
					want, said := counts[member]
					if of, nested := inside[member]; nested {
						want, said, tested[member] = of, true, true
					}
					if !said {
						t.Errorf("nobody has said whether %s counts", member)
						continue
					}
					e, hosts := made()
					before := Fingerprint(e)
					another(t, member, of(hosts[i]).Field(j))
					if got := !maps.Equal(before, Fingerprint(e)); got != want {
						t.Errorf("%s, host %d: another %s makes another engine: %v, want %v", group, i, member, got, want)
					}
				}
			}
			every("Host", func(h *provision.Host) reflect.Value { return reflect.ValueOf(h).Elem() })
		}
	}
	for name := range inside {
		if !tested[name] {
			t.Errorf("%s is no member any more", name)
		}
	}
}

// TestFabricAlone: an engine that uses no network between hosts does not depend on what is said of it.
func TestFabricAlone(t *testing.T) {
	e := withBuild()
	before := Fingerprint(e)
	e.Host().Fabric = provision.Fabric{Interface: "eno1", RDMA: []string{"mlx5_0"}}
	if diff := cmp.Diff(before, Fingerprint(e)); diff != "" {
		t.Errorf("the fabric of an engine alone counts (-before +after):\n%s", diff)
	}
}

func withBuild() *Engine {
	e := fingerprinted()[VLLM]
	e.Build = &Build{Commands: []string{"make"}, Output: "/out", Image: "debian"}
	e.Host().Cluster = &provision.Cluster{Name: "moai"}
	return e
}

// another sets a value to one that it has not.
func another(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	text := provision.Plain("another")
	switch v.Interface().(type) {
	case provision.Text:
		v.Set(reflect.ValueOf(provision.Plain(`{"another": 1}`)))
		return
	case []provision.Text:
		v.Set(reflect.ValueOf([]provision.Text{text}))
		return
	case []provision.EnvVar:
		v.Set(reflect.ValueOf([]provision.EnvVar{{Name: "ANOTHER", Value: text}}))
		return
	case []Flag:
		v.Set(reflect.ValueOf([]Flag{{Name: "another", Value: &text}}))
		return
	case []Ulimit:
		n := int64(7)
		v.Set(reflect.ValueOf([]Ulimit{{Name: "nofile", Value: &n}}))
		return
	case []provision.Mount:
		v.Set(reflect.ValueOf([]provision.Mount{{Source: "/a", Target: "/b"}}))
		return
	case []*provision.Host:
		v.Set(reflect.ValueOf([]*provision.Host{{Name: "a"}, {Name: "b"}}))
		return
	case *Engine:
		v.Set(reflect.ValueOf(fingerprinted()[Sim]))
		return
	case map[string]string:
		v.Set(reflect.ValueOf(map[string]string{"another": "value"}))
		return
	case []provision.Toleration:
		v.Set(reflect.ValueOf([]provision.Toleration{{Key: "another"}}))
		return
	case provision.Fabric:
		v.Set(reflect.ValueOf(provision.Fabric{Address: "10.0.0.1"}))
		return
	case *provision.Prepare:
		v.Set(reflect.ValueOf(&provision.Prepare{LockClocks: 1500}))
		return
	case *provision.Cluster:
		v.Set(reflect.ValueOf(&provision.Cluster{Name: "another", RuntimeClass: "nvidia"}))
		return
	case provision.GPUs:
		v.Set(reflect.ValueOf(provision.GPUs{Count: 8, Model: "H100", Vendor: provision.NVIDIA}))
		return
	case Ready:
		v.Set(reflect.ValueOf(Ready{Stall: time.Hour}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		if v.Set(reflect.ValueOf("another").Convert(v.Type())); name == "Kind" {
			v.SetString(SGLang)
		} else if v.Type() == reflect.TypeFor[provision.Runtime]() {
			v.SetString(string(provision.Process))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Slice:
		v.Set(reflect.ValueOf([]string{"another"}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if flag, ok := v.Interface().(*bool); ok {
			*flag = true
		}
	default:
		t.Fatalf("%s: no other value of a %s is known", name, v.Type())
	}
}

// TestFingerprintOfExternal: its address is all that is known of a server that someone
// else runs, and its model what it is asked for.
func TestFingerprintOfExternal(t *testing.T) {
	of := func(change func(*Engine)) map[string]string {
		e := fingerprinted()[External]
		change(e)
		return Fingerprint(e)
	}
	base := of(func(*Engine) {})
	for name, change := range map[string]func(*Engine){
		"url":    func(e *Engine) { e.URL = "http://another:8000" },
		"urls":   func(e *Engine) { e.URLs = nil },
		"model":  func(e *Engine) { e.Model = &Model{Repo: "org/small"} },
		"sender": func(e *Engine) { e.Placement = On(&provision.Host{Name: "client"}) },
	} {
		if maps.Equal(base, of(change)) {
			t.Errorf("%s does not count", name)
		}
	}
	if same := of(func(e *Engine) { e.URL, e.Name, e.Description = "http://gateway:8000", "renamed", "text" }); !maps.Equal(base, same) {
		t.Errorf("another way to write it counts: %s", cmp.Diff(base, same))
	}
}

// TestSameEngine: two ways to write one engine are one engine.
func TestSameEngine(t *testing.T) {
	text := func(s string) *provision.Text { t := provision.Plain(s); return &t }
	digest := "@sha256:" + strings.Repeat("0", 64)
	for name, change := range map[string]func(*Engine){
		"the registry that is meant":   func(e *Engine) { e.Image = "docker.io/vllm/vllm-openai:v0.11.0" },
		"flags with other dashes":      func(e *Engine) { e.Flags[4].Name = "max-model-len" },
		"where it listens":             func(e *Engine) { e.Flags = slices.Delete(e.Flags, 1, 2) },
		"how the model is called":      func(e *Engine) { e.Flags = append(e.Flags, Flag{Name: "served-model-name", Value: text("r1")}) },
		"the network that it has":      func(e *Engine) { e.Container.Network = "host" },
		"the order of capabilities":    func(e *Engine) { slices.Reverse(e.Container.CapAdd) },
		"blanks of the configuration":  func(e *Engine) { e.Config = provision.Plain(strings.ReplaceAll(e.Config.Reveal(), " ", "\n ")) },
		"all GPUs, each by its number": func(e *Engine) { e.Placement[0].GPUIDs = strings.Fields("0 1 2 3 4 5 6 7") },
		"another token":                func(e *Engine) { e.Env[0].Value = provision.Secret("another") },
		"the port, behind a setup":     func(e *Engine) { e.Placement[0].Port = 7 },
		"the cache's place, with hub":  func(e *Engine) { e.Model.Cache, e.Model.Download = "/mnt/hf", true },
	} {
		e := fingerprinted()[VLLM]
		e.Placement[0].GPUIDs = nil
		before := Fingerprint(e)
		change(e)
		if diff := cmp.Diff(before, Fingerprint(e)); diff != "" {
			t.Errorf("%s makes another engine (-before +after):\n%s", name, diff)
		}
	}
	a, b := *fingerprinted()[SGLang], *fingerprinted()[SGLang]
	a.Image, b.Image = "lmsysorg/sglang:v1"+digest, "mirror.example.com/sglang:v2"+digest
	if diff := cmp.Diff(Fingerprint(&a), Fingerprint(&b)); diff != "" {
		t.Errorf("one digest, two names (-a +b):\n%s", diff)
	}
	one, two := *fingerprinted()[SGLang], *fingerprinted()[SGLang]
	one.Flags, two.Flags = flagsOf("x=a b"), flagsOf("x=a", "x=b")
	if maps.Equal(Fingerprint(&one), Fingerprint(&two)) {
		t.Error(`["a b"] and ["a", "b"] of one flag are the same engine`)
	}
	one.Flags, two.Flags = nil, nil
	one.Command = commandOf("--x", "a", "--x", "b")
	two.Command = commandOf("--x", "a", "b")
	if maps.Equal(Fingerprint(&one), Fingerprint(&two)) {
		t.Error("a repeated flag and one with two values are the same engine")
	}
}

// TestFingerprintOfManifests: what is made counts, and where requests go; not what is waited for and how
// pods are found.
func TestFingerprintOfManifests(t *testing.T) {
	of := func(c provision.Cluster) string {
		e := fingerprinted()[Operated]
		e.Host().Cluster = &c
		return Fingerprint(e)["cluster"]
	}
	one := of(provision.Cluster{Name: "moai", Kubeconfig: "a.yaml", Context: "default", Is: "https://127.0.0.1:6443 ab"})
	if same := of(provision.Cluster{Name: "renamed", Kubeconfig: "b.yaml", Context: "moai", Is: "https://127.0.0.1:6443 ab"}); same != one {
		t.Errorf("a cluster by another name: %q, want %q", same, one)
	}
	if other := of(provision.Cluster{Name: "moai", Kubeconfig: "a.yaml", Context: "default", Is: "https://127.0.0.1:6443 cd"}); other == one {
		t.Errorf("two clusters are both %q", other)
	}
	base := Fingerprint(fingerprinted()[Operated])
	for name, change := range map[string]func(*Manifests){
		"service, which counts": func(m *Manifests) { m.Service = "other:80" },
		"count, which counts":   func(m *Manifests) { m.Roles = []provision.PodRole{{Name: "serve", Instances: 2}} },
		"wait":                  func(m *Manifests) { m.Wait = []provision.Await{{Kind: "Service"}} },
		"roles":                 func(m *Manifests) { m.Roles = []provision.PodRole{{Name: "serve"}} },
		"place":                 func(m *Manifests) { m.Objects[0].Pos = "web.yaml:7" },
		"secret": func(m *Manifests) {
			m.Objects[1].Text = provision.Partly(`{"data": {"key": "new"}}`, `{"data": {"key": "(sensitive)"}}`, []string{"new"})
		},
		"text, which counts": func(m *Manifests) { m.Objects[0].Text = provision.Plain(`{"spec": {"ports": [81]}}`) },
		"more, which counts": func(m *Manifests) {
			m.Objects = append(m.Objects, provision.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "c", Text: provision.Plain("{}")})
		},
	} {
		e := fingerprinted()[Operated]
		change(e.Manifests)
		if got, want := !maps.Equal(base, Fingerprint(e)), strings.HasSuffix(name, "counts"); got != want {
			t.Errorf("%s: another value makes another engine: %v, want %v", name, got, want)
		}
	}
}

// TestFingerprintOfRouters: where a router listens, and where it tells its counters, changes no number.
func TestFingerprintOfRouters(t *testing.T) {
	for name, change := range map[string]func(r *Engine){
		"trtllm": func(r *Engine) { r.Config = provision.Plain(`{"hostname": "10.0.0.1", "port": 29001}`) },
		"recipe-c": func(r *Engine) {
			r.Flags = append(r.Flags, flagsOf("prometheus-host=10.0.0.1", "prometheus-port=29000")...)
		},
	} {
		e, other := groups()[name], groups()[name]
		change(other.recipe(Route))
		if diff := cmp.Diff(Fingerprint(e), Fingerprint(other)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
