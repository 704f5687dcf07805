package hcl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl/lang"
)

// operatedLab has an engine of manifests, whose block and files tests say.
const operatedLab = `
cluster "c" {
  namespace = "bench"
  image     = "debian:12"
}
host "client" {
  cluster = cluster.c
}
dataset "random" "d" {
  input_tokens = 64
}
variable "token" {
  sensitive = true
  default   = "hush-hush"
}
engine "manifests" "m" {
  host    = host.client
  service = "web:80"
  files   = ["web.yaml"]
%s
}
benchmark "b" {
  engine   = engine.manifests.m
  dataset  = dataset.random.d
  requests = 16
  load {
    concurrency   = 4
    output_tokens = 16
  }
}
`

// loadOperated loads a lab of an engine with these arguments more, and its files. What the
// arguments say is not said twice.
func loadOperated(t *testing.T, more string, files map[string]string) (*Config, *lang.Problems) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lab := strings.Replace(operatedLab, "%s", more, 1)
	for _, line := range []string{"  service = \"web:80\"\n", "  files   = [\"web.yaml\"]\n"} {
		if name, _, _ := strings.Cut(line, "="); strings.Contains(more, strings.TrimSpace(name)+" =") {
			lab = strings.Replace(lab, line, "", 1)
		}
	}
	return Load(&lang.Source{Dir: dir, Files: map[string][]byte{"lab.hcl": []byte(lab)}}, lang.Vars{})
}

const webYAML = `# what serves
apiVersion: v1
kind: Service
metadata: {name: web, namespace: bench}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: ${replicas}
  token: ${token}
  text: |
    ---
    a
---
# nothing
`

func TestManifests(t *testing.T) {
	more := `
  values = { replicas = 2, token = var.token }
  wait   = [{ kind = "Deployment", condition = "Available" }]
  roles  = { decode = { pods = "role=decode", instances = 3, port = 8000, engine = "vllm" }, prefill = "role=prefill,app=web" }
`
	c, p := loadOperated(t, more, map[string]string{"web.yaml": webYAML})
	if p.HasErrors() {
		t.Fatal(printed(t, p))
	}
	m := c.Engines[0].Manifests
	var got []string
	for _, o := range m.Objects {
		got = append(got, strings.ReplaceAll(o.String(), c.Dir+"/", "")+" "+o.Text.String())
	}
	want := []string{
		`Service web (web.yaml:2) {"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}}`,
		`Deployment web (web.yaml:6) {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},` +
			`"spec":{"replicas":2,"text":"---\na\n","token":"(sensitive)"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if clear := m.Objects[1].Text; !strings.Contains(clear.Reveal(), `"hush-hush"`) || len(clear.Secrets()) != 1 {
		t.Errorf("what is made is %s, with the secrets %q", clear.Reveal(), clear.Secrets())
	}
	if r := m.Roles; len(r) != 2 || r[0].Instances != 3 || r[0].Engine != engines.VLLM || r[1].Selector != "role=prefill,app=web" {
		t.Errorf("roles are %+v", r)
	}
	if got := engines.BaseURL(c.Engines[0]); got != "http://web:80" {
		t.Errorf("requests go to %s", got)
	}
	id := engines.Fingerprint(c.Engines[0])
	if id["Deployment.apps web.spec.token"] != "(sensitive)" || id["Deployment.apps web.spec.replicas"] != "2" {
		t.Errorf("its identity is %v", id)
	}
}

// TestManifestSecrets: what a Secret holds is secret in both forms.
func TestManifestSecrets(t *testing.T) {
	const yaml = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {t: aGZfdG9rZW4=}\nstringData: {u: hf_other}\n"
	c, p := loadOperated(t, "", map[string]string{"web.yaml": yaml})
	if p.HasErrors() {
		t.Fatal(printed(t, p))
	}
	text := c.Engines[0].Manifests.Objects[0].Text
	for _, secret := range []string{"aGZfdG9rZW4=", "hf_token", "hf_other", "aGZfb3RoZXI="} {
		if !slices.Contains(text.Secrets(), secret) || strings.Contains(text.String(), secret) {
			t.Errorf("%s is no secret of %q, shown as %s", secret, text.Secrets(), text)
		}
	}
}

func TestManifestMistakes(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	route := strings.NewReplacer("v1\n", "gateway.networking.k8s.io/v1\n", "ConfigMap", "HTTPRoute").Replace(object)
	tests := map[string]struct{ more, yaml, want string }{
		"no file":        {`files = ["other.yaml"]`, object, "There is no file"},
		"no YAML":        {"", object + "data: {a: [}\n", "web.yaml line 3"},
		"key twice":      {"", object + "kind: Pod\n", `web.yaml line 4`},
		"no kind":        {"", object + "---\napiVersion: v1\nmetadata: {name: b}\n", "web.yaml line 5"},
		"no name":        {"", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: b-}\n", "has no metadata.name"},
		"list":           {"", "apiVersion: v1\nkind: List\nitems: []\n", "This is a list"},
		"of the cluster": {"", strings.Replace(object, "ConfigMap", "ClusterRole", 1), "belongs to the whole cluster"},
		"other namespace": {"", strings.Replace(object, "name: a", "name: a, namespace: mif", 1),
			"of namespace mif, and the cluster block says bench"},
		"twice":         {"", object + "---\n" + object, "The first stands at"},
		"template":      {`values = { a = 1 }`, object + "data: {a: \"${b}\"}\n", "web.yaml line 4"},
		"wait for what": {`wait = [{ kind = "Gateway", condition = "Ready" }]`, object, "The files have no Gateway."},
		"wait":          {`wait = [{ kind = "ConfigMap" }]`, object, "Say the kind and the condition"},
		"selector":      {`roles = { a = "x" }`, object, "selects no pods"},
		"half counted":  {`roles = { a = { pods = "x=y", port = 1 } }`, object, "say both port and engine"},
		"image":         {`image = "debian:12"`, object, "its files say. Remove image."},
		"url":           {`url = "http://a:1"`, object, "its files say. Remove url."},
		"service":       {`service = "web"`, object, "a service of the cluster and its port"},
		"no timeout":    {"", route + "spec: {rules: [{}]}\n", "cut answers off that take longer"},
		"short timeout": {"", route + "spec: {rules: [{timeouts: {request: 15s}}]}\n", "timeouts.request: 15s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, p := loadOperated(t, "  "+tt.more, map[string]string{"web.yaml": tt.yaml})
			if got := strings.Join(strings.Fields(printed(t, p)), " "); !strings.Contains(got, tt.want) {
				t.Errorf("the problems are\n%s\nwant %q among them", printed(t, p), tt.want)
			}
		})
	}
	if _, p := loadOperated(t, "", map[string]string{"web.yaml": route + "spec: {rules: [{timeouts: {request: 0s}}]}\n"}); len(p.List()) > 0 {
		t.Errorf("a route without a bound has problems:\n%s", printed(t, p))
	}
}

// operatedFrom has an engine of manifests, whose arguments tests say, and a load from the host of a
// client.
const operatedFrom = `
cluster "c" {
  image = "debian:12"
}
host "p" {
  cluster = cluster.c
}
host "m" {
  address = "203.0.113.7"
}
dataset "random" "d" {
  input_tokens = 64
}
engine "manifests" "m" {
  %s
}
benchmark "b" {
  engine   = engine.manifests.m
  dataset  = dataset.random.d
  requests = 16
  load {
    concurrency   = 4
    output_tokens = 16
    from          = host.p
  }
}
`

// TestMistakenManifests: an engine that lacks something is not looked at further.
func TestMistakenManifests(t *testing.T) {
	for arguments, want := range map[string]string{
		`files = ["x.yaml"]`:                                          "Missing argument",
		"files = [\"x.yaml\"]\n  service = \"a:80\"":                  "Missing argument",
		"files = [\"x.yaml\"]\n  service = \"a:80\"\n  host = host.m": "Wrong host",
		`host = host.p`: "Missing argument",
	} {
		src := &lang.Source{Dir: t.TempDir(), Files: map[string][]byte{
			"lab.hcl": []byte(strings.Replace(operatedFrom, "%s", arguments, 1)),
		}, Open: func(string) ([]byte, error) {
			return []byte("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"), nil
		}}
		c, p := Load(src, lang.Vars{})
		if c != nil || !slices.ContainsFunc(p.List(), func(x lang.Problem) bool { return x.Summary == want }) {
			t.Errorf("%s: got %v, want %q", arguments, p.List(), want)
		}
	}
}

// TestRecipeNeedsImage: an engine that takes a role on a Docker host is missing its image there, and
// as a process it needs none.
func TestRecipeNeedsImage(t *testing.T) {
	const lab = `
host "h" {
  address = "203.0.113.7"
  gpus    = "8xH200"
  runtime = "%s"
}
model "m" {
  repo = "org/model"
}
engine "sglang" "serve" {
  model = model.m
}
group "g" {
  role "serve" {
    engine = engine.sglang.serve
    on     = [host.h]
  }
}
`
	for runtime, want := range map[string]int{"docker": 1, "process": 0} {
		text := strings.Replace(lab, "%s", runtime, 1)
		_, p := Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}, lang.Vars{})
		errors, _ := p.Count()
		if errors != want || want > 0 && !strings.Contains(p.List()[0].Detail, "image") {
			t.Errorf("%s: got %v, want %d errors about the image", runtime, p.List(), want)
		}
	}
}
