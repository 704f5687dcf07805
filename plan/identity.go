package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/provision"
)

// The labels that every container and process of a lab carries. They are how
// destroy and the next apply find them, whoever left them there.
const (
	LabelLab        = provision.LabelLab
	LabelRun        = "hcl.run"
	LabelDeployment = "hcl.deployment"
	LabelEngine     = "hcl.engine"
)

// loadIdentity is the load's part of a cell's identity. Cells with the same load share one.
type loadIdentity struct {
	pairs map[string]string
	text  []byte // the pairs in their order, to be hashed
}

// identities makes the text of a load once, however many cells share it.
type identities struct {
	loads map[string]*loadIdentity // by their text
}

func newIdentities() *identities { return &identities{loads: map[string]*loadIdentity{}} }

// load is everything about a cell's load that can change a number: the workload and the
// headers that it is sent with. Secret headers count as "(sensitive)", and the engine's
// key, which opens a door and steers nothing, not at all. Of a host that the load is
// sent from it counts that it is another than the engine's, and what it has.
func (i *identities) load(c hcl.Cell) *loadIdentity {
	counts := c.Workload.Fingerprint
	if c.Offline {
		counts = batchOf(c).Fingerprint
	}
	pairs := map[string]string{}
	for name, value := range counts() {
		pairs["load."+name] = value
	}
	if c.From != nil {
		pairs["load.from"] = cmp.Or(c.From.GPUs.String(), "another host")
	}
	if !c.Offline { // which sends nothing
		for _, h := range c.Headers {
			pairs["load.headers."+http.CanonicalHeaderKey(h.Name)] = h.Value.String()
		}
	}
	text := canonical(pairs)
	known, ok := i.loads[string(text)]
	if !ok {
		known = &loadIdentity{pairs, text}
		i.loads[string(text)] = known
	}
	return known
}

// Identity is everything that can change the cell's numbers: the deployment's
// identity and the load's.
func (c *Cell) Identity() map[string]string {
	id := maps.Clone(c.deployment.Identity)
	maps.Copy(id, c.load.pairs)
	id["deployment"] = c.deployment.ID
	if c.Repetition > 1 {
		id["repetition"] = strconv.Itoa(c.Repetition)
	}
	if c.occurrence > 1 {
		id["occurrence"] = strconv.Itoa(c.occurrence)
	}
	if tool := c.tool(); tool != "" {
		id["offline"] = tool
	}
	return id
}

// group is the id of the cell's repetitions together, and id that of the cell: pure
// functions of what the cell is.
func (c *Cell) group(deployment string) string {
	return hash(fmt.Appendf(nil, "deployment=%s occurrence=%d\n%s%s", deployment, c.occurrence, c.load.text, c.tool()))
}

func (c *Cell) id(deployment string) string {
	return hash(fmt.Appendf(nil, "deployment=%s occurrence=%d repetition=%d\n%s%s", deployment, c.occurrence, c.Repetition, c.load.text, c.tool()))
}

// tool is how the benchmark of a batch starts, which is part of its ids.
func (c *Cell) tool() string {
	if b := c.Batch(); b != nil {
		return b.started
	}
	return ""
}

// seed is what the cell's prompts and arrivals are drawn with: it depends on the load and
// the repetition, and not on the engine, so that two engines, or two versions of one,
// are sent the same.
func (c *Cell) seed() uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "seed occurrence=%d repetition=%d\n%s", c.occurrence, c.Repetition, c.load.text))
	return binary.BigEndian.Uint64(sum[:8])
}

// canonical is the text of an identity: its pairs, sorted.
func canonical(identity map[string]string) []byte {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(identity)) {
		b = strconv.AppendQuote(b, k)
		b = append(b, '=')
		b = strconv.AppendQuote(b, identity[k])
		b = append(b, '\n')
	}
	return b
}

// hash is the first 48 bits of the SHA-256, in hex.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// difference says in words what separates two identities.
func difference(old, now map[string]string) string {
	var parts []string
	for _, k := range differing(old, now) {
		was, had := old[k]
		is, has := now[k]
		switch {
		case !had:
			parts = append(parts, strings.TrimSpace("+ "+k+" "+is))
		case !has:
			parts = append(parts, strings.TrimSpace("- "+k+" "+was))
		default:
			parts = append(parts, fmt.Sprintf("%s %s → %s", k, orNothing(was), orNothing(is)))
		}
	}
	return strings.Join(parts, ", ")
}

// differing are the names of what separates two identities, sorted.
func differing(old, now map[string]string) []string {
	keys := map[string]bool{}
	for _, m := range []map[string]string{old, now} {
		for k := range m {
			was, had := old[k]
			is, has := now[k]
			if k != "deployment" && (had != has || was != is) { // it sums the others up
				keys[k] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

func orNothing(s string) string {
	if s == "" {
		return `""`
	}
	return s
}

// maxContainerName leaves room for the id in what the agent takes for the name of a
// process, 100 characters.
const maxContainerName = 90

// containerName is unique on a host and tells a person what it is.
func containerName(lab string, e *engines.Engine, id string) string {
	name := "hcl-" + clean(lab) + "-" + clean(e.Kind) + "-" + clean(e.Name)
	return name[:min(len(name), maxContainerName)] + "-" + id[:6]
}

// clean keeps what Docker allows in a name.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
			return r
		}
		return '-'
	}, s)
}
