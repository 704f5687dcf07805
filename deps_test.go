package hclbench_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tables below are policy: they say which room may know which, and why. A
// build that breaks them is fixed by moving code, not by widening a table. A
// wider table is a change of the architecture and wants the same discussion.

// room is a folder and everything below it.
type room struct {
	folder string
	may    []string // rooms it may import
	why    string   // why these and no others
}

// rooms stand from top to bottom: imports point down only.
var rooms = []room{
	{"cmd/hcl", []string{"accuracy", "apply", "apply/place", "plan", "hcl", "hcl/lang", "engines", "engines/setting", "report/page", "report/draw", "report/compare", "report/table", "report/say", "report/figure", "report/number", "results", "results/bundle", "results/door", "results/formats", "agent", "calibrate", "capacity", "tune", "load", "load/measure", "load/metric", "load/prompts", "load/wire", "sim", "lock", "provision", "provision/docker", "provision/fabric", "provision/kube", "provision/look", "provision/reach", "provision/rent", "provision/rent/protocol", "origin", "telemetry", "examples", "plain", "flow"},
		"the command joins the rooms; nobody imports it"},
	{"plugins", []string{"provision/rent/protocol", "plain"},
		"programs that speak to providers of boxes: each knows its own, and of the house only what it is asked; they join rooms of theirs with nothing"},
	{"examples", nil,
		"labs, and one test that loads and plans them as a user does; `hcl init` writes some of them"},
	{"apply", []string{"apply/place", "plan", "accuracy", "capacity", "results", "tune", "load", "load/prompts", "engines", "provision", "provision/kube", "provision/reach", "provision/rent", "provision/rent/protocol", "agent", "telemetry", "program", "plain", "flow"},
		"carries a plan out; it gets the plan, so it never reads lab text, and it does not print, so no report"},
	{"apply/place", []string{"load", "engines", "provision", "provision/docker", "provision/fabric", "provision/kube", "provision/look", "provision/reach", "provision/rent", "provision/rent/protocol", "agent", "origin", "telemetry", "plain", "flow"},
		"is at a host and holds it, whatever for: it knows no plan, and keeps nothing"},
	{"plan", []string{"hcl", "accuracy", "capacity", "engines", "tune", "lock", "provision", "provision/docker", "provision/rent/protocol", "load", "results", "where", "origin", "plain"},
		"decides and is pure: it reads what was measured but reaches no host through apply or agent; of docker only the line that starts a container by hand, of origin only how an image's name is read, of lock only what its file says"},
	{"hcl", []string{"hcl/lang", "accuracy", "capacity", "engines", "tune", "load", "load/metric", "provision", "where", "origin", "plain"},
		"fills in their nouns; it knows neither plans nor results, so that text can be checked alone; of origin only how an image's name is read"},
	{"hcl/lang", []string{"provision", "where", "plain"},
		"blocks, expressions and mistakes of a text, whatever the text is about; of provision only the text that may be secret"},
	{"engines", []string{"engines/setting", "provision", "telemetry", "origin", "plain"},
		"pure functions from engine and host to a container, and to the names of what it exports; of origin only how an image's name is read"},
	{"report/page", []string{"accuracy", "report/draw", "report/compare", "report/table", "report/say", "report/figure", "report/chart", "report/number", "results", "tune", "load", "load/metric", "plain"},
		"one HTML page with all its data; what leads and what is sure was decided below, its scripts hide, show and draw"},
	{"report/draw", []string{"capacity", "report/say", "report/figure", "report/chart", "report/number", "results", "tune", "load", "telemetry", "where", "plain"},
		"lays slices of cells out as charts and writes pictures; it decides nothing, and knows no page"},
	{"report/compare", []string{"accuracy", "capacity", "report/table", "report/say", "report/figure", "report/number", "results", "load", "where", "plain"},
		"two sets of results held against each other and against limits; who leads in one set, it does not ask"},
	{"report/table", []string{"accuracy", "capacity", "report/say", "report/figure", "report/number", "results", "tune", "load", "load/metric", "telemetry", "plain"},
		"text, Markdown, CSV and JSON of what was measured; it computes nothing and draws nothing"},
	{"report/say", []string{"accuracy", "capacity", "report/figure", "report/chart", "report/number", "results", "tune", "load", "load/metric", "plain"},
		"puts into words what was found; it ranks nothing, and knows no table and no page"},
	{"report/figure", []string{"accuracy", "capacity", "report/chart", "report/number", "results", "tune", "results/formats", "load", "load/metric", "telemetry", "where", "plain"},
		"metrics, cells with their evidence, series, slices, and who leads where: it works where no host and no lab is, and knows no sentence and no layout; of formats only what the columns of a published table mean"},
	{"report/reporttest", []string{"accuracy", "capacity", "results", "tune", "results/formats", "load", "telemetry", "plain"},
		"results that tests of reports are held against"},
	{"report/chart", []string{"report/number"},
		"lines and bars become SVG and pixels; what they are of, it is told, so that it knows neither cells nor results"},
	{"report/number", nil,
		"numbers as people read them, in charts as in tables"},
	{"results/bundle", []string{"accuracy", "results", "results/door", "load", "plain"},
		"a run as one file, out of a store and into another"},
	{"results/formats", []string{"accuracy", "results", "results/door", "engines/setting", "load", "load/metric", "telemetry", "plain"},
		"what other tools write, and what people publish; of engines only what the flags of a command mean, of answers only what they are worth"},
	{"results/door", []string{"accuracy", "results", "capacity", "tune", "load", "plain"},
		"the one door for what others have written: bounded, printable, and looked at wholly"},
	{"results", []string{"accuracy", "capacity", "tune", "load", "telemetry", "plain"},
		"keeps what the generator measured, whoever asked for it"},
	{"engines/setting", nil,
		"rows read out of published packages, and what they mean; it knows no engine of a lab, so that whoever reads a command can ask it"},
	{"engines/setting/published", nil,
		"the same rows read in another way, for tests"},
	{"agent", []string{"load", "load/measure", "provision", "provision/docker", "provision/look", "provision/reach", "telemetry", "origin", "plain", "flow"},
		"runs jobs and containers of its own host and fetches models to it; it knows no engines, so that a new kind of engine needs nothing of it; caller and agent are of one version, as a caller replaces an agent of another"},
	{"accuracy", []string{"load", "plain", "tokenizer"},
		"what is asked, how right an answer is, and what two lists of answers prove: whoever asks tells it what was answered, so that it can be held against the harnesses and against simulated truth"},
	{"calibrate", []string{"load", "load/measure", "load/wire", "sim", "plain"},
		"holds the generator against the engine that knows the truth; whatever starts that engine is its caller's"},
	{"capacity", []string{"load"},
		"which load to try next, and what is certain: whoever measures tells it, so that it can be held against simulated truth"},
	{"tune", nil,
		"which start to make next, and which settings are best: whoever starts engines tells it what came of them, so that it can be held against simulated truth"},
	{"load/measure", []string{"load", "load/prompts", "load/wire", "plain"},
		"a load generator that anyone can point at any server: it joins what is asked, how it is carried, and what comes of it"},
	{"load/prompts", []string{"load", "load/wire", "tokenizer", "plain"},
		"counts and cuts prompts as the model does, or asks the server to, as the load asks it"},
	{"load/wire", []string{"load", "plain"},
		"carries requests and stamps answers; what they say, it is told"},
	{"load/metric", nil,
		"one table of the figures of a run, for the language as for reports; what has them, it is told"},
	{"load", []string{"plain"},
		"the nouns that others store and show: whoever knows them pulls in no generator"},
	{"sim", nil,
		"the generator is held against it, so it must share no code with the generator"},
	{"lock", []string{"origin", "plain"},
		"keeps what names meant; what a lab names comes as plain text"},
	{"where", nil,
		"one language of conditions, for lab text and for flags; what they are about, it is told"},
	{"telemetry", []string{"smi", "plain"},
		"reads numbers from tools and pages; which ones, it is told"},
	{"tokenizer", nil,
		"text and numbers only: whoever has a tokenizer.json can use it, and nothing here can make it differ from Hugging Face's"},
	{"provision/fabric", []string{"provision", "provision/docker", "provision/look", "provision/reach", "plain", "flow"},
		"what joins hosts, and what engines get of it; who takes the hosts, and what runs there, is its caller's"},
	{"provision/look", []string{"provision", "provision/docker", "provision/reach", "smi", "plain", "flow"},
		"asks hosts and their daemons, and says it in the nouns of provision, which judge it"},
	{"provision/docker", []string{"provision", "provision/reach", "origin", "plain", "flow"},
		"containers by Docker, a sibling of other ways to run them; images come from somewhere"},
	{"provision/kube", []string{"provision", "provision/reach", "plain", "flow"},
		"pods of a cluster, a sibling of other places; how they are spoken to is reach's"},
	{"provision/rent/protocol", nil,
		"what a program of a provider's is asked, and answers: whoever writes one needs nothing else of the house"},
	{"provision/rent", []string{"provision", "provision/rent/protocol", "program", "plain", "flow"},
		"boxes that come and go for money, a sibling of other places; it knows no provider, and how a box is spoken to is reach's"},
	{"provision/reach/reachtest", []string{"provision", "provision/reach", "testhost"},
		"connects tests to test hosts"},
	{"provision/reach", []string{"provision", "plain", "flow"},
		"a shell, files and connections of a host, whatever they are for"},
	{"provision", []string{"plain"},
		"the nouns of places and containers and what is good of them: pure, so that plans and labs need no SSH and no Docker"},
	{"smi", []string{"plain"},
		"forms of three tools' output, for whoever has run them"},
	{"origin", []string{"plain"},
		"the bottom: names, digests and bytes over HTTP; where they go, it is told"},

	{"program", []string{"plain"},
		"a program of the user's, run within bounds; what for, its caller knows"},
	{"flow", nil,
		"how things are done side by side, again, and after a while; what, it is told"},
	{"plain", nil,
		"the door for the words of others, wherever they come in: it knows of no other room"},

	{"testhost/engine", []string{"sim"},
		"the program in the images of test hosts is the simulated engine"},
	{"testhost/sweep", []string{"testhost"},
		"clears what interrupted tests left"},
	{"testhost/pypi", []string{"examples"},
		"real engines are made for tests as the example makes one for its reader"},
	{"testhost/provider", []string{"provision/rent/protocol"},
		"a provider of boxes for tests speaks the protocol that real ones do"},
	{"testhost/recording", nil,
		"test support for every room: what real engines have said"},
	{"testhost/golden", nil,
		"test support for every room: files that tests are held against"},
	{"testhost", nil,
		"test support for every room, so it can know none"},
}

// libraries are the modules of others and the rooms that may import them. What
// stands in one room can be replaced there.
var libraries = []struct {
	module string
	rooms  []string
	why    string
}{
	{"github.com/hashicorp/hcl/v2", []string{"hcl/lang"}, "no other room sees an expression or a diagnostic of it"},
	{"github.com/zclconf/go-cty", []string{"hcl/lang", "hcl"}, "values leave the room as our own nouns"},
	{"github.com/zclconf/go-cty-yaml", []string{"hcl/lang", "hcl"}, "the function yamldecode"},
	{"github.com/agext/levenshtein", []string{"where"}, "suggestions in diagnostics"},
	{"github.com/rivo/uniseg", []string{"hcl/lang"}, "columns of diagnostics"},

	{"golang.org/x/crypto/ssh", []string{"provision/reach"}, "one room speaks SSH"},
	{"github.com/skeema/knownhosts", []string{"provision/reach"}, "one room speaks SSH"},
	{"github.com/docker/docker", []string{"provision/docker"}, "deprecated upstream: its successor must be able to replace it in one place"},
	{"github.com/docker/go-connections", []string{"provision/docker"}, "ports in the Docker client's terms"},
	{"github.com/containerd/errdefs", []string{"provision/docker"}, "kinds of the Docker client's errors"},

	{"k8s.io/client-go/kubernetes", nil, "typed clients double the binary: objects are maps and small structs of our own"},
	{"k8s.io", []string{"provision/kube"}, "kubeconfigs, credentials, exec and quantities are not ours to write"},
	{"sigs.k8s.io/yaml", []string{"provision/kube", "hcl", "results/formats"}, "objects as kubectl takes them; Benchmark Reports are YAML"},

	{"github.com/spf13/cobra", []string{"cmd/hcl"}, "flags and help are the command's"},
	{"github.com/spf13/pflag", []string{"cmd/hcl"}, "flags and help are the command's"},
	{"github.com/charmbracelet/log", []string{"cmd/hcl"}, "the other rooms take an slog.Logger"},
	{"github.com/muesli/termenv", []string{"cmd/hcl"}, "whether log lines have colours is said to the logger, which would ask the terminal"},
	{"github.com/muesli/cancelreader", []string{"cmd/hcl"}, "a question at the terminal that Ctrl-C can end"},
	{"charm.land/bubbletea/v2", []string{"cmd/hcl"}, "the terminal is the command's"},
	{"charm.land/lipgloss/v2", []string{"cmd/hcl"}, "the terminal is the command's"},
	{"github.com/charmbracelet/x/ansi", []string{"plain"}, "what is a control sequence of a terminal"},
	{"github.com/distribution/reference", []string{"origin", "testhost"}, "one reading of image references, Docker's own"},
	{"golang.org/x/term", []string{"cmd/hcl"}, "the terminal is the command's"},

	{"golang.org/x/image", []string{"report/chart"}, "charts as pictures: polygons and letters become pixels in one room"},

	{"modernc.org/sqlite", []string{"results"}, "the database is an index that only the store knows"},
	{"github.com/jackc/pgx/v5", []string{"results"}, "the database of a store that a team shares; pure Go, behind database/sql"},
	{"github.com/klauspost/compress", []string{"results", "results/bundle"}, "records on disk"},

	{"golang.org/x/text", []string{"tokenizer"}, "normal forms of Unicode"},
	{"github.com/dlclark/regexp2/v2", []string{"tokenizer", "accuracy"}, "regular expressions of tokenizer files and of JSON schemas look ahead, which Go's do not"},
	{"github.com/ardanlabs/jinja", []string{"accuracy"}, "chat templates are Jinja; made for them, with no dependency of its own"},
	{"github.com/santhosh-tekuri/jsonschema/v6", []string{"accuracy"}, "whether a call of a tool is as its JSON schema says; pure Go, and passes the published test suite of the drafts"},

	{"github.com/cenkalti/backoff/v5", []string{"flow"}, "one way to try again"},
	{"github.com/gofrs/flock", []string{"results", "agent"}, "who writes files that outlive it locks them"},
	{"github.com/google/renameio/v2", []string{"results", "agent", "lock", "calibrate", "cmd/hcl"}, "who writes files that outlive it writes them whole"},
	{"golang.org/x/sync", []string{"cmd/hcl", "agent", "provision/docker", "provision/reach", "lock"}, "bounded concurrency"},
	{"golang.org/x/sys", []string{"load/measure", "load/wire", "agent", "sim", "testhost"}, "clocks, processes, sockets and namespaces of the kernel"},

	{"github.com/google/go-containerregistry", []string{"testhost"}, "registries exist for tests alone"},
	{"github.com/charmbracelet/x/vt", nil, "tests: a terminal, and what is seen on it"},
	{"github.com/google/go-cmp", []string{"testhost/golden", "report/reporttest"}, "tests"},
	{"github.com/rogpeppe/go-internal/diff", []string{"cmd/hcl"}, "hcl fmt shows what it would change"},
	{"github.com/rogpeppe/go-internal", nil, "tests"},
	{"golang.org/x/tools", nil, "tests"},
}

// testLibraries may be imported by the tests of every room.
var testLibraries = []string{"github.com/charmbracelet/x/vt", "github.com/google/go-cmp", "github.com/google/go-containerregistry", "github.com/rogpeppe/go-internal", "golang.org/x/tools",
	"github.com/klauspost/compress"} // what is packed may hold secrets too

// testRooms may be imported by the tests of every room.
var testRooms = []string{"testhost", "sim"}

// module is ours.
const module = "hclbench"

// pkg is what `go list -json` says of a package, as far as it matters here.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// violations returns every import that the tables do not allow, sorted.
func violations(packages []pkg) []string {
	var found []string
	for _, p := range packages {
		if p.ImportPath == module && len(p.Imports) == 0 {
			continue // this test
		}
		i := roomOf(p.ImportPath)
		if i < 0 {
			found = append(found, fmt.Sprintf("%s: no room of this name: say in deps_test.go what it may import", p.ImportPath))
			continue
		}
		r := rooms[i]
		for _, path := range p.Imports {
			if why := forbidden(r, path, r.may, nil); why != "" {
				found = append(found, fmt.Sprintf("%s may not import %s: %s", p.ImportPath, path, why))
			}
		}
		below := append(slices.Clone(r.may), testRooms...)
		for _, lower := range rooms[i+1:] {
			below = append(below, lower.folder)
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			if why := forbidden(r, path, below, testLibraries); why != "" {
				found = append(found, fmt.Sprintf("tests of %s may not import %s: %s", p.ImportPath, path, why))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// roomOf is the place of a path's room in the list, -1 for none.
func roomOf(path string) int {
	found := -1
	for i, r := range rooms { // of a room in another the inner one
		if within(path, module+"/"+r.folder) && (found < 0 || len(r.folder) > len(rooms[found].folder)) {
			found = i
		}
	}
	return found
}

// forbidden says why a room may not import a path; empty when it may.
func forbidden(r room, path string, may, modules []string) string {
	if within(path, module) {
		if i := roomOf(path); i >= 0 && (rooms[i].folder == r.folder || slices.Contains(may, rooms[i].folder)) {
			return ""
		}
		return r.why
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	if slices.ContainsFunc(modules, func(m string) bool { return within(path, m) }) {
		return ""
	}
	for _, l := range libraries {
		switch {
		case !within(path, l.module):
		case slices.Contains(l.rooms, r.folder):
			return ""
		default:
			return l.why
		}
	}
	return "a new library: say in deps_test.go which room it lives in, and why"
}

// within reports whether a path is that folder or below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func TestImports(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	out, err := cmd.Output()
	if err != nil {
		if e := new(exec.ExitError); errors.As(err, &e) {
			t.Fatalf("go list: %v\n%s", err, e.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var packages []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) < len(rooms) {
		t.Errorf("go list knows %d packages, the policy %d rooms", len(packages), len(rooms))
	}
	for _, v := range violations(packages) {
		t.Error(v)
	}
}

// TestPolicy holds the checker itself: what it must let pass, and what not.
func TestPolicy(t *testing.T) {
	tests := []struct {
		name string
		pkg  pkg
		want []string
	}{
		{"room below", pkg{ImportPath: "hclbench/plan", Imports: []string{"context", "net/http", "hclbench/hcl", "hclbench/results"}}, nil},
		{"room itself", pkg{ImportPath: "hclbench/load/trace", Imports: []string{"hclbench/load"}, XTestImports: []string{"hclbench/load/trace"}}, nil},
		{"room above", pkg{ImportPath: "hclbench/load", Imports: []string{"hclbench/provision"}},
			[]string{"hclbench/load may not import hclbench/provision: the nouns that others store and show: whoever knows them pulls in no generator"}},
		{"similar name", pkg{ImportPath: "hclbench/report/table", Imports: []string{"hclbench/loadx"}},
			[]string{"hclbench/report/table may not import hclbench/loadx: text, Markdown, CSV and JSON of what was measured; it computes nothing and draws nothing"}},
		{"library in its room", pkg{ImportPath: "hclbench/hcl/lang", Imports: []string{"github.com/hashicorp/hcl/v2/hclsyntax"}}, nil},
		{"library elsewhere", pkg{ImportPath: "hclbench/apply", Imports: []string{"github.com/docker/docker/client"}},
			[]string{"hclbench/apply may not import github.com/docker/docker/client: deprecated upstream: its successor must be able to replace it in one place"}},
		{"library unknown", pkg{ImportPath: "hclbench/sim", Imports: []string{"example.com/new"}},
			[]string{"hclbench/sim may not import example.com/new: a new library: say in deps_test.go which room it lives in, and why"}},
		{"room unknown", pkg{ImportPath: "hclbench/util"},
			[]string{"hclbench/util: no room of this name: say in deps_test.go what it may import"}},
		{"test support in a test", pkg{ImportPath: "hclbench/provision", TestImports: []string{"hclbench/testhost", "github.com/google/go-cmp/cmp"}, XTestImports: []string{"hclbench/sim"}}, nil},
		{"test support outside of tests", pkg{ImportPath: "hclbench/provision", Imports: []string{"hclbench/testhost", "github.com/google/go-cmp/cmp"}},
			[]string{
				"hclbench/provision may not import github.com/google/go-cmp/cmp: tests",
				"hclbench/provision may not import hclbench/testhost: the nouns of places and containers and what is good of them: pure, so that plans and labs need no SSH and no Docker",
			}},
		{"test of a lower room", pkg{ImportPath: "hclbench/report/table", XTestImports: []string{"hclbench/provision"}}, nil},
		{"test of a higher room", pkg{ImportPath: "hclbench/results", XTestImports: []string{"hclbench/plan"}},
			[]string{"tests of hclbench/results may not import hclbench/plan: keeps what the generator measured, whoever asked for it"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, violations([]pkg{tt.pkg})); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRoot: what is tried out by hand stays out of the project.
func TestRoot(t *testing.T) {
	for _, form := range []string{"*.json", "*.yaml", "*.yml", "*.csv", "*.html", "*.log"} {
		if found, err := filepath.Glob(form); err != nil || found != nil {
			t.Errorf("in the project's own folder lie %v, %v", found, err)
		}
	}
}
