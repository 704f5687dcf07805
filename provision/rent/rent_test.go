package rent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hclbench/flow"
	"hclbench/provision"
	"hclbench/provision/rent/protocol"
	"hclbench/testhost/provider"
)

func TestMain(m *testing.M) {
	provider.Program()
	if account := os.Getenv(envCloud); account != "" {
		if err := cloud(account, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv("RENTS_IN"); dir != "" {
		rents(dir)
	}
	os.Exit(m.Run())
}

// world is a provider, and who rents there.
type world struct {
	*testing.T
	account string
	renter  *Renter
	ask     Ask
	mu      sync.Mutex
	told    []string
}

func newWorld(t *testing.T, change func(*provider.Account), faults ...string) *world {
	t.Helper()
	w := &world{T: t, account: filepath.Join(t.TempDir(), "account")}
	acc := provider.Account{
		Token: "secret-of-the-account", Address: "127.0.0.1:2222", User: "ubuntu", GPUs: "8xMI300X", Price: 20, Boots: 2,
		Can:   protocol.Capabilities{Deadline: true, List: true, Extend: true, Cost: true},
		Boxes: []provider.Box{{Box: protocol.Box{ID: "of-others", State: protocol.Running, PricePerHour: 5}}},
	}
	if change != nil {
		change(&acc)
	}
	env, err := provider.New(w.account, acc, faults...)
	must(t, err)
	w.renter, err = w.newRenter(env)
	must(t, err)
	w.ask = Ask{Host: "mi300x", Lab: "r1", Run: "run-1", GPUs: "8xMI300X", Want: &provision.Rent{
		Plugin: "fake", TTL: time.Hour, MaxPrice: 30, Boot: time.Minute, Spec: map[string]string{"gpus": "8xMI300X"},
	}}
	return w
}

func (w *world) newRenter(env map[string]string) (*Renter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	journal := NewJournal(filepath.Join(filepath.Dir(w.account), "rent"))
	var secret []provision.EnvVar
	for name, value := range env {
		text := provision.Plain(value)
		if name == provider.EnvToken {
			text = provision.Secret(value)
		}
		secret = append(secret, provision.EnvVar{Name: name, Value: text})
	}
	quick := flow.Patience{First: time.Millisecond, Most: 20 * time.Millisecond, Total: 10 * time.Second}
	return &Renter{
		Plugin: &Plugin{Name: "fake", Path: self, Env: secret, Dir: filepath.Dir(w.account)}, Journal: journal, Poll: quick, Sure: quick,
		Tell: func(format string, args ...any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, fmt.Sprintf(format, args...))
		},
	}, err
}

// look returns what the provider knows, of which the box of others has to be there still.
func (w *world) look() (acc provider.Account) {
	w.Helper()
	must(w.T, provider.Change(w.account, func(a *provider.Account) { acc = *a }))
	if len(acc.Boxes) == 0 || !acc.Boxes[0].GoneAt.IsZero() || acc.Boxes[0].Deletes > 0 {
		w.Errorf("a box that is not ours was deleted: %+v", acc.Boxes)
	}
	return acc
}

func (w *world) changes(how func(*provider.Account)) {
	w.Helper()
	must(w.T, provider.Change(w.account, how))
}

// living are the boxes that cost us money.
func (w *world) living() (all []string) {
	w.Helper()
	for _, b := range w.look().Boxes[1:] {
		if b.GoneAt.IsZero() {
			all = append(all, b.ID)
		}
	}
	return all
}

func (w *world) stages() (all []Stage) {
	w.Helper()
	rentals, err := w.renter.Journal.Rentals()
	must(w.T, err)
	for _, t := range rentals {
		all = append(all, t.Stage)
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRent: a box comes, at the best price, with a hard end, and is gone when it was given back, with its cost.
func TestRent(t *testing.T) {
	for _, can := range []protocol.Capabilities{{Deadline: true, List: true, Extend: true, Cost: true}, {}} {
		w := newWorld(t, func(a *provider.Account) { a.Can = can })
		rental, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		b := w.look().Boxes[1]
		if rental.Box.Address != "127.0.0.1:2222" || rental.Box.User != "ubuntu" || rental.Price != 20 || b.Labels[protocol.LabelLab] != "r1" {
			t.Errorf("%+v %+v", rental, b)
		}
		if left := time.Until(rental.Deadline); left > time.Hour || left < 50*time.Minute || can.Deadline && !b.Deadline.Equal(rental.Deadline) {
			t.Errorf("ends in %s, and by the provider at %s", left, b.Deadline)
		}
		must(t, w.renter.Release(t.Context(), rental))
		if left := w.living(); len(left) > 0 || rental.Stage != Over || rental.ByUs == can.Cost || rental.Cost <= 0 || rental.Cost > 1 {
			t.Errorf("after the release: %v, %+v", left, rental)
		}
	}
}

// TestCheapest: the cheapest offer is the one that costs the least until the hard end: hours that are billed at least count.
func TestCheapest(t *testing.T) {
	for least, want := range map[float64]string{0: "cheap", 90: "cheap", 120: "dear"} { // "dear" is a hundred times as dear an hour
		w := newWorld(t, func(a *provider.Account) { a.Minimum = least })
		w.ask.Want.MaxPrice = 3000
		offers, err := w.renter.Offers(t.Context(), w.ask.Want, w.ask.GPUs)
		must(t, err)
		if o, err := Choose(offers, w.ask.Want, w.ask.GPUs, time.Now()); err != nil || o.ID != want {
			t.Errorf("where the one of $20 an hour bills %g hours at least: %v %v, want %s", least, o, err, want)
		}
	}
}

// TestRentFaults: whatever a provider does wrong, no box is left, none is made twice, and what is told says so.
func TestRentFaults(t *testing.T) {
	for _, of := range []struct {
		fault  string
		told   string // an error of Rent, or what is told; empty: the box can be used
		boxes  int    // that were made
		change func(*provider.Account)
	}{
		{fault: provider.LostBefore, told: "nobody knows whether there is a box", boxes: 0},
		{fault: provider.LostAfter, boxes: 1},
		{fault: provider.Late, boxes: 1},
		{fault: provider.RefusedMade, boxes: 1},
		{fault: provider.Twice, boxes: 2},
		{fault: provider.Quota, told: "your quota of 8 GPUs is used up"},
		{fault: provider.Dearer, told: "costs $60.00 an hour, and was offered at $20.00", boxes: 1},
		{fault: provider.NoEnd, told: "the provider tells no end of it", boxes: 1},
		{fault: provider.DearerLater, told: "costs $40.00 an hour, and was offered at $20.00", boxes: 1},
		{fault: provider.LaterEnd, told: "does not end at", boxes: 1},
		{fault: provider.NeverBoots, told: "is pending after", boxes: 1},
		{fault: provider.BootFails, told: "is failed", boxes: 1},
		{fault: provider.Lies, boxes: 1},
		{fault: provider.Ignored, boxes: 1},
		{fault: provider.DeleteRefused, boxes: 1},
		{fault: provider.StatusFails, boxes: 1},
		{fault: provider.Garbage, told: "502 Bad Gateway"},
		{fault: provider.Megabytes, told: "it prints more than 4.2 MB"},
		{fault: "no room for money", told: "the cheapest that fake has now is $31.00 an hour, and max_price is $30.00", change: func(a *provider.Account) { a.Price = 31 }},
		{fault: "least hours", told: "fake bills 24 hours at least, at $20.00, and the host may cost $30.00 in all", change: func(a *provider.Account) { a.Minimum = 24 }},
		{fault: "no such GPUs", told: "fake has nothing for this spec with 8xMI300X", change: func(a *provider.Account) { a.GPUs = "8xH200" }},
		{fault: "another token", told: "the token (sensitive) is not valid", change: func(a *provider.Account) { a.Token = "another" }},
	} {
		t.Run(of.fault, func(t *testing.T) {
			w := newWorld(t, nil, of.fault)
			if of.fault == provider.NeverBoots {
				w.ask.Want.Boot = 500 * time.Millisecond
			}
			if of.fault == provider.LostBefore {
				w.renter.Sure.Total = 200 * time.Millisecond
			}
			if of.change != nil {
				must(t, provider.Change(w.account, of.change))
			}
			rental, err := w.renter.Rent(t.Context(), w.ask)
			if of.told == "" {
				must(t, err)
				must(t, w.renter.Release(t.Context(), rental))
			} else if err == nil || !strings.Contains(err.Error(), of.told) {
				t.Errorf("%v, want %q", err, of.told)
			}
			if gone := "is gone; it has cost $"; err != nil && of.boxes > 0 && !strings.Contains(fmt.Sprint(w.told), gone) {
				t.Errorf("what the box has cost is not in %q", w.told)
			}
			if err != nil && strings.Contains(err.Error(), "secret-of-the-account") {
				t.Errorf("a secret is told: %v", err)
			}
			if left, made := w.living(), len(w.look().Boxes)-1; len(left) > 0 || made != of.boxes {
				t.Errorf("%d boxes were made, want %d; %v are left", made, of.boxes, left)
			}
		})
	}
}

// TestShutsDown: a box that costs nothing when it is off shuts itself down at its hard end, also if it was restarted, and whatever its clock says.
func TestShutsDown(t *testing.T) {
	w := newWorld(t, func(a *provider.Account) { a.Can.OffIsFree = true })
	w.ask.Want.Keep = 20 * time.Minute
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "shutdown"), []byte("#!/bin/sh\necho \"$*\"\n"), 0o755))
	const boots = "/var/lib/cloud/scripts/per-boot"
	script := w.look().Boxes[1].UserData
	if rental.OffAfter != 30*time.Minute || !strings.Contains(script, boots) {
		t.Fatalf("%+v: %s", rental, script)
	}
	runs := func(what, script string) int {
		t.Helper()
		cmd := exec.Command("sh", "-eu", "-c", script)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		minutes := -1
		if fmt.Sscanf(string(out), "-P +%d\n", &minutes); err != nil {
			t.Errorf("%s: %v: %s", what, err, out)
		}
		return minutes
	}
	script = strings.ReplaceAll(script, boots, dir+"/boots")
	if n := runs("its first boot", script); n < 50 || n > 60 {
		t.Errorf("it shuts itself down after %d minutes, and has an hour", n)
	}
	again, err := os.ReadFile(filepath.Join(dir, "boots", "hcl-hard-end"))
	must(t, err)
	if n := runs("a restart", string(again)); n < 50 || n > 60 {
		t.Errorf("after a restart it shuts itself down after %d minutes", n)
	}
	for clock, want := range map[string]int{"1": 60, "99999999999": 1} { // long before, and after its end
		must(t, os.WriteFile(filepath.Join(dir, "date"), []byte("#!/bin/sh\necho "+clock+"\n"), 0o755))
		if n := runs("a restart", string(again)); n != want {
			t.Errorf("by a clock that says %s it shuts itself down after %d minutes, want %d", clock, n, want)
		}
		if n := runs("a boot", script); n != 60 {
			t.Errorf("by a clock that says %s it shuts itself down after %d minutes", clock, n)
		}
		must(t, os.WriteFile(filepath.Join(dir, "boots", "hcl-hard-end"), again, 0o755))
	}
}

// TestRentHangs: a plugin that does not answer is ended with all that it has started.
func TestRentHangs(t *testing.T) {
	w := newWorld(t, nil)
	script := filepath.Join(t.TempDir(), "hcl-rent-slow")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nsleep 600 &\nsleep 600\n"), 0o700))
	w.renter.Plugin.Path, w.renter.Plugin.Limit = script, 300*time.Millisecond
	if _, err := w.renter.Rent(t.Context(), w.ask); err == nil || !strings.Contains(err.Error(), "it has not ended within 300ms") {
		t.Error(err)
	}
}

// TestCutOffEnds: a plugin that is cut off may come to its end: it may have to write down what it has made.
func TestCutOffEnds(t *testing.T) {
	w := newWorld(t, nil)
	script := filepath.Join(t.TempDir(), "hcl-rent-full")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\ntrap ': > ended; exit' INT\nhead -c 5000000 /dev/zero\nwhile :; do sleep 1; done\n"), 0o700))
	w.renter.Plugin.Path, w.renter.Plugin.Dir = script, t.TempDir()
	if _, _, err := w.renter.Capabilities(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "it prints more than") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(w.renter.Plugin.Dir, "ended")); err != nil {
		t.Error(err)
	}
}

// TestAgain: a box that a killed run has left is used again, and given back where it does not fit.
func TestAgain(t *testing.T) {
	w := newWorld(t, nil)
	first, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	w.ask.Run = "run-2"
	again, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	if again.Box.ID != first.Box.ID || len(w.living()) != 1 {
		t.Errorf("%s after %s, %v live", again.Box.ID, first.Box.ID, w.living())
	}
	must(t, w.renter.Keep(t.Context(), again, 10*time.Minute))
	if b := w.look().Boxes[1]; time.Until(b.Deadline) > 10*time.Minute || b.Labels[protocol.LabelExpires] != b.Deadline.Format(time.RFC3339) {
		t.Errorf("a box that is kept for ten minutes ends at %s: %v", b.Deadline, b.Labels)
	}
	other := *w.ask.Want
	other.Spec, w.ask.Want = map[string]string{"gpus": "8xMI300X", "image": "new"}, &other
	third, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	if third.Box.ID == first.Box.ID || len(w.living()) != 1 {
		t.Errorf("a box of another spec: %s, %v live", third.Box.ID, w.living())
	}
	if got := fmt.Sprint(w.stages()); got != "[over made]" {
		t.Error(got)
	}
}

// TestAgainChanged: a box that was rented for other GPUs than the host has now, or that lets in another key, is given back.
func TestAgainChanged(t *testing.T) {
	for _, of := range []struct {
		gpus, key string // of the second run
		told      string // why it is given back; empty: it is used again
	}{
		{gpus: "8xmi300x", key: "ssh-ed25519 one"},
		{gpus: "", key: "ssh-ed25519 one"},
		{gpus: "4xH200", key: "ssh-ed25519 one", told: "which run run-1 left: it was rented with 8xMI300X"},
		{gpus: "8xMI300X", key: "ssh-ed25519 two", told: "which run run-1 left: it lets in another key"},
	} {
		w := newWorld(t, nil)
		w.ask.PublicKey = "ssh-ed25519 one"
		first, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		must(t, w.renter.Keep(t.Context(), first, 30*time.Minute))
		if of.gpus == "4xH200" {
			must(t, provider.Change(w.account, func(a *provider.Account) { a.GPUs = of.gpus }))
		}
		w.ask.GPUs, w.ask.PublicKey, w.ask.Run = of.gpus, of.key, "run-2"
		second, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		if told := strings.Join(w.told, "\n"); (second.Box.ID == first.Box.ID) != (of.told == "") || !strings.Contains(told, of.told) || len(w.living()) != 1 {
			t.Errorf("%+v: box %s after %s, %v live\n%s", of, second.Box.ID, first.Box.ID, w.living(), told)
		}
	}
}

// TestFoundWithAnother: a box that could be used again is given back where another one of the host cannot, and was never the new run's.
func TestFoundWithAnother(t *testing.T) {
	w := newWorld(t, nil)
	first, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	second := *first
	second.Request, second.Plugin, second.Asked = "hcl-other", "other", time.Now()
	must(t, w.renter.Journal.Note(&second))
	w.ask.Run = "run-2"
	if _, err := w.renter.Rent(t.Context(), w.ask); err == nil || !strings.Contains(err.Error(), `write plugin = "other" again`) {
		t.Error(err)
	}
	if got := fmt.Sprint(w.stages()); len(w.living()) != 0 || got != "[over made]" {
		t.Errorf("%v live, the journal is at %s", w.living(), got)
	}
	all, err := w.renter.Journal.Rentals()
	must(t, err)
	if shares := all[0].Shares; len(shares) != 1 || shares[0].Run != "run-1" { // its time is of the run that left it
		t.Errorf("%+v", shares)
	}
}

// TestAnotherPlugin: a provider that never had a box is not believed that it is gone.
func TestAnotherPlugin(t *testing.T) {
	w := newWorld(t, nil)
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	w.renter.Plugin.Name, w.ask.Want.Plugin = "new", "new"
	if err := w.renter.Settle(t.Context(), rental); err == nil || !strings.Contains(err.Error(), `write plugin = "fake" again`) {
		t.Error(err)
	}
	if _, err := w.renter.Rent(t.Context(), w.ask); err == nil || fmt.Sprint(w.stages()) != "[made]" || len(w.living()) != 1 {
		t.Errorf("%v: %v, %v live", err, w.stages(), w.living())
	}
}

// TestClock: the hard end is by the provider's clock, and so is what sweep takes for over.
func TestClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		w := newWorld(t, func(a *provider.Account) { a.Ahead = ahead })
		rental, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		if off := time.Until(rental.Deadline) - ahead - time.Hour; off.Abs() > time.Minute {
			t.Errorf("with a clock that is %s ahead it ends at %s", ahead, rental.Deadline)
		}
		swept, err := w.renter.Sweep(t.Context(), false)
		must(t, err)
		if len(swept.Living) != 1 || len(swept.Others) != 1 || len(w.living()) != 1 {
			t.Errorf("with a clock that is %s ahead: %+v", ahead, swept)
		}
	}
}

// TestListBehind: what the list has not, or not with our labels, is there as long as its status says so.
func TestListBehind(t *testing.T) {
	w := newWorld(t, nil)
	first, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, provider.Change(w.account, func(a *provider.Account) { a.Boxes[1].Labels = nil }))
	swept, err := w.renter.Sweep(t.Context(), false)
	must(t, err)
	if len(swept.Living) != 1 || len(swept.Others) != 1 || fmt.Sprint(w.stages()) != "[made]" {
		t.Errorf("%+v, %v", swept, w.stages())
	}
	again, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	if again.Box.ID != first.Box.ID || len(w.living()) != 1 {
		t.Errorf("%s after %s, %v live", again.Box.ID, first.Box.ID, w.living())
	}
}

// TestSweep: what is over is deleted by anybody, also without a journal; nothing else is.
func TestSweep(t *testing.T) {
	w := newWorld(t, func(a *provider.Account) { a.Can.Deadline = false })
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	later := func(a *provider.Account) { a.Ahead = 61 * time.Minute }
	must(t, provider.Change(w.account, later))
	swept, err := w.renter.Sweep(t.Context(), true)
	must(t, err)
	if len(swept.Deleted) != 1 || len(w.living()) != 1 {
		t.Errorf("a dry one: %+v, %v live", swept, w.living())
	}
	elsewhere := *w.renter
	elsewhere.Journal = NewJournal(t.TempDir())
	if swept, err = elsewhere.Sweep(t.Context(), false); err != nil || len(swept.Deleted) != 1 || len(w.living()) != 0 {
		t.Errorf("%v: %+v, %v live", err, swept, w.living())
	}
	if _, err = w.renter.Sweep(t.Context(), false); err != nil || fmt.Sprint(w.stages()) != "[over]" {
		t.Errorf("%v: the journal of %s is at %v", err, rental.Request, w.stages())
	}
}

// TestSweepEndless: a box whose labels tell no end has that of this journal; without one it is told of as hcl's, and left.
func TestSweepEndless(t *testing.T) {
	w := newWorld(t, func(a *provider.Account) { a.Can.Deadline = false })
	_, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	elsewhere := *w.renter
	elsewhere.Journal = NewJournal(t.TempDir())
	for _, change := range []func(labels map[string]string){
		func(labels map[string]string) { labels[protocol.LabelExpires] = "tomorrow" },
		func(labels map[string]string) { delete(labels, protocol.LabelExpires) },
		func(labels map[string]string) { delete(labels, protocol.LabelLab) }, // its request is hcl's alone
	} {
		w.changes(func(a *provider.Account) { change(a.Boxes[1].Labels) })
		swept, err := elsewhere.Sweep(t.Context(), false)
		if must(t, err); len(swept.Endless) != 1 || len(swept.Others) != 1 {
			t.Errorf("%+v", swept)
		}
		swept, err = w.renter.Sweep(t.Context(), false)
		if must(t, err); len(swept.Living) != 1 || len(swept.Endless) != 0 {
			t.Errorf("where it was rented: %+v", swept)
		}
	}
	w.changes(func(a *provider.Account) { a.Ahead = 2 * time.Hour })
	swept, err := w.renter.Sweep(t.Context(), false)
	if must(t, err); len(swept.Deleted) != 1 || len(w.living()) != 0 {
		t.Errorf("%+v, %v live", swept, w.living())
	}
}

// TestTwoAccounts: an account that never had a box is not believed that it is gone.
func TestTwoAccounts(t *testing.T) {
	w := newWorld(t, nil)
	_, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	env, err := provider.New(filepath.Join(t.TempDir(), "account"), provider.Account{Can: protocol.Capabilities{List: true}})
	must(t, err)
	other, err := w.newRenter(env)
	must(t, err)
	other.Mine = func(t *Rental) bool { return t.Host != w.ask.Host }
	if _, err = other.Sweep(t.Context(), false); err != nil || fmt.Sprint(w.stages()) != "[made]" {
		t.Errorf("%v, %v", err, w.stages())
	}
}

// TestAnotherAccount: where the provider says of which account a key is, another key's "there is none" is not believed, and a
// box that is not found is not taken for gone.
func TestAnotherAccount(t *testing.T) {
	w := newWorld(t, func(a *provider.Account) { a.Can.Account = "team-1" })
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	unsure := *rental
	unsure.Request, unsure.Box, unsure.Stage = "hcl-of-which-nobody-knows", protocol.Box{}, Asked
	must(t, w.renter.Journal.Note(&unsure))
	for _, account := range []string{"team-2", ""} {
		env, err := provider.New(filepath.Join(t.TempDir(), "account"), provider.Account{Can: protocol.Capabilities{List: true, Account: account}})
		must(t, err)
		other, err := w.newRenter(env)
		must(t, err)
		for what, err := range map[string]error{
			"release": other.Release(t.Context(), rental), "settle": other.Settle(t.Context(), &unsure),
			"rent": func() error { _, err := other.Rent(t.Context(), w.ask); return err }(),
		} {
			if err == nil || !strings.Contains(err.Error(), "write the key of account team-1 again") {
				t.Errorf("%s by %q: %v", what, account, err)
			}
		}
		_, err = other.Sweep(t.Context(), false)
		if got := fmt.Sprint(err); fmt.Sprint(w.stages()) != "[made asked]" || strings.Count(got, "is not known to be gone") != 2 {
			t.Errorf("sweep by %q: %v, %v", account, err, w.stages())
		}
	}
	must(t, w.renter.Release(t.Context(), rental))
}

// TestAnotherLogin: where the provider does not say of which account a key is, a key that does not find the box is not believed that it is
// gone, unless it is that which has made the box or has seen it since.
func TestAnotherLogin(t *testing.T) {
	w := newWorld(t, nil)
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	unsure := *rental
	unsure.Request, unsure.Box, unsure.Stage = "hcl-of-which-nobody-knows", protocol.Box{}, Asked
	must(t, w.renter.Journal.Note(&unsure))
	for _, can := range []protocol.Capabilities{{List: true}, {}} {
		env, err := provider.New(filepath.Join(t.TempDir(), "account"), provider.Account{Can: can, Token: "of-another-team"})
		must(t, err)
		other, err := w.newRenter(env)
		must(t, err)
		for what, do := range map[string]func() error{
			"release": func() error { return other.Release(t.Context(), rental) }, "settle": func() error { return other.Settle(t.Context(), &unsure) },
			"rent": func() error { _, err := other.Rent(t.Context(), w.ask); return err },
		} {
			if err := do(); !errors.Is(err, errAnotherLogin) || strings.Contains(err.Error(), "of-another-team") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := other.Lost(t.Context(), rental); err != nil {
			t.Error(err)
		}
		_, err = other.Sweep(t.Context(), false)
		if got := fmt.Sprint(err); fmt.Sprint(w.stages()) != "[made asked]" || strings.Count(got, "is not known to be gone") != 2 {
			t.Errorf("sweep: %v, %v", err, w.stages())
		}
	}
	var acc provider.Account // the key is another one, of the same account
	must(t, provider.Change(w.account, func(a *provider.Account) { a.Token = "renewed"; acc = *a }))
	env, err := provider.New(w.account, acc)
	must(t, err)
	renewed, err := w.newRenter(env)
	must(t, err)
	must(t, renewed.Release(t.Context(), rental))
	if got := w.living(); len(got) > 0 || rental.Stage != Over {
		t.Errorf("%v live, %s", got, rental.Stage)
	}
}

// TestAnothersBox: what has a box's ID and carries another's request is not ours: it is neither deleted nor used, and what it costs is not told.
func TestAnothersBox(t *testing.T) {
	for _, can := range []protocol.Capabilities{{Deadline: true, List: true, Extend: true, Cost: true}, {Cost: true}} {
		for how, carries := range map[string]protocol.Box{
			"label":   {Labels: map[string]string{protocol.LabelRequest: "hcl-of-another", "owner": "colleague"}},
			"request": {Request: "hcl-of-another"},
			"owner":   {Labels: map[string]string{"owner": "colleague"}}, // which says nothing for sure
		} {
			for what, do := range map[string]func(*world, *Rental) error{
				"release": func(w *world, r *Rental) error { return w.renter.Release(w.Context(), r) },
				"settle":  func(w *world, r *Rental) error { return w.renter.Settle(w.Context(), r) },
				"keep": func(w *world, r *Rental) error {
					if err := w.renter.Keep(w.Context(), r, time.Minute); err != nil && !errors.Is(err, ErrLost) {
						return err
					}
					return nil
				},
				"sweep": func(w *world, r *Rental) error {
					w.changes(func(a *provider.Account) { a.Ahead = 2 * time.Hour })
					_, err := w.renter.Sweep(w.Context(), false)
					return err
				},
				"rent": func(w *world, r *Rental) error {
					_, err := w.renter.takeOver(w.Context(), w.ask, can, 0)
					return err
				},
			} {
				w := newWorld(t, func(a *provider.Account) { a.Can = can })
				rental, err := w.renter.Rent(t.Context(), w.ask)
				must(t, err)
				w.changes(func(a *provider.Account) {
					b := &a.Boxes[1]
					b.Labels, b.Request, b.PricePerHour, b.Deadline = carries.Labels, carries.Request, 1e5, time.Time{}
				})
				err = do(w, rental)
				unsure := how == "owner"
				if unsure != errors.Is(err, errAnothers) || !unsure && err != nil {
					t.Errorf("%+v, %s, %s: %v", can, how, what, err)
				}
				if b := w.look().Boxes[1]; b.Deletes > 0 || b.Labels[protocol.LabelRequest] == rental.Request {
					t.Errorf("%+v, %s, %s: the box of another is changed: %+v", can, how, what, b)
				}
				all, err := w.renter.Journal.Rentals()
				must(t, err)
				if r := all[0]; unsure != r.Open() || r.Cost > 50 {
					t.Errorf("%+v, %s, %s: %s, has cost $%.2f", can, how, what, r.Stage, r.Cost)
				}
			}
		}
	}
}

// TestAnothersAnswer: a create that answers with a box of another's request has said nothing.
func TestAnothersAnswer(t *testing.T) {
	w := newWorld(t, nil, provider.LostBefore)
	w.renter.Sure.Total = time.Millisecond
	self := w.renter.Plugin.Path
	w.renter.Plugin.Path = filepath.Join(t.TempDir(), "hcl-rent-confused")
	must(t, os.WriteFile(w.renter.Plugin.Path, []byte(`#!/bin/sh
if [ "$1" = create ]; then echo '{"protocol": 1, "box": {"id": "of-others", "request": "hcl-of-another", "state": "running"}}'; exit; fi
exec '`+self+`' "$@"
`), 0o700))
	_, err := w.renter.Rent(t.Context(), w.ask)
	if !errors.Is(err, ErrUnsure) || !strings.Contains(err.Error(), "it was asked for request hcl-") || fmt.Sprint(w.stages()) != "[asked]" {
		t.Errorf("%v: %v", err, w.stages())
	}
	w.look()
}

// TestOdd: a box of which something cannot be read is known all the same, and given back; one of others is no reason to see none at all.
func TestOdd(t *testing.T) {
	for what, change := range map[string]func(*provider.Account){
		`"ubuntu@[::1" is not the address and user of a host`: func(a *provider.Account) { a.Address = "[::1" },
		"its host key:": func(a *provider.Account) { a.HostKeys = []string{"ssh-ed25519 AAAA"} },
		`"127.0.0.1" is not the IP address of a network between hosts`: func(a *provider.Account) { a.Private = "127.0.0.1" },
	} {
		w := newWorld(t, change)
		w.renter.Poll.Total = time.Second
		_, err := w.renter.Rent(t.Context(), w.ask)
		if !errors.Is(err, errNotAgreed) || !strings.Contains(err.Error(), what) || fmt.Sprint(w.stages()) != "[over]" || len(w.living()) > 0 {
			t.Errorf("%v: %v, %v live", err, w.stages(), w.living())
		}
	}
	w := newWorld(t, func(a *provider.Account) {
		a.Boxes[0].Address = "[::1"
		a.Boxes = append(a.Boxes, provider.Box{Box: protocol.Box{ID: "a box of theirs", State: "asleep"}, GoneAt: time.Now()})
	})
	w.renter.Poll.Total = time.Second
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, provider.Change(w.account, func(a *provider.Account) { a.Boxes[1].GoneAt = time.Time{} }))
	must(t, w.renter.Release(t.Context(), rental))
}

// TestRequestAlone: a box that has its request and no label is found by that, in a list too.
func TestRequestAlone(t *testing.T) {
	w := newWorld(t, nil, provider.LostAfter, provider.NoLabels)
	w.renter.Sure.Total = time.Second
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, w.renter.Release(t.Context(), rental))
	if got := w.living(); len(got) > 0 {
		t.Errorf("%v live", got)
	}
}

// TestKnownByID: a box whose ID is known is asked for by that: a provider may have forgotten the request.
func TestKnownByID(t *testing.T) {
	w := newWorld(t, func(a *provider.Account) { a.Can = protocol.Capabilities{} })
	first, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, provider.Change(w.account, func(a *provider.Account) { a.Boxes[1].Request = "" }))
	again, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	if again.Box.ID != first.Box.ID || len(w.living()) != 1 {
		t.Errorf("%s after %s, %v live", again.Box.ID, first.Box.ID, w.living())
	}
}

// TestNearerEnd: of a box whose provider was told a nearer end by somebody who was killed before that was noted, the end is set anew, or it is
// given back.
func TestNearerEnd(t *testing.T) {
	for what, change := range map[string]func(*provider.Box){
		"deadline": func(b *provider.Box) { b.Deadline = b.Deadline.Add(-50 * time.Minute) },
		"label": func(b *provider.Box) {
			b.Labels[protocol.LabelExpires] = b.Deadline.Add(-50 * time.Minute).Format(time.RFC3339)
		},
	} {
		for _, extend := range []bool{true, false} {
			w := newWorld(t, func(a *provider.Account) { a.Can.Extend = extend })
			first, err := w.renter.Rent(t.Context(), w.ask)
			must(t, err)
			must(t, provider.Change(w.account, func(a *provider.Account) { change(&a.Boxes[1]) }))
			again, err := w.renter.Rent(t.Context(), w.ask)
			must(t, err)
			boxes := w.look().Boxes
			b := boxes[len(boxes)-1]
			if extend != (again.Box.ID == first.Box.ID) || len(w.living()) != 1 || !b.Deadline.Equal(again.Deadline) || b.Labels[protocol.LabelExpires] != again.Deadline.Format(time.RFC3339) {
				t.Errorf("%s, extend %v: %s after %s, until %s: %+v", what, extend, again.Box.ID, first.Box.ID, again.Deadline, b)
			}
		}
	}
}

// TestKeptByNobody: a box that is kept with a provider that ends none and can be told nothing is kept no longer than was said where its journal is.
func TestKeptByNobody(t *testing.T) {
	for _, can := range []protocol.Capabilities{{List: true}, {}} {
		w := newWorld(t, func(a *provider.Account) { a.Can = can })
		first, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		hard := first.Deadline
		must(t, w.renter.Keep(t.Context(), first, 10*time.Minute))
		if left := time.Until(first.Deadline); left > 10*time.Minute {
			t.Errorf("it is kept for %s", left)
		}
		again, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		if again.Box.ID != first.Box.ID || !again.Deadline.Equal(hard) {
			t.Errorf("%s after %s, until %s, want %s", again.Box.ID, first.Box.ID, again.Deadline, hard)
		}
		must(t, w.renter.Keep(t.Context(), again, 10*time.Minute))
		must(t, provider.Change(w.account, func(a *provider.Account) { a.Ahead = 11 * time.Minute }))
		_, err = w.renter.Sweep(t.Context(), false)
		must(t, err)
		if got := w.living(); len(got) > 0 {
			t.Errorf("%v live after their time", got)
		}
	}
}

// TestKeptTooLong: a box that was kept until now, and shuts itself down then, is not used again: it may let nobody in any more.
func TestKeptTooLong(t *testing.T) {
	for _, past := range []time.Duration{9 * time.Minute, 11 * time.Minute} {
		w := newWorld(t, func(a *provider.Account) { a.Can = protocol.Capabilities{List: true, OffIsFree: true} })
		first, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		must(t, w.renter.Keep(t.Context(), first, 10*time.Minute))
		must(t, provider.Change(w.account, func(a *provider.Account) { a.Ahead = past }))
		again, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		if is := again.Box.ID == first.Box.ID; is != (past < 10*time.Minute) || len(w.living()) != 1 {
			t.Errorf("after %s it is used again: %v; %v live", past, is, w.living())
		}
	}
}

// TestSweepGoesOn: a box of which nothing is known is no reason to leave others there whose time is over.
func TestSweepGoesOn(t *testing.T) {
	w := newWorld(t, func(a *provider.Account) { a.Can = protocol.Capabilities{} })
	var all [2]*Rental
	for i := range all {
		var err error
		w.ask.Host = strconv.Itoa(i)
		all[i], err = w.renter.Rent(t.Context(), w.ask)
		must(t, err)
	}
	must(t, provider.Change(w.account, func(a *provider.Account) { a.Ahead, a.Boxes[1].State = 2*time.Hour, "asleep" }))
	_, err := w.renter.Sweep(t.Context(), false)
	if got := fmt.Sprint(w.stages()); err == nil || got != "[made over]" || len(w.living()) != 1 {
		t.Errorf("%v: %s, %v live", err, got, w.living())
	}
}

// TestNotAgreed: a box that an earlier run has left is not used if it has become dearer, or ends later.
func TestNotAgreed(t *testing.T) {
	for what, change := range map[string]func(*provider.Box){
		"costs $25.00 an hour, and was offered at $20.00": func(b *provider.Box) { b.PricePerHour = 25 }, // max_price is 30
		"does not end at": func(b *provider.Box) { b.Deadline = b.Deadline.Add(time.Hour) },
	} {
		w := newWorld(t, nil)
		first, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		must(t, provider.Change(w.account, func(a *provider.Account) { change(&a.Boxes[1]) }))
		again, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		if again.Box.ID == first.Box.ID || len(w.living()) != 1 || !strings.Contains(fmt.Sprint(w.told), what) {
			t.Errorf("%s: box %s is used again; %v live; %v", what, again.Box.ID, w.living(), w.told)
		}
	}
}

// TestNoMoreAgreed: a box that becomes dearer while it is at work, or is to end later, is lost, and is not kept; one of which nothing was agreed is not.
func TestNoMoreAgreed(t *testing.T) {
	dearer := func(b *provider.Box) { b.PricePerHour = 500 }
	later := func(b *provider.Box) { b.Deadline = b.Deadline.Add(1000 * time.Hour) }
	for _, of := range []struct {
		can    protocol.Capabilities
		change func(*provider.Box)
		told   string
	}{
		{protocol.Capabilities{Deadline: true, List: true}, dearer, "costs $500.00 an hour, and was offered at $20.00"},
		{protocol.Capabilities{}, dearer, "costs $500.00 an hour, and was offered at $20.00"},
		{protocol.Capabilities{Deadline: true}, later, "does not end at"},
		{protocol.Capabilities{Deadline: true}, func(b *provider.Box) { b.Deadline = time.Time{} }, "the provider tells no end of it"},
		{protocol.Capabilities{}, later, ""},
		{protocol.Capabilities{Deadline: true}, func(b *provider.Box) { b.PricePerHour, b.Address = 19, "[::1" }, ""}, // a single odd answer ends no work
	} {
		w := newWorld(t, func(a *provider.Account) { a.Can = of.can })
		rental, err := w.renter.Rent(t.Context(), w.ask)
		must(t, err)
		must(t, w.renter.Lost(t.Context(), rental))
		w.changes(func(a *provider.Account) { of.change(&a.Boxes[1]) })
		for what, err := range map[string]error{"at work": w.renter.Lost(t.Context(), rental), "kept": w.renter.Keep(t.Context(), rental, time.Minute)} {
			if lost := of.told != ""; lost != errors.Is(err, ErrLost) || lost && !strings.Contains(err.Error(), of.told) {
				t.Errorf("%s: %v, want %q", what, err, of.told)
			}
		}
		if lost := of.told != ""; lost != (len(w.living()) == 0) {
			t.Errorf("%q: %v live", of.told, w.living())
		}
	}
}

// TestUnsure: a box that came later than anybody has waited for it is found by the next run.
func TestUnsure(t *testing.T) {
	w := newWorld(t, nil, provider.LostBefore)
	w.renter.Sure.Total = 50 * time.Millisecond
	_, err := w.renter.Rent(t.Context(), w.ask)
	if !errors.Is(err, ErrUnsure) || fmt.Sprint(w.stages()) != "[asked]" {
		t.Fatalf("%v, %v", err, w.stages())
	}
	rentals, err := w.renter.Journal.Rentals()
	must(t, err)
	must(t, provider.Change(w.account, func(a *provider.Account) {
		a.Boxes = append(a.Boxes, provider.Box{Box: protocol.Box{
			ID: "late", Request: rentals[0].Request, Labels: rentals[0].labels(), State: protocol.Running, Address: "127.0.0.1:1", BilledFrom: time.Now(), Deadline: rentals[0].Deadline,
		}})
	}))
	again, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	if again.Box.ID != "late" {
		t.Errorf("%+v", again)
	}
}

// TestEndWords: messages say who ends a box, and whether its time is over.
func TestEndWords(t *testing.T) {
	for _, of := range []struct {
		can       protocol.Capabilities
		is, later string
	}{
		{protocol.Capabilities{Deadline: true}, "its hard end is at ", "its hard end was at "},
		{protocol.Capabilities{OffIsFree: true}, "its hard end is at ", "its hard end was at "},
		{protocol.Capabilities{}, "its time is over at ", "its time was over at "},
	} {
		w := newWorld(t, func(a *provider.Account) { a.Can = of.can }, provider.LostBefore)
		w.renter.Sure.Total = time.Millisecond
		_, err := w.renter.Rent(t.Context(), w.ask)
		all, why := w.renter.Journal.Rentals()
		must(t, why)
		r, none := all[0], errors.New("no answer")
		alone := "and nothing but hcl ends it"
		for _, err := range []error{err, r.StillThere(none)} {
			if !strings.Contains(err.Error(), of.is+r.Deadline.Local().Format(time.DateTime)) || strings.Contains(err.Error(), alone) != (of.can == protocol.Capabilities{}) {
				t.Errorf("%+v: %v", of.can, err)
			}
		}
		r.Deadline = time.Now().Add(-time.Hour)
		want := "request " + r.Request + " of fake may have made a box, which is not known to be gone, and costs $20.00 an hour until then: no answer. `hcl sweep` tries again; " +
			of.later + r.Deadline.Local().Format(time.DateTime)
		if got := r.StillThere(none).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestKept: a box that is kept for less than a quarter of its time is used again, until the hard end that was told.
func TestKept(t *testing.T) {
	w := newWorld(t, nil)
	first, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	until := first.Deadline
	must(t, w.renter.Keep(t.Context(), first, 10*time.Minute))
	again, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	if b := w.look().Boxes[1]; again.Box.ID != first.Box.ID || !again.Deadline.Equal(until) || !b.Deadline.Equal(until) || b.Labels[protocol.LabelExpires] != until.Format(time.RFC3339) {
		t.Errorf("%+v, until %s: %+v", again, until, b)
	}
}

// TestInterrupted: who is interrupted while a box boots gives it back.
func TestInterrupted(t *testing.T) {
	w := newWorld(t, nil, provider.NeverBoots)
	w.ask.Want.Boot = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	told := w.renter.Tell
	w.renter.Tell = func(format string, args ...any) {
		told(format, args...)
		if strings.Contains(format, "boots") {
			cancel()
		}
	}
	if _, err := w.renter.Rent(ctx, w.ask); !errors.Is(err, context.Canceled) || len(w.living()) != 0 || len(w.look().Boxes) != 2 {
		t.Errorf("%v, %v live", err, w.living())
	}
}

// TestNoRoomForJournal: a box that cannot be noted is given back.
func TestNoRoomForJournal(t *testing.T) {
	w := newWorld(t, nil)
	told := w.renter.Tell
	w.renter.Tell = func(format string, args ...any) {
		if told(format, args...); strings.HasPrefix(format, "renting") {
			must(t, os.Remove(w.renter.Journal.path))
			must(t, os.Mkdir(w.renter.Journal.path, 0o700))
		}
	}
	if _, err := w.renter.Rent(t.Context(), w.ask); err == nil || len(w.look().Boxes) != 2 || len(w.living()) != 0 {
		t.Errorf("%v: %v live", err, w.living())
	}
}

// TestJournal: a line that a killed process has begun hides no other one.
func TestJournal(t *testing.T) {
	j := NewJournal(t.TempDir())
	must(t, j.Note(&Rental{Request: "a", Stage: Asked}))
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(`{"request":"b","sta`)
	must(t, err)
	must(t, f.Close())
	must(t, j.Note(&Rental{Request: "c", Stage: Asked}))
	must(t, j.Note(&Rental{Request: "a", Stage: Made}))
	all, err := j.Rentals()
	must(t, err)
	if len(all) != 2 || all[0].Stage != Made || all[1].Request != "c" {
		t.Errorf("%+v", all)
	}
}

// TestComputedCost: what a box costs whose provider does not tell it is by one clock, and ends with the box.
func TestComputedCost(t *testing.T) {
	w := newWorld(t, func(a *provider.Account) { a.Can.Cost, a.Ahead = false, -time.Hour })
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, w.renter.Release(t.Context(), rental))
	if rental.Cost <= 0 || rental.Cost > 2 {
		t.Errorf("a moment costs %s", rental.Money())
	}
	_, err = w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, provider.Change(w.account, func(a *provider.Account) { a.Ahead += 24 * time.Hour }))
	_, err = w.renter.Sweep(t.Context(), false)
	must(t, err)
	all, err := w.renter.Journal.Rentals()
	must(t, err)
	if all[1].Stage != Over || all[1].Cost > 21 {
		t.Errorf("an hour costs %s", all[1].Money())
	}
}

// TestBilledFrom: since when a box is billed is no time before it was asked for.
func TestBilledFrom(t *testing.T) {
	w := newWorld(t, func(a *provider.Account) { a.Can.Cost = false })
	_, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, provider.Change(w.account, func(a *provider.Account) { a.Boxes[1].BilledFrom = time.Unix(0, 0) }))
	w.ask.Run = "run-2"
	rental, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, w.renter.Release(t.Context(), rental))
	if rental.Cost > 20 {
		t.Errorf("a moment costs %s", rental.Money())
	}
	now := time.Now().Truncate(time.Second)
	must(t, provider.Change(w.account, func(a *provider.Account) { // of somebody else's journal
		a.Forgets = true
		a.Boxes = append(a.Boxes, provider.Box{Box: protocol.Box{ID: "b", State: protocol.Running, PricePerHour: 20, BilledFrom: now.Add(-3 * time.Hour), Labels: map[string]string{
			protocol.LabelRequest: "hcl-1", protocol.LabelExpires: now.Add(-time.Hour).Format(time.RFC3339),
		}}})
	}))
	swept, err := w.renter.Sweep(t.Context(), false)
	must(t, err)
	if len(swept.Costs) != 1 || !strings.HasPrefix(swept.Costs[0], "about $40.") { // to its deadline
		t.Errorf("two hours cost %v", swept.Costs)
	}
}

// TestBilled: where the provider tells from when until when a box is billed, by its own clock, its time is that; where it does not tell
// the end, until it was seen to be gone, which is no less.
func TestBilled(t *testing.T) {
	for _, ahead := range []time.Duration{0, -time.Hour, time.Hour} {
		for _, forgets := range []bool{false, true} {
			w := newWorld(t, func(a *provider.Account) {
				a.Can.Cost, a.Ahead, a.Forgets, a.Slow = false, ahead, forgets, 100*time.Millisecond
			})
			rental, err := w.renter.Rent(t.Context(), w.ask)
			must(t, err)
			must(t, w.renter.Release(t.Context(), rental))
			b := w.look().Boxes[1]
			billed, held := b.GoneAt.Sub(b.BilledFrom), rental.Ended.Sub(rental.Since())
			if !forgets && held != billed || held < billed || rental.Ended.After(time.Now()) || math.Abs(rental.Cost-20*held.Hours()) > 1e-9 {
				t.Errorf("clock %s, forgets %v: billed for %s, held for %s, cost $%v", ahead, forgets, billed, held, rental.Cost)
			}
		}
	}
}

// TestKeepGone: a box that is no more is not kept.
func TestKeepGone(t *testing.T) {
	for _, can := range []protocol.Capabilities{{Deadline: true, List: true, Extend: true}, {Deadline: true, List: true}, {List: true}, {}} {
		for _, keep := range []time.Duration{time.Minute, 2 * time.Hour} { // until its hard end
			w := newWorld(t, func(a *provider.Account) { a.Can = can })
			rental, err := w.renter.Rent(t.Context(), w.ask)
			must(t, err)
			must(t, provider.Change(w.account, func(a *provider.Account) { a.Boxes[1].End(time.Now()) }))
			if err := w.renter.Keep(t.Context(), rental, keep); !errors.Is(err, ErrLost) || rental.Stage != Over {
				t.Errorf("%+v, for %s: %v: %+v", can, keep, err, rental)
			}
		}
	}
}

// TestClocks: what a program takes to answer is no difference of clocks.
func TestClocks(t *testing.T) {
	for _, ahead := range []time.Duration{0, -time.Hour, time.Hour} {
		w := newWorld(t, func(a *provider.Account) { a.Ahead, a.Slow = ahead, 100*time.Millisecond })
		_, got, err := w.renter.Capabilities(t.Context(), nil)
		if err != nil || got.Abs() > ahead.Abs() || ahead != 0 && got.Round(time.Hour) != ahead {
			t.Errorf("a clock that is %s ahead seems to be by %s: %v", ahead, got, err)
		}
	}
}

// TestPatientRelease: an answer that did not come leaves no box until its hard end, whatever was asked.
func TestPatientRelease(t *testing.T) {
	for _, verb := range []string{protocol.Capable, protocol.Delete, protocol.Status, protocol.List} {
		for name, end := range map[string]func(*Renter, *Rental) error{
			"release": func(r *Renter, t *Rental) error { return r.Release(context.Background(), t) },
			"settle":  func(r *Renter, t *Rental) error { return r.Settle(context.Background(), t) },
			"unsure": func(r *Renter, t *Rental) error {
				t.Box, t.Stage = protocol.Box{}, Asked
				return r.Settle(context.Background(), t)
			},
			"keep": func(r *Renter, t *Rental) error {
				return errors.Join(r.Keep(context.Background(), t, time.Minute), r.Release(context.Background(), t))
			},
		} {
			w := newWorld(t, nil)
			rental, err := w.renter.Rent(t.Context(), w.ask)
			must(t, err)
			self := w.renter.Plugin.Path
			w.renter.Plugin.Path = filepath.Join(t.TempDir(), "hcl-rent-fails")
			must(t, os.WriteFile(w.renter.Plugin.Path, []byte("#!/bin/sh\nif [ \"$1\" = "+verb+" ] && mkdir \"$0.failed\" 2>/dev/null; then kill -9 $$; fi\nexec '"+self+"' \"$@\"\n"), 0o700))
			if err := end(w.renter, rental); err != nil || len(w.living()) > 0 {
				t.Errorf("%s, where %s fails once: %v, %v live", name, verb, err, w.living())
			}
		}
	}
}

// TestLostEnds: a program that is asked whether the box is there comes to its end when nobody wants to know it any more.
func TestLostEnds(t *testing.T) {
	w := newWorld(t, nil)
	dir := t.TempDir()
	path := filepath.Join(dir, "plugin")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\necho > \"$HCL_RENT_DIR/ended\"\n"), 0o700))
	w.renter.Plugin = &Plugin{Name: "fake", Path: path, Dir: dir}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.renter.Lost(ctx, &Rental{Request: "hcl-1", Plugin: "fake", Box: protocol.Box{ID: "b-1"}}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
		t.Error(err)
	}
}

// TestBudget: what a lab may have to pay at any time is within its money: what was asked for may be there though nobody knows it.
func TestBudget(t *testing.T) {
	w := newWorld(t, nil, provider.LostBefore)
	w.renter.Sure.Total = time.Millisecond
	w.ask.MaxMoney = 39
	if _, err := w.renter.Rent(t.Context(), w.ask); !errors.Is(err, ErrUnsure) {
		t.Fatal(err)
	}
	w.ask.Run, w.ask.Host = "run-2", "other"
	_, err := w.renter.Rent(t.Context(), w.ask)
	if want := "max_money is $39.00. This box can cost $20.00, and $20.00 may go to what was rented before (request hcl-"; !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if asked := w.look().Asked[protocol.Create]; asked != 1 {
		t.Errorf("%d boxes were asked for", asked)
	}
	w.ask.MaxMoney = 40
	if _, err := w.renter.Rent(t.Context(), w.ask); !errors.Is(err, ErrUnsure) {
		t.Error(err)
	}

	w = newWorld(t, nil) // what is over has cost the run that had it, and no other
	w.ask.MaxMoney = 20
	box, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, w.renter.Release(t.Context(), box))
	if _, err = w.renter.Rent(t.Context(), w.ask); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	w.ask.Run = "run-2"
	_, err = w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	w.ask.Run, w.ask.Host, w.ask.Lab = "run-3", "other", "another lab"
	_, err = w.renter.Rent(t.Context(), w.ask)
	must(t, err)

	w = newWorld(t, nil) // of an earlier hcl, which has not noted the most money
	must(t, w.renter.Journal.Note(&Rental{Request: "hcl-0", Lab: w.ask.Lab, Asked: time.Now(), Deadline: time.Now().Add(2 * time.Hour), Price: 10, Stage: Kept, Host: "other"}))
	w.ask.MaxMoney = 39
	if _, err = w.renter.Rent(t.Context(), w.ask); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}

	w = newWorld(t, nil) // side by side
	w.ask.MaxMoney = 50
	var wg sync.WaitGroup
	var refused atomic.Int32
	for i := range 5 {
		ask := w.ask
		ask.Host = strconv.Itoa(i)
		wg.Go(func() {
			if _, err := w.renter.Rent(t.Context(), ask); errors.Is(err, ErrBudget) {
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if refused.Load() != 3 || len(w.living()) != 2 {
		t.Errorf("%d were refused, %v live", refused.Load(), w.living())
	}
}

// TestAccount: each second of a box is of one run, that in which it was kept of the run that left it; what is billed beyond is of the
// last; and what the provider says is divided as ours is.
func TestAccount(t *testing.T) {
	w := newWorld(t, func(a *provider.Account) { a.Price = 10 })
	box, err := w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, w.renter.Keep(t.Context(), box, 10*time.Minute))
	w.ask.Run = "run-2"
	box, err = w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, w.renter.Release(t.Context(), box))
	all, err := w.renter.Journal.Rentals()
	must(t, err)
	got := all[0].Account(time.Now().Add(time.Hour)) // when it is long gone
	if len(got) != 2 || got[0].Run != "run-1" || got[1].Run != "run-2" || !got[0].Until.Equal(got[1].From) || !got[1].Until.Equal(all[0].Ended) ||
		!got[0].From.Before(got[0].Until) || !got[1].From.Before(got[1].Until) || all[0].ByUs || math.Abs(got[0].Told+got[1].Told-all[0].Cost) > 1e-9 {
		t.Errorf("%+v of %+v", got, all[0])
	}

	w = newWorld(t, nil) // a price that falls while a box is kept is no less for the run that has left it
	w.ask.Run = "run-1"
	box, err = w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	must(t, w.renter.Keep(t.Context(), box, 20*time.Minute))
	must(t, provider.Change(w.account, func(a *provider.Account) { a.Boxes[1].PricePerHour = 10 }))
	w.ask.Run = "run-2"
	box, err = w.renter.Rent(t.Context(), w.ask)
	must(t, err)
	for i, s := range box.Account(time.Now()) {
		if price := []float64{20, 10}[i]; s.Price != price || math.Abs(s.Cost-price*s.Until.Sub(s.From).Hours()) > 1e-12 {
			t.Errorf("share %+v, want it at $%v", s, price)
		}
	}
	if sum := box.Account(time.Now()); len(sum) != 2 {
		t.Errorf("%+v", sum)
	}

	at := func(minute int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(minute) * time.Minute) }
	r := &Rental{Stage: Over, Price: 60, Ended: at(60), Cost: 66, Shares: []Share{{Run: "a", From: at(0)}, {Run: "b", From: at(15)}, {Run: "c", From: at(45)}}}
	for _, want := range []struct {
		minimum float64 // hours
		ended   time.Time
		cost    []float64
		minutes []float64
		whole   float64
	}{
		{0, at(60), []float64{15, 30, 15}, []float64{15, 30, 15}, 60},
		{2, at(60), []float64{15, 30, 75}, []float64{15, 30, 15}, 120},
		{0, at(30), []float64{15, 15, 0}, []float64{15, 15, 0}, 30}, // by a clock that was set meanwhile
	} {
		r.Minimum, r.Ended = want.minimum, want.ended
		for i, s := range r.Account(at(600)) {
			told := 66 * want.cost[i] / want.whole
			if math.Abs(s.Cost-want.cost[i]) > 1e-9 || s.Until.Sub(s.From).Minutes() != want.minutes[i] || math.Abs(s.Told-told) > 1e-9 {
				t.Errorf("share %s of %v has %v, %v USD, %v told", s.Run, want, s.Until.Sub(s.From), s.Cost, s.Told)
			}
		}
	}
	r = &Rental{Price: 60, Ended: at(60), Shares: []Share{{Run: "a", From: at(30)}, {Run: "b", From: at(10)}}} // taken before it was billed, by a clock that was set
	if got := r.Account(at(600)); got[0].Cost != 0 || got[1].Cost != 30 {
		t.Errorf("%+v", got)
	}
	r = &Rental{Run: "old", Asked: at(0), Price: 60} // of an earlier hcl
	if got := r.Costs(at(30)); got != 30 || r.Account(at(30))[0].Run != "old" {
		t.Errorf("%v: %+v", got, r.Account(at(30)))
	}
}

// rents is somebody who rents a box, and gives it back, until he is killed.
func rents(dir string) {
	w := &world{account: filepath.Join(dir, "account")}
	var env map[string]string
	text, err := os.ReadFile(filepath.Join(dir, "env"))
	if err == nil {
		err = json.Unmarshal(text, &env)
	}
	if err == nil {
		w.renter, err = w.newRenter(env)
	}
	if err != nil {
		panic(err)
	}
	w.renter.Sure.Total = 100 * time.Millisecond
	w.renter.Tell = func(string, ...any) {
		if rand.IntN(6) == 0 { // a moment later
			time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
	}
	for i := 0; ; i++ {
		rental, err := w.renter.Rent(context.Background(), Ask{Host: "h", Lab: "l", Run: fmt.Sprint("run-", i), Want: &provision.Rent{
			Plugin: "fake", TTL: time.Hour, MaxPrice: 30, Boot: 2 * time.Second,
		}})
		if err == nil && i%3 == 2 {
			err = w.renter.Keep(context.Background(), rental, time.Minute)
		} else if err == nil {
			err = w.renter.Release(context.Background(), rental)
		}
		if err != nil && !errors.Is(err, ErrUnsure) {
			fmt.Println(err)
		}
	}
}

// TestLongLine: a box with megabytes of labels does not make the journal unreadable.
func TestLongLine(t *testing.T) {
	j := NewJournal(t.TempDir())
	must(t, j.Note(&Rental{Request: "a", Stage: Made, Box: protocol.Box{Labels: map[string]string{"x": strings.Repeat("x", 2<<20)}}}))
	if all, err := j.Rentals(); err != nil || len(all) != 1 {
		t.Errorf("%d, %v", len(all), err)
	}
}

// TestOddSecret: what is odd of a box is told without secrets, where it is cut, too.
func TestOddSecret(t *testing.T) {
	for _, before := range []string{"", strings.Repeat("x", 74)} {
		for what, change := range map[string]func(*provider.Account){
			"is not the address and user of a host": func(a *provider.Account) { a.User = before + " " + a.Token },
			"is not the IP address of a network":    func(a *provider.Account) { a.Private = before + " " + a.Token },
		} {
			w := newWorld(t, change)
			_, err := w.renter.Rent(t.Context(), w.ask)
			if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "secre") {
				t.Error(err)
			}
		}
	}
}

// TestCutSecret: of a secret that stands where words are cut nothing is told either.
func TestCutSecret(t *testing.T) {
	w := newWorld(t, nil)
	w.renter.Plugin.Path = filepath.Join(t.TempDir(), "hcl-rent-cut")
	for _, around := range [][2]int{{10, 1014}, {10, 2038}, {64<<10 - 20, 1}} {
		script := fmt.Sprintf("#!/bin/sh\nprintf 'the token %%0*d%%s%%0*d' %d 0 \"$PROVIDER_TOKEN\" %d 0 >&2\nexit 1\n", around[0], around[1])
		must(t, os.WriteFile(w.renter.Plugin.Path, []byte(script), 0o700))
		if _, _, err := w.renter.Capabilities(t.Context(), nil); err == nil || strings.Contains(err.Error(), "secre") || strings.Contains(err.Error(), "he-account") {
			t.Error(around, err)
		}
	}
}

// TestKills kills those who rent, and the programs that do it for them, at any moment. No box is there when its time is
// over, none is made twice, none of others is touched.
func TestKills(t *testing.T) { kills(t, 9) }

// TestSlowKills does so more often, or so often as RENT_KILLS says.
func TestSlowKills(t *testing.T) {
	times, err := strconv.Atoi(cmp.Or(os.Getenv("RENT_KILLS"), "90"))
	must(t, err)
	kills(t, times)
}

func kills(t *testing.T, times int) {
	for _, can := range []protocol.Capabilities{{List: true, Extend: true, Cost: true}, {}, {Deadline: true, List: true}} {
		w := newWorld(t, func(a *provider.Account) { a.Can, a.GPUs = can, "" }, provider.Dies)
		dir := filepath.Dir(w.account)
		env := map[string]string{}
		for _, v := range w.renter.Plugin.Env {
			env[v.Name] = v.Value.Reveal()
		}
		text, err := json.Marshal(env)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "env"), text, 0o600))
		for range times / 3 {
			self, err := os.Executable()
			must(t, err)
			caller := exec.Command(self)
			caller.Env = append(os.Environ(), "RENTS_IN="+dir)
			if err := caller.Run(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatal(err)
			}
			if rand.IntN(3) > 0 {
				continue // the next one finds what this one has left
			}
			must(t, provider.Change(w.account, func(a *provider.Account) { a.Ahead += 61 * time.Minute }))
			w.swept()
		}
		must(t, provider.Change(w.account, func(a *provider.Account) { a.Ahead += 61 * time.Minute }))
		w.swept()
		made := map[string]int{}
		for _, b := range w.look().Boxes[1:] {
			if made[b.Request]++; made[b.Request] > 1 {
				t.Errorf("there were two boxes of request %s", b.Request)
			}
		}
		t.Logf("%+v: %d boxes", can, len(made))
		rentals, err := w.renter.Journal.Rentals()
		must(t, err)
		for _, r := range rentals {
			if r.Stage == Over && r.Cost > r.Most*1.1 { // the clock was set on by 61 minutes
				t.Errorf("%s has cost $%.2f, and could cost $%.2f", r, r.Cost, r.Most)
			}
		}
		if len(made) < times/20 {
			t.Errorf("only %d boxes were made: nothing was tried", len(made))
		}
	}
}

// swept is that sweep, which is tried again where its own program is killed, leaves nothing whose time is over.
func (w *world) swept() {
	w.Helper()
	var err error
	for range 50 {
		if _, err = w.renter.Sweep(w.Context(), false); err == nil {
			break
		}
	}
	if left := w.living(); err != nil || len(left) > 0 {
		w.Errorf("%v are there though their time is over: %v", left, err)
	}
}
