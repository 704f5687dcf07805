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

	"hclbench/hcl"
)

// loadIdentity is the load's part of a cell's identity.
type loadIdentity struct {
	pairs map[string]string
	text  string // the pairs in their order, to be hashed
}

// loadOf is everything about a cell's load that can change a number: the workload and the
// headers that it is sent with. Secret headers count as "(sensitive)", and the engine's
// key, which opens a door and steers nothing, not at all. Of a host that the load is
// sent from it counts that it is another than the engine's, and what it has.
func loadOf(c hcl.Cell) loadIdentity {
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
	return loadIdentity{pairs, canonical(pairs)}
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

// id is the cell's, and group that of its repetitions together: pure functions of what
// the cell is.
func (c *Cell) id(deployment string) string {
	return c.hash(deployment, fmt.Sprintf(" repetition=%d", c.Repetition))
}

func (c *Cell) group(deployment string) string { return c.hash(deployment, "") }

func (c *Cell) hash(deployment, repetition string) string {
	const form = "deployment=%s occurrence=%d%s\n%s%s"
	return hash(fmt.Sprintf(form, deployment, c.occurrence, repetition, c.load.text, c.tool()))
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
func canonical(identity map[string]string) string {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(identity)) {
		b = strconv.AppendQuote(b, k)
		b = append(b, '=')
		b = strconv.AppendQuote(b, identity[k])
		b = append(b, '\n')
	}
	return string(b)
}

// hash is the first 48 bits of the SHA-256, in hex.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
