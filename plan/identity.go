package plan

import (
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
	"hclbench/origin"
	"hclbench/provision"
	"hclbench/results"
)

type loadIdentity struct {
	pairs map[string]string
	text  string // the pairs in their order, to be hashed
}

// loadOf is everything about a cell's load that can change a number: the workload and the
// headers that it is sent with. Secret headers count as "(sensitive)", and the engine's
// key, which opens a door and steers nothing, not at all. Of hosts that the load is
// sent from it counts how many they are, which are the engine's too, and what is asked for pods.
func loadOf(c hcl.Cell, d *Deployment) loadIdentity {
	counts := c.Workload.Fingerprint
	if c.Offline {
		counts = batchOf(c).Fingerprint
	}
	pairs := map[string]string{}
	for name, value := range counts() {
		pairs["load."+name] = value
	}
	if c.Asks != nil {
		for name, value := range asked(c.Asks.Spec) {
			pairs["accuracy."+name] = value
		}
	}
	if c.Capacity != nil {
		pairs[loadCapacity] = c.Capacity.Of()
	}
	var clients []string
	for _, h := range c.From {
		client := engines.Client(h)
		if slices.Contains(d.Hosts, h) {
			client = "a host of the engine"
		}
		clients = append(clients, client)
	}
	if len(clients) > 0 {
		slices.Sort(clients)
		pairs["load.from"] = strings.Join(clients, ", ")
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

// id is the cell's, and group that of its repetitions together.
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

// twin tells an engine from another that is equal but for its name or its host.
const twin = "twin"

// identify gives deployments and cells their ids. They are pure functions of what can
// change a number, but for twins: of several equal engines one is identified by that
// alone, and the others by their names too. Which one is asked of what is known, so
// that adding, removing or moving a twin measures no other one again, and none takes
// over the numbers of another.
func (p *Plan) identify(known map[string]results.Known) {
	equal := map[string][]*Deployment{}
	for _, d := range p.Deployments {
		text := canonical(d.Identity)
		equal[text] = append(equal[text], d)
	}
	for _, twins := range equal {
		names := namesOf(twins)
		if i := nameless(twins, names, known); i >= 0 {
			names[i] = ""
		}
		for i, d := range twins {
			*d = *d.called(names[i])
		}
	}
	for _, d := range p.Deployments {
		d.identify(p.Lab.Name)
	}
	for _, d := range p.Deployments {
		if d.Engine.Without == "" {
			continue
		}
		own := &results.OwnStart{Without: d.Engine.Without}
		if i := slices.IndexFunc(p.Deployments, d.answersFor); i >= 0 {
			own.For = p.Deployments[i].ID
		}
		for _, c := range d.Cells {
			c.Eval().Own = own
		}
	}
}

// answersFor reports whether the deployment is a start for questions alone of what another one is.
func (d *Deployment) answersFor(timed *Deployment) bool {
	return d.Engine.Without != "" && timed.Engine.Without == "" && timed.Engine.Label() == d.Engine.Label()
}

// namesOf are the names that tell equal deployments apart: their labels, and of those
// of one engine, which an axis turned without making another of it, also a number.
func namesOf(equal []*Deployment) []string {
	names, met := make([]string, len(equal)), map[string]int{}
	for i, d := range equal {
		names[i] = d.Engine.Label()
		if met[names[i]]++; met[names[i]] > 1 {
			names[i] += " " + strconv.Itoa(met[d.Engine.Label()])
		}
	}
	return names
}

// nameless picks, of equal deployments, the one that needs no name; -1 for none.
func nameless(equal []*Deployment, names []string, known map[string]results.Known) int {
	if len(known) == 0 {
		return 0
	}
	var unnamed []int
	taken := false // the nameless id has measurements of another engine
	for i, d := range equal {
		named, bare := d.called(names[i]), d.called("")
		if slices.ContainsFunc(d.Cells, func(c *Cell) bool { _, _, ok := named.measured(c, known); return ok }) {
			continue
		}
		unnamed = append(unnamed, i)
		for _, c := range d.Cells {
			if _, k, ok := bare.measured(c, known); ok {
				if k.Engine == d.Engine.Label() {
					return i
				}
				taken = true
			}
		}
	}
	// One engine alone has been given another name since.
	if len(unnamed) > 0 && (!taken || len(equal) == 1) {
		return unnamed[0]
	}
	return -1
}

// called is the deployment under the name that tells it from its twins; "" for none.
func (d *Deployment) called(name string) *Deployment {
	id := func(identity map[string]string) string {
		if name != "" {
			identity[twin] = name
		}
		return hash(canonical(identity))
	}
	out := *d
	out.Identity = maps.Clone(d.Identity)
	out.ID = id(out.Identity)
	pinned := map[string]string{}
	unpinned := d.Engine.With(func(role string, recipe *engines.Engine) *engines.Engine {
		e := *recipe
		if ref, err := origin.ParseRef(e.Image); err == nil && ref.Digest != "" {
			pinned[role] = ref.Digest
		}
		e.Image = origin.Unpinned(e.Image)
		if e.Build != nil {
			e.Build = new(*e.Build)
			e.Build.Image = origin.Unpinned(e.Build.Image)
		}
		return &e
	})
	if len(pinned) > 0 {
		out.byTag, out.pinned = id(engines.Fingerprint(unpinned)), pinned
	}
	return &out
}

func (d *Deployment) identify(lab string) {
	for i := range d.Members {
		m := &d.Members[i]
		m.Container.Name = containerName(lab, d.Engine, d.ID)
		if len(d.Members) > 1 {
			m.Container.Name += fmt.Sprintf("-%s-%d-%d", m.Role, m.Instance, m.Rank)
		}
		m.Container.Labels = map[string]string{
			provision.LabelLab:        lab,
			provision.LabelDeployment: d.ID,
			provision.LabelEngine:     d.Engine.Label(),
		}
		if d.Grouped() {
			m.Container.Labels[provision.LabelMember] = m.Name()
		}
	}
	for _, c := range d.Cells {
		c.ID, c.Group = c.id(d.ID), c.group(d.ID)
		if b := c.Batch(); b != nil {
			in := d.Members[0].Container
			b.Bench.Container.Name, b.Bench.Container.Labels = in.Name+"-offline", in.Labels
		}
	}
}
