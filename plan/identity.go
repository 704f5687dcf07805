package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/origin"
	"hclbench/provision"
)

// The labels that every container and process of a lab carries. They are how
// destroy and the next apply find them, whoever left them there.
const (
	LabelLab        = "hcl.lab"
	LabelRun        = "hcl.run"
	LabelDeployment = "hcl.deployment"
	LabelEngine     = "hcl.engine"
)

// deploymentIdentity is everything about an engine's start that can change a
// number, as flat text: our own normalised words, never a daemon's echo of them.
// Where it listens, how it is named and how it is stopped cannot change one.
// Secrets count as "(sensitive)", so a new token re-measures nothing.
func deploymentIdentity(e *engines.Engine, ct provision.Container) map[string]string {
	id := map[string]string{"kind": e.Kind, "host": e.Host.Name}
	if e.Host.GPUs.Count > 0 {
		id["gpus"] = e.Host.GPUs.String()
	}
	if e.Host.Prepare != nil {
		flatten(id, "prepare.", e.Host.Prepare)
	}
	for _, f := range ct.Files { // the engine's configuration is the only one
		flatten(id, "config.", json.RawMessage(f.Text.String()))
	}
	commandIdentity(id, append(slices.Clone(ct.Entrypoint), ct.Command...))
	for _, v := range ct.Env {
		id["env "+v.Name] = v.Value.String()
	}
	if e.Model != nil && e.Model.Download && !slices.ContainsFunc(e.Env, func(v provision.EnvVar) bool { return v.Name == engines.HubOffline }) {
		delete(id, "env "+engines.HubOffline) // who brings a model changes no number
	}
	ct.Image = exactImage(ct.Image)
	ct.Name, ct.Labels, ct.Port = "", nil, 0
	ct.Entrypoint, ct.Command, ct.Env, ct.Files = nil, nil, nil, nil
	ct.StopSignal, ct.StopGrace = "", 0
	flatten(id, "", ct)
	delete(id, "stop_grace")
	return id
}

// exactImage is the one form of all names of an image: a tag beside a digest is for
// people.
func exactImage(image string) string {
	ref, err := origin.ParseRef(image)
	if err != nil {
		return image
	}
	return ref.Exact()
}

// commandIdentity splits a command into its flags, so that a difference reads
// "--tp 8 → 4" and not as two long lines.
func commandIdentity(id map[string]string, argv []provision.Text) {
	key := "command"
	for _, w := range argv {
		word := w.String()
		if strings.HasPrefix(word, "--") && !w.IsSecret() {
			key = word
			if name, value, ok := strings.Cut(word, "="); ok {
				key, word = name, value
			} else {
				word = ""
			}
		}
		id[key] = strings.TrimSpace(id[key] + " " + word)
	}
	delete(id, "--port")
}

// flatten adds the members of v's JSON form under dotted names. Members that
// are left out of the JSON are left out here, so that an argument which a later
// version adds does not make old results stale.
func flatten(id map[string]string, prefix string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v. This is a bug in hcl.", v, err))
	}
	var members map[string]any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&members); err != nil {
		panic(fmt.Sprintf("flatten %T: %v. This is a bug in hcl.", v, err))
	}
	flattenMembers(id, prefix, members)
}

func flattenMembers(id map[string]string, prefix string, members map[string]any) {
	for name, member := range members {
		switch m := member.(type) {
		case map[string]any:
			flattenMembers(id, prefix+name+".", m)
		case string:
			id[prefix+name] = m
		default:
			text, _ := json.Marshal(m) // it came from JSON
			id[prefix+name] = string(text)
		}
	}
}

// identities gives out ids. It tells two equal things apart that a lab declares
// twice, such as the two sides of an A/A comparison: the second gets an id of its
// own. And it makes the text of a load once, however many cells share it.
type identities struct {
	seen  map[string]int
	loads map[string]loadIdentity // by the JSON form of the workload
}

// loadIdentified is a workload with the headers that it is sent with. Secret ones
// count as "(sensitive)", and the engine's key, which opens a door and steers
// nothing, not at all.
type loadIdentified struct {
	load.Workload
	Headers map[string]string `json:"headers,omitempty"`
	From    string            `json:"from,omitempty"` // another host than the engine's
}

func identified(c hcl.Cell) loadIdentified {
	out := loadIdentified{Workload: c.Workload}
	if c.From != nil {
		out.From = c.From.Name
	}
	for _, h := range c.Headers {
		if out.Headers == nil {
			out.Headers = map[string]string{}
		}
		out.Headers[h.Name] = h.Value.String()
	}
	return out
}

// loadIdentity is everything about a load that can change a number.
type loadIdentity struct {
	pairs map[string]string
	text  []byte // the pairs in their order, to be hashed
}

func newIdentities() *identities {
	return &identities{seen: map[string]int{}, loads: map[string]loadIdentity{}}
}

// deployment is the id of an identity, to which it adds the occurrence.
func (i *identities) deployment(identity map[string]string) string {
	text := canonical(identity)
	id := hash(text)
	if n := i.again(id); n > 1 {
		identity["occurrence"] = strconv.Itoa(n)
		return hash(canonical(identity))
	}
	return id
}

// cell is the id of a load on a deployment, and the load's identity.
func (i *identities) cell(deployment string, w loadIdentified, repetition int) (id string, pairs map[string]string) {
	b, err := json.Marshal(w)
	if err != nil {
		panic(fmt.Sprintf("marshal a workload: %v. This is a bug in hcl.", err))
	}
	l, ok := i.loads[string(b)]
	if !ok {
		l.pairs = map[string]string{}
		flatten(l.pairs, "load.", w)
		l.text = canonical(l.pairs)
		i.loads[string(b)] = l
	}
	text := fmt.Appendf(nil, "deployment=%s repetition=%d\n%s", deployment, repetition, l.text)
	id = hash(text)
	if n := i.again(id); n > 1 {
		id = hash(fmt.Appendf(text, "occurrence=%d\n", n))
	}
	return id, l.pairs
}

// again counts how often an id was given out.
func (i *identities) again(id string) int {
	i.seen[id]++
	return i.seen[id]
}

// Identity is everything that can change the cell's numbers: the deployment's
// identity and the load's.
func (c *Cell) Identity() map[string]string {
	id := maps.Clone(c.deployment.Identity)
	maps.Copy(id, c.load)
	id["deployment"] = c.deployment.ID
	if c.Repetition > 1 {
		id["repetition"] = strconv.Itoa(c.Repetition)
	}
	return id
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

func seed(cellID string) uint64 {
	sum := sha256.Sum256([]byte("seed " + cellID))
	return binary.BigEndian.Uint64(sum[:8])
}

// difference says in words what separates two identities.
func difference(old, now map[string]string) string {
	var parts []string
	keys := map[string]bool{}
	for _, m := range []map[string]string{old, now} {
		for k := range m {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		was, had := old[k]
		is, has := now[k]
		switch {
		case k == "deployment" || k == "occurrence" || had && has && was == is:
		case !had:
			parts = append(parts, strings.TrimSpace("+ "+k+" "+is))
		case !has:
			parts = append(parts, strings.TrimSpace("- "+k+" "+was))
		default:
			parts = append(parts, fmt.Sprintf("%s %s → %s", k, orNothing(was), orNothing(is)))
		}
	}
	if len(parts) == 0 {
		return "measured with an engine declared in another place"
	}
	return strings.Join(parts, ", ")
}

func orNothing(s string) string {
	if s == "" {
		return `""`
	}
	return s
}

// containerName is unique on a host and tells a person what it is.
func containerName(lab string, e *engines.Engine, id string) string {
	return "hcl-" + clean(lab) + "-" + clean(e.Kind) + "-" + clean(e.Name) + "-" + id[:6]
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
