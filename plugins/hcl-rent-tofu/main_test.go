package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hclbench/flow"
	"hclbench/provision"
	"hclbench/provision/rent"
	"hclbench/provision/rent/protocol"
	"hclbench/testhost"
)

// TestMain makes the test binary the program, where hcl runs it as one.
func TestMain(m *testing.M) {
	if os.Getenv("HCL_RENT_DIR") != "" {
		main()
	}
	os.Exit(m.Run())
}

// cloud is a provider with an API of two calls, which a module speaks to by curl.
type cloud struct {
	mu    sync.Mutex
	boxes map[string]string // what was asked for, by name
	fails bool              // it refuses
	hold  chan struct{}     // it makes a box, and answers when this is closed; nil: at once
	held  chan struct{}     // gets a value where it holds an answer back
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	name := strings.TrimPrefix(r.URL.Path, "/boxes/")
	hold := c.hold
	if token := r.Header.Get("Authorization"); token != "Bearer token-canary" && token != "Bearer token-canary-renewed" || c.fails {
		http.Error(w, "the quota of token-canary is used up", http.StatusForbidden)
		c.mu.Unlock()
		return
	}
	if r.Method == "DELETE" {
		delete(c.boxes, name)
		hold = nil
	} else {
		body, _ := io.ReadAll(r.Body)
		c.boxes[name] = string(body)
	}
	c.mu.Unlock()
	if hold != nil {
		c.held <- struct{}{}
		<-hold
	}
}

func (c *cloud) living() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for name, body := range c.boxes {
		all[name] = body
	}
	return all
}

// module is a box of a cloud, in two resources. Its outputs are a text to be put in.
const module = `
variable "hcl" {
  type = object({ request = string, public_key = string, labels = map(string), user_data = string })
}
variable "url" { type = string }
variable "size" {
  type    = number
  default = 1
}
resource "terraform_data" "net" { input = var.size }
resource "terraform_data" "box" {
  input = "${var.url}/boxes/${var.hcl.request}"
  provisioner "local-exec" {
    command = "curl -sSf -H \"Authorization: Bearer $CLOUD_TOKEN\" -X PUT --data-binary @- ${self.input} <<'END'\n${var.hcl.public_key} ${var.hcl.labels["hcl-lab"]} ${var.size + terraform_data.net.output}\n${base64encode(var.hcl.user_data)}\nEND"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "curl -sSf -H \"Authorization: Bearer $CLOUD_TOKEN\" -X DELETE ${self.input}"
  }
}
`

const outputs = `
output "address" {
  value      = "192.0.2.9:2222"
  depends_on = [terraform_data.box]
}
output "user" { value = "ubuntu" }
output "price_per_hour" { value = 19.5 }
output "host_keys" {
  value     = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAWzoybEcT3A0x1Gar47TLrsI2EMN+CXZ044h67CizUI"]
  sensitive = true
}
`

// world is who rents of a cloud by a module.
type world struct {
	*testing.T
	cloud  *cloud
	renter *rent.Renter
	ask    rent.Ask
	mu     sync.Mutex
	told   []string
}

func newWorld(t *testing.T, module string) *world {
	t.Helper()
	w := &world{T: t, cloud: &cloud{boxes: map[string]string{}, held: make(chan struct{}, 9)}}
	server := httptest.NewServer(w.cloud)
	t.Cleanup(server.Close)
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "box"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "box", "main.tf"), []byte(module), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "box", "terraform.tfstate"), []byte("of somebody who tried it by hand"), 0o644))
	must(t, os.MkdirAll(filepath.Join(dir, "rent", "tofu"), 0o700))
	patience := flow.Patience{First: time.Millisecond, Most: 50 * time.Millisecond, Total: time.Minute}
	w.renter = &rent.Renter{
		Plugin: &rent.Plugin{Name: "tofu", Path: self, Dir: filepath.Join(dir, "rent", "tofu"), Env: []provision.EnvVar{
			{Name: "CLOUD_TOKEN", Value: provision.Secret("token-canary")}, {Name: "PATH", Value: provision.Plain(testhost.Tofu(t) + ":" + os.Getenv("PATH"))},
		}},
		Journal: rent.NewJournal(filepath.Join(dir, "rent")), Poll: patience, Sure: flow.Patience{First: time.Millisecond, Total: time.Second},
		Tell: func(format string, args ...any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, fmt.Sprintf(format, args...))
		},
	}
	w.ask = rent.Ask{Host: "box", Lab: "lab ${1+1}", Run: "run-1", GPUs: "8xMI300X", PublicKey: "ssh-ed25519 AAAA me@here", Want: &provision.Rent{
		Plugin: "tofu", TTL: time.Hour, MaxPrice: 25, Boot: 5 * time.Minute,
		Spec: map[string]string{"module": "../../box", "price_per_hour": "20", "gpus": "8xMI300X", "url": server.URL, "size": "5"},
	}}
	return w
}

func (w *world) want(living int) {
	w.Helper()
	if all := w.cloud.living(); len(all) != living {
		w.Errorf("%d boxes live, want %d: %v", len(all), living, all)
	}
}

// counts has tofu write down how it is called. It returns how often a word was among that so far.
func (w *world) counts(word string) func() int {
	w.Helper()
	dir := w.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >> %s/calls\nexec %s/tofu \"$@\"\n", dir, testhost.Tofu(w.T))
	must(w.T, os.WriteFile(filepath.Join(dir, "tofu"), []byte(script), 0o755))
	path := &w.renter.Plugin.Env[1]
	path.Value = provision.Plain(dir + ":" + path.Value.Reveal())
	return func() int {
		w.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "calls"))
		must(w.T, err)
		return strings.Count(string(text), word)
	}
}

func (w *world) rental() *rent.Rental {
	w.Helper()
	all, err := w.renter.Journal.Rentals()
	must(w.T, err)
	return all[len(all)-1]
}

func (w *world) stage() rent.Stage {
	w.Helper()
	return w.rental().Stage
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSlowRent: a module's box is planned, made with what was asked for, told by its outputs, seen to fail where a part of it is
// gone, used again, and destroyed, with all that lay on the disk.
func TestSlowRent(t *testing.T) {
	w := newWorld(t, module+outputs)
	w.ask.Want.Spec["off_is_free"] = "true"
	refreshes := w.counts("-refresh-only")
	offers, err := w.renter.Offers(t.Context(), w.ask.Want, w.ask.GPUs)
	if err != nil || len(offers) != 1 || offers[0].PricePerHour != 20 || offers[0].ID != "../../box" {
		t.Fatalf("%v: %+v", err, offers)
	}
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	b := rental.Box
	if b.State != protocol.Running || b.Address != "192.0.2.9:2222" || b.User != "ubuntu" || b.PricePerHour != 19.5 || len(b.HostKeys) != 1 {
		t.Errorf("%+v", b)
	}
	got, data, _ := strings.Cut(w.cloud.living()[rental.Request], "\n")
	script, err := base64.StdEncoding.DecodeString(strings.TrimSpace(data))
	must(t, err)
	if got != "ssh-ed25519 AAAA me@here lab ${1+1} 10" || !strings.HasSuffix(string(script), "\nshutdown -P +$left\n") || rental.OffAfter == 0 {
		t.Errorf("the cloud was asked for %q, with %q", got, script)
	}
	if n := refreshes(); n != 1 {
		t.Errorf("the box that was just made was refreshed %d times", n)
	}
	root := filepath.Join(w.renter.Plugin.Dir, rental.Request, "root")
	must(t, os.Chtimes(filepath.Join(root, "..", "refreshed"), time.Time{}, time.Now().Add(-refresh)))
	for range 2 {
		if err := w.renter.Lost(t.Context(), rental); err != nil {
			t.Error(err)
		}
	}
	if n := refreshes(); n != 2 {
		t.Errorf("%d refreshes, with one that is old", n)
	}
	w.ask.Run = "run-2"
	again, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	if again.Box.ID != b.ID {
		t.Errorf("box %s after %s", again.Box.ID, b.ID)
	}
	lose := exec.Command(filepath.Join(testhost.Tofu(t), "tofu"), "state", "rm", "module.box.terraform_data.net") // as a refresh does that does not find it
	lose.Dir = root
	if out, err := lose.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	third, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	if third.Box.ID == b.ID {
		t.Error("a box of which a part is gone is used again")
	}
	w.want(1)
	must(t, w.renter.Release(t.Context(), third))
	w.want(0)
	if w.nothingLeft(); w.stage() != rent.Over {
		t.Errorf("it is %s", w.stage())
	}
}

// nothingLeft sees that of requests whose boxes are gone only that is kept.
func (w *world) nothingLeft() {
	w.Helper()
	must(w.T, filepath.WalkDir(w.renter.Plugin.Dir, func(path string, d os.DirEntry, err error) error {
		if name := d.Name(); err == nil && !d.IsDir() && name != "gone" && name != "lock" {
			w.Errorf("%s is left", path)
		}
		return err
	}))
}

// TestSlowAnotherLogin: that another login does not find a box, which OpenTofu takes for gone, says nothing; one that finds it may end it.
func TestSlowAnotherLogin(t *testing.T) {
	w := newWorld(t, module+outputs)
	dir, tofu := t.TempDir(), filepath.Join(testhost.Tofu(t), "tofu")
	script := `#!/bin/sh
# A provider that says "not found" to the login "of-somebody-else": what has a state is no more in it then.
all="module.box.terraform_data.net module.box.terraform_data.box"
if [ "$CLOUD_TOKEN" = of-somebody-else ]; then
	case "$*" in
	destroy*) ` + tofu + ` state rm $all >&2 || exit ;;
	*-state-out=seen.tfstate*) ` + tofu + ` "$@" && exec ` + tofu + ` state rm -state=seen.tfstate $all >&2 ;;
	*-refresh-only*) ` + tofu + ` "$@" && exec ` + tofu + ` state rm $all >&2 ;;
	esac
fi
exec ` + tofu + ` "$@"
`
	must(t, os.WriteFile(filepath.Join(dir, "tofu"), []byte(script), 0o755))
	env := w.renter.Plugin.Env
	env[1].Value = provision.Plain(dir + ":" + env[1].Value.Reveal())
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	state := filepath.Join(w.renter.Plugin.Dir, rental.Request)
	old := func() { must(t, os.Chtimes(filepath.Join(state, "refreshed"), time.Time{}, time.Now().Add(-refresh))) }

	env[0].Value = provision.Secret("of-somebody-else")
	w.renter.Poll.Total = time.Millisecond
	old()
	must(t, w.renter.Lost(t.Context(), rental))
	if err := w.renter.Release(t.Context(), rental); err == nil || !strings.Contains(err.Error(), "another login than the one that has made "+rental.Request) {
		t.Error(err)
	}
	w.want(1)
	env[0].Value = provision.Secret("token-canary-renewed")
	w.renter.Poll.Total = time.Minute
	old()
	must(t, w.renter.Lost(t.Context(), rental))
	must(t, w.renter.Release(t.Context(), rental))
	w.want(0)
	w.nothingLeft()
}

// TestSlowModuleChanged: a box is ended by the module that has made it, wherever that is now and whatever stands in it; and of one that
// is gone by itself nothing is left here either.
func TestSlowModuleChanged(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"moved": func(path string) error { return os.Rename(path, path+"-2") },
		"changed": func(path string) error {
			return os.WriteFile(filepath.Join(path, "main.tf"), []byte(strings.Replace(module+outputs, "-X DELETE", "-X PUT", 1)), 0o600)
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, module+outputs)
			rental, err := w.renter.Rent(t.Context(), w.ask)
			must(t, err)
			must(t, change(filepath.Join(w.renter.Plugin.Dir, "..", "..", "box")))
			must(t, w.renter.Release(t.Context(), rental))
			w.want(0)
			w.nothingLeft()
		})
	}
	t.Run("gone by itself", func(t *testing.T) {
		w := newWorld(t, module+outputs)
		rental, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		root := filepath.Join(w.renter.Plugin.Dir, rental.Request, "root")
		lose := exec.Command(filepath.Join(testhost.Tofu(t), "tofu"), "state", "rm", "module.box.terraform_data.net", "module.box.terraform_data.box")
		lose.Dir = root
		if out, err := lose.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := w.renter.Lost(t.Context(), rental); !errors.Is(err, rent.ErrLost) {
			t.Error(err)
		}
		w.nothingLeft()
		must(t, w.renter.Settle(t.Context(), rental))
	})
}

// TestCopyModule: a module is copied with what its links lead to, and without what somebody who has tried it has left there.
func TestCopyModule(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"box/main.tf", "box/net/main.tf", "box/terraform.tfstate", "box/terraform.tfstate.backup", "box/.terraform/modules.json", "user.yaml", "shared/disk.tf"} {
		must(t, os.MkdirAll(filepath.Dir(at(name)), 0o700))
		must(t, os.WriteFile(at(name), []byte(name), 0o600))
	}
	must(t, os.Symlink("../user.yaml", at("box/user.yaml")))
	must(t, os.Symlink(at("shared"), at("box/shared")))
	must(t, copyModule(at("copy"), at("box")))
	must(t, os.RemoveAll(at("shared")))
	must(t, os.Remove(at("user.yaml")))
	var found []string
	must(t, filepath.WalkDir(at("copy"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, why := os.ReadFile(path)
			found, err = append(found, string(text)), why
		}
		return err
	}))
	if got := strings.Join(found, " "); got != "box/main.tf box/net/main.tf shared/disk.tf user.yaml" {
		t.Error(got)
	}
	must(t, os.Remove(at("box/shared")))
	must(t, os.Remove(at("box/user.yaml")))
	must(t, os.Symlink("..", at("box/round")))
	if err := copyModule(at("round"), at("box")); err == nil {
		t.Error("a module that contains itself is copied")
	}
}

// TestSlowStateCut: that a tofu was killed while it wrote its state, which it cuts to nothing first, is not taken for a box that is gone.
func TestSlowStateCut(t *testing.T) {
	for what, damage := range map[string]func(path string) error{
		"cut to nothing": func(path string) error { return os.Truncate(path, 0) },
		"half written":   func(path string) error { return os.Truncate(path, 40) },
		"not there":      os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, module+outputs)
			rental, err := w.renter.Rent(t.Context(), w.ask)
			must(t, err)
			dir := filepath.Join(w.renter.Plugin.Dir, rental.Request)
			must(t, damage(filepath.Join(dir, "root", "tofu.tfstate")))
			must(t, w.renter.Release(t.Context(), rental))
			w.want(0)
			if _, err := os.Stat(filepath.Join(dir, "state")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the state is left: %v", err)
			}
		})
	}
}

// TestTell: what hcl would not read of a box is odd here, or hcl would never hear of the box, and could not end it.
func TestTell(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAWzoybEcT3A0x1Gar47TLrsI2EMN+CXZ044h67CizUI"
	for _, of := range []struct {
		address, key string
		good         bool
	}{
		{"192.0.2.9", key, true}, {"192.0.2.9:22", key + " root@box", true}, {"[2001:db8::1]:22", key, true}, {"2001:db8::1", key, true},
		{":22", key, false}, {"[2001:db8::1]", key, false}, {"", key, false}, {"192.0.2.9", "ssh-ed25519 AAAA", false},
		{"192.0.2.9", strings.Replace(key, "ed25519", "rsa", 1), false}, {"192.0.2.9", key + "A", false},
	} {
		b := &protocol.Box{}
		err := tell(b, map[string]any{"address": of.address, "host_keys": []any{of.key}})
		if (err == nil) != of.good || !of.good && (b.Address == of.address && of.key == key && of.address != "" || of.key != key && b.HostKeys != nil) {
			t.Errorf("%+v: %v, %+v", of, err, b)
		}
	}
}

// TestPrivate: an address that leads nowhere else is none between boxes.
func TestPrivate(t *testing.T) {
	for text, good := range map[string]bool{"10.0.0.4": true, "fd00::4": true, "127.0.0.1": false, "0.0.0.0": false, "10.0.0.4:22": false, "box-b": false, "": false} {
		b := &protocol.Box{}
		err := tell(b, map[string]any{"address": "192.0.2.9", "private_address": text})
		if (err == nil) != good || good && b.Private != text || !good && b.Private != "" {
			t.Errorf("%q: %v, %+v", text, err, b)
		}
	}
}

// TestSlowFails: what a module does wrong is told, and leaves no box.
func TestSlowFails(t *testing.T) {
	for what, of := range map[string]struct {
		module string
		spec   map[string]string
		cloud  func(*cloud)
		told   string
	}{
		"no such module":     {module: module + outputs, spec: map[string]string{"module": "../../bax"}, told: "no box was asked for: copy the module"},
		"no such variable":   {module: module + outputs, spec: map[string]string{"sice": "5"}, told: `No argument or block type is named "sice"`},
		"no number":          {module: module + outputs, spec: map[string]string{"size": "large"}, told: "no box was asked for: tofu plan"},
		"no output":          {module: module + `output "ip" { value = "192.0.2.9" }`, told: "the module has no output address; its outputs are ip"},
		"odd address":        {module: module + `output "address" { value = ["192.0.2.9"] }`, told: "output address of the module is"},
		"address of the web": {module: module + `output "address" { value = "https://192.0.2.9" }`, told: `should be a text, "host" or "host:port"`},
		"only a port":        {module: module + `output "address" { value = ":22" }`, told: `should be a text, "host" or "host:port"`},
		"no key":             {module: module + strings.Replace(outputs, "+CXZ044h67CizUI", "", 1), told: "output host_keys of the module is"},
		"odd keys":           {module: module + `output "host_keys" { value = "x" }` + "\n" + `output "address" { value = "192.0.2.9" }`, told: "output host_keys of the module is"},
		"dearer":             {module: module + strings.Replace(outputs, "19.5", "24", 1), told: "costs $24.00 an hour, and was offered at $20.00"},
		"refused":            {module: module + outputs, cloud: func(c *cloud) { c.fails = true }, told: "tofu apply: exit status 1"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, of.module)
			for name, value := range of.spec {
				w.ask.Want.Spec[name] = value
			}
			if of.cloud != nil {
				of.cloud(w.cloud)
			}
			_, err := w.renter.Rent(t.Context(), w.ask)
			if err == nil || !strings.Contains(fmt.Sprint(err, w.told), of.told) || strings.Contains(fmt.Sprint(err, w.told), "token-canary") {
				t.Errorf("%v, %q, want %q", err, w.told, of.told)
			}
			w.want(0)
			if stage := w.stage(); stage != rent.Never && stage != rent.Over {
				t.Errorf("the request is %s: %v", stage, err)
			}
		})
	}
}

// creating runs the program until the cloud has made a box, whose answer does not come.
func (w *world) creating() (*rent.Rental, *exec.Cmd) {
	w.Helper()
	w.cloud.hold = make(chan struct{})
	rental := &rent.Rental{
		Request: "hcl-00ff", Plugin: "tofu", Host: "box", Lab: "lab", Run: "run-1", Spec: w.ask.Want.Spec, Asked: time.Now(), Deadline: time.Now().Add(time.Hour), Price: 20, Stage: rent.Asked,
	}
	must(w.T, w.renter.Journal.Note(rental))
	text, err := json.Marshal(protocol.Request{
		Protocol: protocol.Version, Verb: protocol.Create, Request: rental.Request, Spec: rental.Spec, PublicKey: "ssh-ed25519 AAAA", Labels: map[string]string{"hcl-lab": "lab"},
	})
	must(w.T, err)
	cmd := exec.Command(w.renter.Plugin.Path, protocol.Create)
	cmd.Stdin, cmd.SysProcAttr = bytes.NewReader(text), &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = []string{"PATH=" + testhost.Tofu(w.T) + ":" + os.Getenv("PATH"), "CLOUD_TOKEN=token-canary", "HCL_RENT_DIR=" + w.renter.Plugin.Dir}
	must(w.T, cmd.Start())
	<-w.cloud.held
	w.want(1)
	return rental, cmd
}

// TestSlowInterrupted: a tofu that is interrupted while it makes a box writes down what it has made, and the box is ended by that.
func TestSlowInterrupted(t *testing.T) {
	w := newWorld(t, module+outputs+`
resource "terraform_data" "ready" {
  input = terraform_data.box.output
  provisioner "local-exec" {
    command = "curl -sSf -H \"Authorization: Bearer $CLOUD_TOKEN\" -X PUT --data ready ${self.input}-ready"
  }
}
`)
	rental, cmd := w.creating()
	w.cloud.hold <- struct{}{} // the box is made
	<-w.cloud.held             // and tofu at the next
	must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	cmd.Wait()
	close(w.cloud.hold)
	must(t, w.renter.Settle(t.Context(), rental))
	if all := w.cloud.living(); all[rental.Request] != "" || w.stage() != rent.Over {
		t.Errorf("%s, %v live", w.stage(), all)
	}
	w.nothingLeft()
}

// TestSlowInterruptedBefore: what is interrupted before it has asked for a box asks for none.
func TestSlowInterruptedBefore(t *testing.T) {
	w := newWorld(t, module+outputs)
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n[ $1 != plan ] || kill -INT $PPID\nexec %s/tofu \"$@\"\n", testhost.Tofu(t))
	must(t, os.WriteFile(filepath.Join(dir, "tofu"), []byte(script), 0o755))
	path := &w.renter.Plugin.Env[1]
	path.Value = provision.Plain(dir + ":" + path.Value.Reveal())
	if _, err := w.renter.Rent(t.Context(), w.ask); err == nil || !strings.Contains(err.Error(), "no box was asked for: it was interrupted") {
		t.Error(err)
	}
	if w.want(0); w.stage() != rent.Never {
		t.Error(w.stage())
	}
	w.nothingLeft()
}

// TestSlowKilled: a tofu that is killed while it makes a box is not believed that there is none, until somebody has looked.
func TestSlowKilled(t *testing.T) {
	w := newWorld(t, module+outputs)
	rental, cmd := w.creating()
	w.renter.Poll.Total = 3 * time.Second
	if err := w.renter.Settle(t.Context(), rental); err == nil || w.stage() == rent.Over || w.stage() == rent.Never {
		t.Errorf("while tofu makes it: %v, %s", err, w.stage())
	}
	must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	cmd.Wait()
	close(w.cloud.hold)
	for range 2 {
		err := w.renter.Settle(t.Context(), rental)
		if err == nil || !strings.Contains(err.Error(), "tofu was killed while it made hcl-00ff") || w.stage() == rent.Over {
			t.Errorf("%v, %s", err, w.stage())
		}
	}
	delete(w.cloud.boxes, rental.Request) // by somebody, who has looked
	must(t, os.Remove(filepath.Join(w.renter.Plugin.Dir, rental.Request, "applying")))
	rental.Deadline = time.Now()
	must(t, w.renter.Settle(t.Context(), rental))
	if stage := w.stage(); stage != rent.Never && stage != rent.Over {
		t.Error(stage)
	}
}

// TestSlowFailedUnheard: what a create has made whose answer did not come, so that the state lacks it, is not forgotten.
func TestSlowFailedUnheard(t *testing.T) {
	w := newWorld(t, module+outputs)
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in *"input=false plan")
	curl -sSf -H "Authorization: Bearer $CLOUD_TOKEN" -X PUT --data made %s/boxes/one >&2
	echo "Error: POST /boxes: context deadline exceeded" >&2
	exit 1 ;;
esac
exec %s/tofu "$@"
`, w.ask.Want.Spec["url"], testhost.Tofu(t))
	must(t, os.WriteFile(filepath.Join(dir, "tofu"), []byte(script), 0o755))
	path := &w.renter.Plugin.Env[1]
	path.Value = provision.Plain(dir + ":" + path.Value.Reveal())
	w.renter.Poll.Total = time.Second
	const lacks = "whose state lacks module.box.terraform_data.box, module.box.terraform_data.net, and may have made"
	if _, err := w.renter.Rent(t.Context(), w.ask); !errors.Is(err, rent.ErrUnsure) || !strings.Contains(err.Error(), lacks) {
		t.Error(err)
	}
	w.want(1)
	rental := w.rental()
	rental.Deadline = time.Now()
	must(t, w.renter.Journal.Note(rental))
	if err := w.renter.Settle(t.Context(), rental); err == nil || !strings.Contains(err.Error(), lacks) || !w.rental().Open() {
		t.Errorf("%v, %s", err, w.stage())
	}
	delete(w.cloud.boxes, "one") // by somebody, who has looked
	must(t, os.Remove(filepath.Join(w.renter.Plugin.Dir, rental.Request, "applying")))
	must(t, w.renter.Settle(t.Context(), rental))
	if stage := w.stage(); stage != rent.Never && stage != rent.Over {
		t.Error(stage)
	}
	w.nothingLeft()
}

// TestKilledForgetting: of a box that is gone nothing is left, though this program was killed before it had removed all.
func TestKilledForgetting(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HCL_RENT_DIR", dir)
	must(t, os.MkdirAll(filepath.Join(dir, "hcl-1", "root"), 0o700))
	for _, name := range []string{"gone", "asked", "root/main.tf.json"} {
		must(t, os.WriteFile(filepath.Join(dir, "hcl-1", name), []byte("{}"), 0o600))
	}
	a, err := answer(protocol.Request{Verb: protocol.Status, ID: "hcl-1", Request: "hcl-1"})
	if err != nil || a.Box == nil || a.Box.State != protocol.Gone || a.Box.ID != "hcl-1" {
		t.Errorf("%+v, %v", a.Box, err)
	}
	for _, name := range []string{"asked", "root"} {
		if _, err := os.Stat(filepath.Join(dir, "hcl-1", name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}

// TestRefused: what cannot be done is refused before anything runs.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HCL_RENT_DIR", dir)
	t.Setenv("PATH", dir)
	good := map[string]string{"module": "../box", "price_per_hour": "20"}
	with := func(name, value string) map[string]string {
		spec := map[string]string{name: value}
		for name, value := range good {
			if _, is := spec[name]; !is {
				spec[name] = value
			}
		}
		return spec
	}
	for want, q := range map[string]protocol.Request{
		"there is no program tofu in PATH: install OpenTofu": {Verb: protocol.Capable},
		"spec of OpenTofu has module":                        {Verb: protocol.Offers, Spec: with("module", "")},
		"and price_per_hour":                                 {Verb: protocol.Offers, Spec: with("price_per_hour", "cheap")},
		"what its box costs in USD":                          {Verb: protocol.Offers, Spec: with("price_per_hour", "NaN")},
		`off_is_free is "maybe", and should be "true"`:       {Verb: protocol.Offers, Spec: with("off_is_free", "maybe")},
		`spec sets "for_each"`:                               {Verb: protocol.Create, Request: "hcl-1", Spec: with("for_each", "2")},
		`spec sets "a b"`:                                    {Verb: protocol.Create, Request: "hcl-1", Spec: with("a b", "2")},
		`"../hcl-1" is no request of hcl's`:                  {Verb: protocol.Create, Request: "../hcl-1", Spec: good},
		`"hcl-1/.." is no request of hcl's`:                  {Verb: protocol.Delete, ID: "hcl-1/.."},
		"hcl-rent-tofu cannot \"extend\"":                    {Verb: protocol.Extend, ID: "hcl-1"},
		"no box was asked for: copy the module":              {Verb: protocol.Create, Request: "hcl-1", Spec: good},
	} {
		_, err := answer(q)
		told, is := errors.AsType[*protocol.Error](err)
		if !is || told.Code != protocol.Refused && told.Code != protocol.Busy || !strings.Contains(told.Message, want) {
			t.Errorf("%s: %v, want %q", q.Verb, err, want)
		}
	}
	if _, err := answer(protocol.Request{Verb: protocol.Status, Request: "hcl-1"}); err == nil || err.(*protocol.Error).Code != protocol.NotFound {
		t.Errorf("nothing was made by the request: %v", err)
	}
	if _, err := answer(protocol.Request{Verb: protocol.Delete, Request: "hcl-1"}); err != nil {
		t.Errorf("nothing was made by the request: %v", err)
	}
	if _, err := answer(protocol.Request{Verb: protocol.Status, ID: "hcl-1", Request: "hcl-1"}); err == nil || !strings.Contains(err.Error(), "look at the provider for hcl-1") {
		t.Errorf("whose directory is gone: %v", err)
	}
}
