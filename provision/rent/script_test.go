package rent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/provision"
	"hclbench/provision/rent/protocol"
)

// envCloud is the variable that makes a test binary the command `cloud` of a provider: a directory with a file for each box.
const envCloud = "CLOUD_ACCOUNT"

// cloudBox is a box as that command tells it.
type cloudBox struct {
	Name    string            `json:"name"`
	Tags    map[string]string `json:"tags"`
	IP      string            `json:"ip"`
	State   string            `json:"state"`
	Price   float64           `json:"price"`
	Created time.Time         `json:"created"`
	Key     string            `json:"-"`
}

// cloud is the main function of the command. What a file of the name "fail VERB" or "odd VERB" stands for, it does wrong.
func cloud(account string, args []string) (err error) {
	file := func(name string) string { return filepath.Join(account, name) }
	is := func(what string) bool {
		_, err := os.Stat(file(what + " " + args[0]))
		return err == nil
	}
	defer func() {
		if is("late") {
			err = errors.New("502 Bad Gateway, afterwards")
		}
	}()
	switch {
	case is("fail"):
		return errors.New("502 Bad Gateway")
	case is("odd"):
		fmt.Println("<html>")
		return nil
	}
	say := func(what any) error { return json.NewEncoder(os.Stdout).Encode(what) }
	keep := func(b cloudBox) error {
		text, err := json.Marshal(b)
		return errors.Join(err, os.WriteFile(file(b.Name+".box"), text, 0o600))
	}
	read := func(name string) (b cloudBox, err error) {
		text, err := os.ReadFile(file(name + ".box"))
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		return b, err
	}
	switch args[0] {
	case "prices":
		return say([]map[string]any{{"plan": "large", "gpus": "8xMI300X", "price": 20}, {"plan": "small", "gpus": "1xMI300X", "price": 2.5}})
	case "create": // NAME --plan PLAN --key KEY --tags FILE
		b := cloudBox{Name: args[1], State: "booting", Price: 20, Created: time.Now().UTC().Truncate(time.Second)}
		text, err := os.ReadFile(args[7])
		if err == nil {
			err = json.Unmarshal(text, &b.Tags)
		}
		if args[3] != "large" || args[5] != "ssh-ed25519 AAAA me@here" {
			err = errors.Join(err, fmt.Errorf("asked for %q", args))
		}
		return errors.Join(err, keep(b))
	case "list":
		all := []cloudBox{{Name: "of-others", State: "up", Price: 1, Created: time.Now().UTC().Truncate(time.Second)}}
		found, err := filepath.Glob(file("*.box"))
		for _, path := range found {
			b, why := read(strings.TrimSuffix(filepath.Base(path), ".box"))
			err = errors.Join(err, why)
			all = append(all, b)
			b.State, b.IP = "up", "192.0.2.4" // as it is the next time
			err = errors.Join(err, keep(b))
		}
		return errors.Join(err, say(all))
	case "tag":
		b, err := read(args[1])
		if err == nil {
			err = json.Unmarshal([]byte(args[2]), &b.Tags)
		}
		return errors.Join(err, keep(b))
	case "delete": // NAME --yes
		return os.Remove(file(args[1] + ".box"))
	}
	return fmt.Errorf("no such verb: %q", args)
}

// newScript rents by the script that docs/rent.md has as its example.
func newScript(t *testing.T) (w *world, account string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/rent.md")
	must(t, err)
	_, script, found := strings.Cut(string(page), "```sh\n")
	script, _, closed := strings.Cut(script, "```\n")
	if !found || !closed || !strings.HasPrefix(script, "#!/bin/sh\n# hcl-rent-example:") {
		t.Fatal("docs/rent.md has no script")
	}
	account, bin := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(bin, "hcl-rent-example"), []byte(script), 0o755))
	must(t, os.Symlink(self, filepath.Join(bin, "cloud")))
	w = newWorld(t, nil)
	w.renter.Plugin = &Plugin{Name: "example", Path: filepath.Join(bin, "hcl-rent-example"), Dir: t.TempDir(), Env: []provision.EnvVar{
		{Name: envCloud, Value: provision.Plain(account)}, {Name: "PATH", Value: provision.Plain(bin + ":" + os.Getenv("PATH"))},
	}}
	w.ask.Want.Plugin, w.ask.PublicKey, w.ask.Lab = "example", "ssh-ed25519 AAAA me@here", `lab "of ours" \(1+1) $(id)`
	return w, account
}

// boxes is how many there are of ours.
func boxes(t *testing.T, account string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(account, "*.box"))
	must(t, err)
	return len(found)
}

// TestScript: the script of docs/rent.md rents, extends, lists, sweeps and gives back.
func TestScript(t *testing.T) {
	w, account := newScript(t)
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	b := rental.Box
	if b.ID != rental.Request || b.State != protocol.Running || b.Address != "192.0.2.4" || b.User != "ubuntu" || b.PricePerHour != 20 || rental.Price != 20 ||
		b.BilledFrom.IsZero() || b.Labels[protocol.LabelLab] != w.ask.Lab {
		t.Errorf("%+v", b)
	}
	must(t, w.renter.Keep(t.Context(), rental, 10*time.Minute))
	if until, err := time.Parse(time.RFC3339, rental.Box.Labels[protocol.LabelExpires]); err != nil || !until.Equal(rental.Deadline) || time.Until(until) > 10*time.Minute {
		t.Errorf("kept until %s, by its labels %s: %v", rental.Deadline, until, err)
	}
	swept, err := w.renter.Sweep(t.Context(), false)
	if err != nil || len(swept.Living) != 1 || len(swept.Others) != 1 || swept.Blind {
		t.Errorf("%v: %+v", err, swept)
	}
	again, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	if again.Box.ID != b.ID || boxes(t, account) != 1 {
		t.Errorf("box %s after %s", again.Box.ID, b.ID)
	}
	must(t, w.renter.Release(t.Context(), again))
	if boxes(t, account) != 0 || fmt.Sprint(w.stages()) != "[over]" {
		t.Errorf("%d are left, %v", boxes(t, account), w.stages())
	}
	for verb, code := range map[string]string{protocol.Status: protocol.NotFound, protocol.Cost: protocol.Refused, protocol.Delete: ""} {
		if _, err := w.renter.Plugin.ask(t.Context(), protocol.Request{Verb: verb, ID: b.ID}); code != "" && !hasCode(err, code) || code == "" && err != nil {
			t.Errorf("%s of a box that is gone: %v", verb, err)
		}
	}
}

// TestScriptFaults: what `cloud` does wrong is told by the script, and no box is lost by it.
func TestScriptFaults(t *testing.T) {
	for _, of := range []struct {
		fault  string
		told   string // by Rent
		unsure bool
	}{
		{"fail prices", "cloud prices failed", false}, {"odd prices", "what cloud prices says cannot be read", false},
		{"fail create", "cloud create failed", true}, {"late create", "yet there is a box", false},
		{"fail list", "cloud list failed", true}, {"odd list", "what cloud list says cannot be read", true},
	} {
		w, account := newScript(t)
		w.renter.Sure.Total = 300 * time.Millisecond
		must(t, os.WriteFile(filepath.Join(account, of.fault), nil, 0o600))
		rental, err := w.renter.Rent(t.Context(), w.ask)
		if !strings.Contains(fmt.Sprint(err, w.told), of.told) || errors.Is(err, ErrUnsure) != of.unsure || (err == nil) != (of.fault == "late create") {
			t.Errorf("%s: %v, %q", of.fault, err, w.told)
		}
		must(t, os.Remove(filepath.Join(account, of.fault)))
		if of.unsure {
			all, err := w.renter.Journal.Rentals()
			must(t, err)
			rental = all[0]
			if err := w.renter.Settle(t.Context(), rental); err != nil && !errors.Is(err, ErrUnsure) {
				t.Errorf("%s: %v", of.fault, err)
			}
		} else if rental != nil {
			must(t, w.renter.Release(t.Context(), rental))
		}
		if n := boxes(t, account); n != 0 {
			t.Errorf("%s: %d boxes are left", of.fault, n)
		}
	}
	w, account := newScript(t)
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	w.renter.Poll.Total = 300 * time.Millisecond
	for fault, told := range map[string]string{"fail delete": "cloud delete failed", "fail tag": "cloud tag failed", "odd list": "cannot be read"} {
		path := filepath.Join(account, fault)
		must(t, os.WriteFile(path, nil, 0o600))
		call := func() error { return w.renter.Release(t.Context(), rental) }
		if fault == "fail tag" {
			call = func() error {
				_, err := w.renter.Plugin.ask(t.Context(), protocol.Request{Verb: protocol.Extend, ID: rental.Box.ID, Deadline: rental.Deadline})
				return err
			}
		}
		if err := call(); err == nil || !strings.Contains(err.Error(), told) {
			t.Errorf("%s: %v", fault, err)
		}
		if errors.Is(os.Remove(path), fs.ErrNotExist) || rental.Stage != Made {
			t.Errorf("%s: the rental is %s", fault, rental.Stage)
		}
		if fault == "odd list" && boxes(t, account) == 0 {
			must(t, os.WriteFile(filepath.Join(account, rental.Box.ID+".box"), []byte(`{"name": "`+rental.Box.ID+`", "state": "up", "tags": {"hcl-request": "`+rental.Request+`"}}`), 0o600))
		}
	}
	must(t, w.renter.Release(t.Context(), rental))
	if n := boxes(t, account); n != 0 {
		t.Errorf("%d boxes are left", n)
	}
}
