// Command hcl-rent-tofu rents a box with OpenTofu (https://opentofu.org), so of any provider that has a module. It wants the
// program tofu in PATH. What the module's providers need to log in stands in env of the rent block, and in no file of this program's.
//
// In spec stand module, a source as OpenTofu has it or a path ("../../../box": as from HCL_RENT_DIR), version, of a module out of
// a registry, price_per_hour, in USD, gpus ("8xMI300X"), and off_is_free, "true" where a box costs nothing any more when it has shut
// itself down. All else in it are variables of the module. The module has a variable
// hcl, an object with the request, the public_key that is to be let in, the labels, the deadline and the user_data, and the outputs
// address, and where they are known private_address, user, host_keys (a list) and price_per_hour.
//
// Each request has a directory of its own in HCL_RENT_DIR, with a root module that is written here, and its own state. The state
// is all that is known of the box: whoever loses it has to look at the provider. A module that is a directory is copied there: what
// was made is destroyed by what has made it. A tofu that was killed while it applied, or has failed at something that its state lacks
// now, may have made what its state has not. Such a request is never said to be gone, but its state is destroyed; the file "applying" in its
// directory says so, and is removed by who has looked. Nor is a box gone because another login does not find it: see [request.believe].
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hclbench/plain"
	"hclbench/plugins/api"
	"hclbench/provision/rent/protocol"
)

// interrupted has a value when this program was told to end. It does not do so before tofu has, which was told too, and writes down what
// it has made.
var interrupted = make(chan os.Signal, 1)

func main() {
	signal.Notify(interrupted, os.Interrupt)
	protocol.Main(answer)
}

func answer(q protocol.Request) (a protocol.Answer, err error) {
	switch q.Verb {
	case protocol.Capable:
		a.Capabilities = &protocol.Capabilities{OffIsFree: q.Spec["off_is_free"] == "true"}
		if _, err = exec.LookPath("tofu"); err != nil {
			err = refused("there is no program tofu in PATH: install OpenTofu, 1.6 or newer")
		}
	case protocol.Offers:
		var w wanted
		w, err = read(q.Spec)
		a.Offers = []protocol.Offer{{ID: plain.Cut(plain.Line(w.module), 200), GPUs: w.gpus, PricePerHour: w.price}}
	case protocol.Create:
		a.Box, err = create(q)
	case protocol.Status:
		a.Box, err = status(q)
	case protocol.Delete:
		err = destroy(q)
	default:
		err = refused("hcl-rent-tofu cannot %q", q.Verb)
	}
	return a, err
}

func refused(format string, args ...any) error {
	return &protocol.Error{Code: protocol.Refused, Message: fmt.Sprintf(format, args...)}
}

// wanted is what a spec asks for.
type wanted struct {
	module, version, gpus string
	price                 float64 // USD an hour
	variables             map[string]string
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func read(spec map[string]string) (w wanted, err error) {
	w = wanted{module: spec["module"], version: spec["version"], gpus: spec["gpus"], variables: maps.Clone(spec)}
	maps.DeleteFunc(w.variables, func(name, _ string) bool {
		return slices.Contains([]string{"module", "version", "gpus", "price_per_hour", "off_is_free"}, name)
	})
	if w.price, err = strconv.ParseFloat(spec["price_per_hour"], 64); w.module == "" || err != nil || !(w.price > 0 && w.price <= 1e6) {
		return w, refused("spec of OpenTofu has module, the source of one, and price_per_hour, what its box costs in USD, such as \"25.5\"")
	}
	if off := spec["off_is_free"]; !slices.Contains([]string{"", "true", "false"}, off) {
		return w, refused(`off_is_free is %q, and should be "true" or "false"`, plain.Cut(plain.Line(off), 80))
	}
	for name := range w.variables {
		if slices.Contains([]string{"hcl", "source", "providers", "count", "for_each", "depends_on"}, name) || !variable.MatchString(name) {
			return w, refused("spec sets %q, which is no variable that a module may have", plain.Cut(plain.Line(name), 80))
		}
	}
	return w, nil
}

// request is the directory of a request: root is OpenTofu's, with the state; the file "asked" has what was asked for; "applying"
// is there while tofu applies, and stays where the state may lack something then; "made" has what was made, once tofu has ended by itself, and
// "state" the state as it was then; "logins" are those that may say what is gone; "refreshed" is written after each refresh; and
// "gone" says that nothing is left, nor anything else in the directory.
type request struct {
	dir   string
	asked protocol.Request
	want  wanted
	lock  *os.File // held until the process ends
}

// made is what tofu has made, by its address in the state.
type made struct {
	All     []string
	Failed  bool     // it did not get to its end
	Missing []string // what it was to make and its state lacks: an answer that did not come leaves no trace there
}

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,80}$`)

// errNone says that nothing was made for a request, errBusy that another process is at it.
var (
	errNone = errors.New("nothing was made for it")
	errBusy = errors.New("tofu is at work on it")
)

func at(id string) (*request, error) {
	if !name.MatchString(id) {
		return nil, refused("%q is no request of hcl's", plain.Cut(plain.Line(id), 80))
	}
	return &request{dir: filepath.Join(os.Getenv("HCL_RENT_DIR"), id)}, nil
}

// open takes a request that was asked for before.
func open(q protocol.Request) (r *request, err error) {
	if r, err = at(cmp.Or(q.ID, q.Request)); err != nil {
		return nil, err
	}
	switch _, err = os.Stat(r.dir); {
	case errors.Is(err, fs.ErrNotExist) && q.ID == "":
		return nil, errNone
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the directory %s, with the state of the box, is not there any more: look at the provider for %s", r.dir, q.ID)
	case err != nil:
		return nil, err
	}
	if err := r.take(); err != nil {
		return nil, err
	}
	if r.has("gone") {
		r.asked.Request = filepath.Base(r.dir)
		return r, nil
	}
	if !r.has("applying") && !r.has("made") && !r.has("root/tofu.tfstate") { // this program was killed before
		return nil, errNone
	}
	if r.has("state") {
		if err := r.restore(); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(r.path("asked"))
	if err == nil {
		err = json.Unmarshal(text, &r.asked)
	}
	if err == nil {
		r.want, err = read(r.asked.Spec)
	}
	return r, err
}

func (r *request) path(name string) string { return filepath.Join(r.dir, name) }

func (r *request) has(name string) bool {
	_, err := os.Lstat(r.path(name))
	return err == nil
}

func (r *request) take() (err error) {
	if r.lock, err = os.OpenFile(r.path("lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err = syscall.Flock(int(r.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return errBusy
	}
	return err
}

// keep writes a file of the directory, whole or not at all, and returns when it is on the disk.
func (r *request) keep(name string, what any) (err error) {
	text, err := json.MarshalIndent(what, "", "  ") // tofu shows the line of a mistake
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.path(name+".new"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), r.path(name))
}

// restore brings the state back as it was when the box was made, if a tofu was killed while it wrote it: that begins with no state, and
// none says that there is no box.
func (r *request) restore() error {
	text, err := os.ReadFile(r.path("root/tofu.tfstate"))
	if err == nil && json.Valid(text) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text, err = os.ReadFile(r.path("state")); err != nil {
		return err
	}
	return r.keep("root/tofu.tfstate", json.RawMessage(text))
}

// tofu runs one command of OpenTofu, and returns what it prints. It stays in the process group of this program, which is ended
// with all that is in it, and is not ended for what it prints.
func (r *request) tofu(words ...string) (string, error) {
	cmd := exec.Command("tofu", words...)
	cmd.Dir, cmd.Env = r.path("root"), append(os.Environ(), "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err != nil {
		text := said.String()
		if at := strings.Index(text, "Error:"); at >= 0 {
			text = text[at:]
		}
		err = fmt.Errorf("tofu %s: %w: %s", words[0], err, plain.Cut(plain.Line(text), 700))
	}
	return out.String(), err
}

// literal is a text as the JSON of OpenTofu has it, where it is no template.
func literal(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(s)
}

// plan writes the root module, and has OpenTofu say what it would make of it, as addresses. Nothing is made.
func (r *request) plan() ([]string, error) {
	labels := map[string]string{}
	for label, value := range r.asked.Labels {
		labels[label] = literal(value)
	}
	call := map[string]any{"source": literal(r.want.module), "hcl": map[string]any{
		"request": literal(r.asked.Request), "public_key": literal(r.asked.PublicKey), "labels": labels, "deadline": r.asked.Deadline.UTC().Format(time.RFC3339),
		"user_data": literal(r.asked.UserData),
	}}
	if err := os.Mkdir(r.path("root"), 0o700); err != nil {
		return nil, err
	}
	if from := r.want.module; strings.HasPrefix(from, ".") || filepath.IsAbs(from) {
		if !filepath.IsAbs(from) {
			from = filepath.Join(os.Getenv("HCL_RENT_DIR"), from)
		}
		if err := copyModule(r.path("root/module"), from); err != nil {
			return nil, fmt.Errorf("copy the module %s: %w", from, err)
		}
		call["source"] = "./module"
	}
	if r.want.version != "" {
		call["version"] = r.want.version
	}
	for name, value := range r.want.variables {
		call[name] = literal(value)
	}
	err := r.keep("root/main.tf.json", map[string]any{
		"terraform": map[string]any{"backend": map[string]any{"local": map[string]string{"path": "tofu.tfstate"}}},
		"module":    map[string]any{"box": call},
		"output":    map[string]any{"box": map[string]any{"value": "${module.box}", "sensitive": true}},
	})
	if err != nil {
		return nil, err
	}
	if _, err = r.tofu("init", "-no-color", "-input=false"); err != nil {
		return nil, err
	}
	if _, err = r.tofu("plan", "-no-color", "-input=false", "-out=plan"); err != nil {
		return nil, err
	}
	text, err := r.tofu("show", "-no-color", "-json", "plan")
	if err != nil {
		return nil, err
	}
	var planned struct {
		Values struct {
			Root resources `json:"root_module"`
		} `json:"planned_values"`
		Configuration struct {
			Root struct {
				Calls map[string]struct {
					Module struct{ Outputs map[string]any }
				} `json:"module_calls"`
			} `json:"root_module"`
		}
	}
	if err := json.Unmarshal([]byte(text), &planned); err != nil {
		return nil, fmt.Errorf("what tofu says of its plan cannot be read: %w", err)
	}
	if outputs := planned.Configuration.Root.Calls["box"].Module.Outputs; outputs["address"] == nil {
		return nil, refused("the module has no output address; its outputs are %s", cmp.Or(strings.Join(slices.Sorted(maps.Keys(outputs)), ", "), "none"))
	}
	return planned.Values.Root.made(), nil
}

// mostFiles is how many files a module may have: it is copied for each request.
const mostFiles = 1000

// copyModule copies a module's directory, what its links lead to in it, but not what somebody who has tried it by hand has left there.
func copyModule(to, from string) error {
	files := 0
	var all func(to, from string) error
	all = func(to, from string) error {
		found, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		for _, one := range found {
			source, copied := filepath.Join(from, one.Name()), filepath.Join(to, one.Name())
			if name := one.Name(); name == ".terraform" || name == ".git" || strings.Contains(name, ".tfstate") {
				continue
			}
			if files++; files > mostFiles {
				return refused("it has over %d files", mostFiles)
			}
			info, err := os.Stat(source)
			switch {
			case err != nil:
				return err
			case info.IsDir():
				err = all(copied, source)
			case info.Mode().IsRegular():
				var text []byte
				if text, err = os.ReadFile(source); err == nil {
					err = os.WriteFile(copied, text, info.Mode().Perm()&0o700|0o600)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return all(to, from)
}

func create(q protocol.Request) (*protocol.Box, error) {
	want, err := read(q.Spec)
	if err != nil {
		return nil, err
	}
	r, err := at(q.Request)
	if err != nil {
		return nil, err
	}
	r.asked, r.want = q, want
	if err := os.Mkdir(r.dir, 0o700); err != nil { // nothing is asked for twice
		return nil, err
	}
	if err = r.take(); err == nil {
		err = r.keep("asked", q)
	}
	var planned []string
	if err == nil {
		planned, err = r.plan()
	}
	if err == nil && len(interrupted) > 0 {
		err = errors.New("it was interrupted")
	}
	if err == nil {
		err = errors.Join(r.keep("logins", []string{r.login()}), r.keep("applying", q.Request))
	}
	if err != nil {
		return nil, api.Before(errors.Join(err, os.RemoveAll(r.dir)))
	}
	_, err = r.tofu("apply", "-no-color", "-input=false", "plan")
	if ended, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || !ended.Exited() || r.has("root/errored.tfstate")) {
		return nil, err // it was killed, or could not write down what it has made
	}
	s, why := r.state()
	if why == nil && len(s.all) > 0 {
		var text []byte
		if text, why = os.ReadFile(r.path("root/tofu.tfstate")); why == nil {
			why = r.keep("state", json.RawMessage(text))
		}
	}
	m := made{All: s.all, Failed: err != nil}
	if m.Failed {
		m.Missing = without(planned, s.all)
	}
	if why == nil {
		why = errors.Join(r.keep("made", m), os.Remove(r.path("root/plan"))) // which has all values in clear
	}
	if why == nil && len(m.Missing) == 0 {
		why = os.Remove(r.path("applying"))
	}
	if err = errors.Join(err, why); err != nil {
		return nil, err
	}
	return r.box(s)
}

// state is what OpenTofu knows of a box.
type state struct {
	all     []string // addresses of what it has made and still has
	outputs map[string]any
}

// made is what tofu has made, as it was noted then.
func (r *request) made() (m made, err error) {
	text, err := os.ReadFile(r.path("made"))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// resources are those of a module, and of those below it.
type resources struct {
	Resources []struct{ Address, Mode string }
	Children  []resources `json:"child_modules"`
}

func (m resources) made() (all []string) {
	for _, one := range m.Resources {
		if one.Mode == "managed" {
			all = append(all, one.Address)
		}
	}
	for _, child := range m.Children {
		all = append(all, child.made()...)
	}
	return all
}

// state reads the state, or another one of a file.
func (r *request) state(file ...string) (s state, err error) {
	text, err := r.tofu(append([]string{"show", "-no-color", "-json"}, file...)...)
	if err != nil {
		return s, err
	}
	var known struct {
		Values struct {
			Outputs struct {
				Box struct{ Value map[string]any }
			}
			Root resources `json:"root_module"`
		}
	}
	if err := json.Unmarshal([]byte(text), &known); err != nil {
		return s, fmt.Errorf("what tofu says of its state cannot be read: %w", err)
	}
	return state{known.Values.Root.made(), known.Values.Outputs.Box.Value}, nil
}

var (
	address = regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9.:_-]{0,253}$|^\[[0-9A-Fa-f.:]+\]:[0-9]{1,5}$`)
	user    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)
	hostKey = regexp.MustCompile(`^[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( .*)?$`)
)

// box is the box of a state. One of which something is missing, or that has no address, will never run; why is told, too.
func (r *request) box(s state) (*protocol.Box, error) {
	b := &protocol.Box{ID: r.asked.Request, Request: r.asked.Request, Labels: r.asked.Labels, State: protocol.Gone, PricePerHour: r.want.price}
	if len(s.all) == 0 {
		return b, nil
	}
	b.State = protocol.Failed
	first, err := r.made()
	missing := without(first.All, s.all)
	switch {
	case err != nil:
		return b, err
	case first.Failed:
		return b, errors.New("tofu apply did not get to its end")
	case len(missing) > 0:
		return b, fmt.Errorf("of what tofu apply has made is missing %s", listed(missing))
	}
	if err := tell(b, s.outputs); err != nil {
		return b, err
	}
	b.State = protocol.Running
	return b, nil
}

// without are the addresses of some that others lack.
func without(some, others []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(address string) bool { return slices.Contains(others, address) })
}

func listed(addresses []string) string {
	return plain.Cut(plain.Line(strings.Join(addresses, ", ")), 300)
}

// tell has a box be what the outputs of its module say.
func tell(b *protocol.Box, outputs map[string]any) error {
	odd := func(name string, form string) error {
		return fmt.Errorf("output %s of the module is %s, and should be %s", name, plain.Cut(plain.Line(fmt.Sprintf("%#v", outputs[name])), 80), form)
	}
	text := func(name string) string { text, _ := outputs[name].(string); return text }
	b.Address = text("address")
	if host, _, err := net.SplitHostPort(b.Address); !address.MatchString(b.Address) || err == nil && !address.MatchString(host) {
		b.Address = ""
		return odd("address", `a text, "host" or "host:port"`)
	}
	if b.Private = text("private_address"); outputs["private_address"] != nil && !protocol.IsPrivate(b.Private) {
		b.Private = ""
		return odd("private_address", "an IP address in a network between boxes")
	}
	if b.User = text("user"); outputs["user"] != nil && !user.MatchString(b.User) {
		b.User = ""
		return odd("user", "the name of a user")
	}
	if price := outputs["price_per_hour"]; price != nil {
		usd, is := price.(float64)
		if !is || usd < 0 || usd > 1e6 {
			return odd("price_per_hour", "a number, in USD")
		}
		b.PricePerHour = usd
	}
	keys, is := outputs["host_keys"].([]any)
	for _, key := range keys {
		line, _ := key.(string)
		if line = strings.TrimSpace(line); !isHostKey(line) {
			is = false
		}
		b.HostKeys = append(b.HostKeys, line)
	}
	if outputs["host_keys"] != nil && !is {
		b.HostKeys = nil
		return odd("host_keys", `a list of public keys, such as ["ssh-ed25519 AAAA..."]`)
	}
	return nil
}

// isHostKey reports whether hcl can read a key: with one that it cannot it would not hear of the box at all, and so not end it.
func isHostKey(line string) bool {
	kind, rest, _ := strings.Cut(line, " ")
	text, _, _ := strings.Cut(rest, " ")
	key, err := base64.StdEncoding.DecodeString(text)
	parts := 0
	for ; len(key) >= 4; parts++ {
		n := uint64(binary.BigEndian.Uint32(key))
		if n > uint64(len(key)-4) || parts == 0 && string(key[4:4+n]) != kind {
			return false
		}
		key = key[4+n:]
	}
	return err == nil && parts > 1 && len(key) == 0 && hostKey.MatchString(line)
}

// unsure is why nobody can say that a box is gone; nil: tofu has come to its end, and its state has all that it may have made.
func (r *request) unsure() error {
	if !r.has("applying") { // or somebody who has looked has removed it
		return nil
	}
	first, err := r.made()
	why := "tofu was killed while it made " + r.asked.Request
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case len(first.Missing) == 0:
		return nil
	default:
		why = fmt.Sprintf("tofu failed while it made %s, whose state lacks %s", r.asked.Request, listed(first.Missing))
	}
	return fmt.Errorf("%s, and may have made what its state does not have: look at the provider, "+
		"delete there what bears this name, and then remove %s", why, r.path("applying"))
}

// known are the variables that say nothing of who logs in. HOME may have files that do.
var known = []string{
	"PATH", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "HCL_RENT_DIR",
	"PWD", "OLDPWD", "SHLVL", "_",
}

// login tells one login from another, as far as the environment does, and tells neither.
func (r *request) login() string {
	all := slices.DeleteFunc(os.Environ(), func(v string) bool { name, _, _ := strings.Cut(v, "="); return slices.Contains(known, name) })
	slices.Sort(all)
	sum := sha256.Sum256([]byte(r.asked.Request + "\x00" + strings.Join(all, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// believe is an error if this login must not say what is gone: providers say "not found" of what another account has, and OpenTofu
// takes it out of its state then. The login that has made the box may, and one that has found all of it.
func (r *request) believe() error {
	var logins []string
	text, err := os.ReadFile(r.path("logins"))
	if errors.Is(err, fs.ErrNotExist) { // somebody who has looked has removed it
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &logins)
	}
	if err != nil || slices.Contains(logins, r.login()) {
		return err
	}
	before, err := r.state()
	if err != nil || len(before.all) == 0 {
		return err
	}
	if _, err = r.tofu("apply", "-refresh-only", "-auto-approve", "-no-color", "-input=false", "-state-out=seen.tfstate"); err != nil {
		return err
	}
	seen, err := r.state("seen.tfstate")
	if err != nil {
		return err
	}
	if missing := without(before.all, seen.all); len(missing) > 0 {
		return fmt.Errorf("another login than the one that has made %s does not find %s, which says nothing: log in as then, or look at the provider, "+
			"and remove %s when it is gone there", r.asked.Request, listed(missing), r.path("logins"))
	}
	return r.keep("logins", append(logins, r.login()))
}

// refresh is for how long a state is as good as a new one: hcl asks for the status every few seconds while it waits for a box.
const refresh = 30 * time.Second

func status(q protocol.Request) (*protocol.Box, error) {
	r, err := open(q)
	switch {
	case errors.Is(err, errNone):
		return nil, &protocol.Error{Code: protocol.NotFound, Message: err.Error()}
	case errors.Is(err, errBusy):
		id := cmp.Or(q.ID, q.Request)
		return &protocol.Box{ID: id, Request: id, State: protocol.Pending}, nil
	case err != nil:
		return nil, err
	case r.has("gone"): // whoever has noted that may have been killed
		b, _ := r.box(state{})
		return b, r.forget()
	}
	if err := r.believe(); err != nil {
		return nil, err
	}
	if at, err := os.Stat(r.path("refreshed")); err != nil || time.Since(at.ModTime()).Abs() >= refresh {
		if _, err := r.tofu("apply", "-refresh-only", "-auto-approve", "-no-color", "-input=false"); err != nil {
			return nil, err
		}
		if err := r.keep("refreshed", time.Now()); err != nil {
			return nil, err
		}
	}
	s, err := r.state()
	if err == nil && len(s.all) == 0 {
		err = r.unsure()
	}
	if err != nil {
		return nil, err
	}
	b, _ := r.box(s)
	if b.State == protocol.Gone { // and nobody will ask for its end
		err = r.forget()
	}
	return b, err
}

// destroy ends all that the state has. Only then, and if the state has all that was made, is the box gone.
func destroy(q protocol.Request) error {
	r, err := open(q)
	switch {
	case errors.Is(err, errNone):
		return nil
	case errors.Is(err, errBusy):
		return &protocol.Error{Code: protocol.Busy, Message: err.Error()}
	case err != nil:
		return err
	case r.has("gone"):
		return r.forget()
	}
	if err := r.believe(); err != nil {
		return err
	}
	if _, err := r.tofu("destroy", "-auto-approve", "-no-color", "-input=false"); err != nil {
		return err
	}
	s, err := r.state()
	switch {
	case err != nil:
		return err
	case len(s.all) > 0:
		return fmt.Errorf("after tofu destroy there is %s", listed(s.all))
	}
	if err := r.unsure(); err != nil {
		return err
	}
	return r.forget()
}

// forget notes that the box is gone, and removes all else: what was asked for has values, and root the providers.
func (r *request) forget() error {
	if err := r.keep("gone", time.Now()); err != nil {
		return err
	}
	found, err := os.ReadDir(r.dir)
	for _, one := range found {
		if one.Name() != "gone" && one.Name() != "lock" {
			err = errors.Join(err, os.RemoveAll(r.path(one.Name())))
		}
	}
	return err
}
