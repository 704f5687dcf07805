// Package rent buys hosts for a time and gives them back. It asks a program of the provider's, hcl-rent-NAME, and keeps a
// journal of all that it has asked for, so that no box is forgotten, made twice, or believed to be gone while it costs money.
//
// It knows no provider, no lab and no SSH: a box is an address, a price and a hard end.
package rent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/program"
	"hclbench/provision"
	"hclbench/provision/rent/protocol"
)

// Plugin is a program hcl-rent-NAME. See the package protocol for what is said.
type Plugin struct {
	Name  string
	Path  string             // of the program; empty: hcl-rent-NAME, beside hcl or in PATH
	Dir   string             // absolute; where it may keep what it needs for this lab, as HCL_RENT_DIR
	Env   []provision.EnvVar // beside PATH and HOME
	Limit time.Duration      // of a verb; 0: [VerbLimit]
}

// VerbLimit is how long one run of a plugin may take: some make a box in it.
const VerbLimit = 15 * time.Minute

// grace is how long a plugin may take to end when it is cut off: what it knows of a box that it makes, it may have to write down.
const grace = 30 * time.Second

// maxAnswer is how much a plugin may print, in bytes.
const maxAnswer = 4 << 20

// Find is the path of the program hcl-rent-NAME: beside hcl itself, then in PATH.
func Find(name string) (path string, err error) {
	program := "hcl-rent-" + name
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), program); isProgram(beside) {
			return beside, nil
		}
	}
	if path, err = exec.LookPath(program); err != nil {
		return "", fmt.Errorf("there is no program %s, neither beside hcl nor in PATH: install it, or write another plugin", program)
	}
	return path, nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// ask runs the program for one verb. An error without one of the protocol's codes says nothing of what was done.
func (p *Plugin) ask(ctx context.Context, q protocol.Request) (protocol.Answer, error) {
	q.Protocol = protocol.Version
	input, err := json.Marshal(q)
	if err != nil {
		return protocol.Answer{}, err
	}
	path := p.Path
	if path == "" {
		if path, err = Find(p.Name); err != nil {
			return protocol.Answer{}, &protocol.Error{Code: protocol.Refused, Message: err.Error()}
		}
	}
	ran, err := program.Call{
		Words: []string{path, q.Verb}, Dir: p.Dir, Pass: network, Env: p.environment(), In: input, Within: cmp.Or(p.Limit, VerbLimit), Most: maxAnswer,
		Grace: grace,
	}.Run(ctx)
	var a protocol.Answer
	hide := plain.NewSecrets(p.secrets()...)
	said := cmp.Or(plain.Cut(last(hide.Line(ran.Err), 1<<10), 1<<10), "nothing")
	switch wrong := json.Unmarshal([]byte(ran.Out), &a); {
	case errors.Is(err, program.ErrCutOff), wrong != nil && err != nil:
		return protocol.Answer{}, p.failed(q.Verb, fmt.Errorf("%w. It says: %s", err, said))
	case wrong != nil:
		shown := plain.Cut(hide.Line(ran.Out), 200)
		return protocol.Answer{}, p.failed(q.Verb, fmt.Errorf("its answer is no JSON as hcl reads it (%w): %q", wrong, shown))
	case a.Protocol != protocol.Version:
		return protocol.Answer{}, p.failed(q.Verb, fmt.Errorf("it answers in version %d of the protocol, not %d", a.Protocol, protocol.Version))
	case a.Error != nil:
		a.Error.Code, a.Error.Message = plain.Line(a.Error.Code), plain.Cut(hide.Line(a.Error.Message), 1<<10)
		return protocol.Answer{}, p.failed(q.Verb, a.Error)
	case err != nil:
		return protocol.Answer{}, p.failed(q.Verb, fmt.Errorf("%w. It says: %s", err, said))
	}
	if err := check(&a, hide); err != nil {
		return protocol.Answer{}, p.failed(q.Verb, err)
	}
	return a, nil
}

func (p *Plugin) failed(verb string, err error) error {
	return fmt.Errorf("hcl-rent-%s %s: %w", p.Name, verb, err)
}

// network are the variables without which a plugin may not reach its provider.
var network = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"}

func (p *Plugin) environment() (env []string) {
	for _, v := range p.Env {
		env = append(env, v.Name+"="+v.Value.Reveal())
	}
	return append(env, "HCL_RENT_DIR="+p.Dir)
}

func (p *Plugin) secrets() (all []string) {
	for _, v := range p.Env {
		all = append(all, v.Value.Secrets()...)
	}
	return all
}

// login tells one login of a box's from another, as far as the environment of the rent block does, and tells neither.
func (p *Plugin) login(t *Rental) string {
	all := []string{t.Request}
	for _, v := range p.Env {
		all = append(all, v.Name+"="+v.Value.Reveal())
	}
	slices.Sort(all[1:])
	sum := sha256.Sum256([]byte(strings.Join(all, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// hasCode reports whether an error is one that a plugin has told, with such a code.
func hasCode(err error, codes ...string) bool {
	told, is := errors.AsType[*protocol.Error](err)
	for _, code := range codes {
		if is && told.Code == code {
			return true
		}
	}
	return false
}

var (
	boxID    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,255}$`)
	boxUser  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)
	boxHost  = regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9.:_-]{0,253}$`)
	boxState = map[protocol.State]bool{protocol.Pending: true, protocol.Running: true, protocol.Ending: true, protocol.Failed: true, protocol.Gone: true}
)

// check looks at all of an answer before anything acts on it. A box whose ID and state can be read is known, whatever else cannot:
// it has to be ended. Of a list, what is nobody's of hcl's and cannot be read is left out.
func check(a *protocol.Answer, hide plain.Secrets) error {
	cut := func(text string) string { return plain.Cut(hide.Line(text), 80) }
	var boxes []protocol.Box
	for _, b := range a.Boxes {
		if err := checkBox(&b, cut); err == nil {
			boxes = append(boxes, b)
		} else if b.Request != "" || b.Labels[protocol.LabelRequest] != "" {
			return err
		}
	}
	if a.Boxes = boxes; a.Box != nil {
		if err := checkBox(a.Box, cut); err != nil {
			return err
		}
	}
	for _, o := range a.Offers {
		if o.ID == "" || plain.Line(o.ID+o.Region+o.GPUs) != o.ID+o.Region+o.GPUs || len(o.ID) > 256 || !isPrice(o.PricePerHour) || !isPrice(o.Minimum) {
			return fmt.Errorf("offer %q cannot be read", cut(o.ID))
		}
	}
	if can := a.Capabilities; can != nil && (len(can.Account) > 256 || plain.Line(can.Account) != can.Account) {
		return fmt.Errorf("%q is not an account", cut(can.Account))
	}
	if a.Cost != nil && !isPrice(*a.Cost) {
		return fmt.Errorf("%v is not a cost", *a.Cost)
	}
	return nil
}

// checkBox leaves out what is odd of a box, and says so in it, by words that cut has made fit to be shown.
func checkBox(b *protocol.Box, cut func(string) string) error {
	if !boxID.MatchString(b.ID) {
		return fmt.Errorf("%q is not the ID of a box", cut(b.ID))
	}
	if !boxState[b.State] {
		return fmt.Errorf("box %s: %q is not a state", b.ID, cut(string(b.State)))
	}
	host, _, err := net.SplitHostPort(b.Address)
	if err != nil {
		host = b.Address
	}
	if b.Address != "" && !boxHost.MatchString(host) || b.User != "" && !boxUser.MatchString(b.User) {
		b.Odd = fmt.Sprintf("%q is not the address and user of a host", cut(b.User+"@"+b.Address))
		b.Address, b.User = "", ""
	}
	if b.Private != "" && !protocol.IsPrivate(b.Private) {
		b.Odd = fmt.Sprintf("%q is not the IP address of a network between hosts", cut(b.Private))
		b.Private = ""
	}
	if !isPrice(b.PricePerHour) {
		b.Odd = fmt.Sprintf("%v is not a price", b.PricePerHour)
		b.PricePerHour = 0
	}
	for _, key := range b.HostKeys {
		if err := provision.CheckHostKey(key); err != nil {
			b.Odd, b.HostKeys = fmt.Sprintf("its host key: %v", err), nil
			break
		}
	}
	return nil
}

// isPrice reports whether a number may be an amount of money, or of hours.
func isPrice(x float64) bool { return x >= 0 && x <= 1e6 && !math.IsNaN(x) }

// last is the end of a text.
func last(s string, n int) string { return strings.TrimSpace(s[max(0, len(s)-n):]) }
