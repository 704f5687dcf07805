package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hclbench/flow"
	"hclbench/provision"
	"hclbench/provision/rent"
	"hclbench/provision/rent/protocol"
)

// TestMain makes the test binary the program, where hcl runs it as one.
func TestMain(m *testing.M) {
	if os.Getenv("SHADEFORM_URL") != "" {
		main()
	}
	os.Exit(m.Run())
}

const secret = "key-of-the-account"

// account is a fake of the API, as its reference has it.
type account struct {
	*testing.T
	mu        sync.Mutex
	ahead     time.Duration // its clock
	fault     string        // of a create: "lost", "quota", "garbage", "megabytes"; of a box: "no end"; of a key: "two at once"; of a delete: "stays"
	instances []map[string]any
	creates   []map[string]any
	keys      []map[string]string
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(a.ahead).UTC().Format(http.TimeFormat))
	say := func(status int, what any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(what)
	}
	if r.Header.Get("X-API-KEY") != secret {
		say(401, map[string]string{"error": "the key " + r.Header.Get("X-API-KEY") + " is not valid"})
		return
	}
	var body map[string]any
	if r.Method == "POST" && r.ContentLength > 0 {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			a.Errorf("%s: %v", r.URL, err)
		}
	}
	id, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/instances/"), "/")
	var mine map[string]any
	for _, i := range a.instances {
		if i["id"] == id {
			mine = i
		}
	}
	switch what := r.Method + " " + r.URL.Path; {
	case what == "GET /v1/instances/types":
		fmt.Fprint(w, `{"instance_types": [
			{"cloud": "dear", "shade_instance_type": "H200x8", "hourly_price": 4000, "configuration": {"num_gpus": 8, "gpu_type": "H200"}, "availability": [{"region": "x", "available": true}]},
			{"cloud": "vultr", "shade_instance_type": "H200x8", "hourly_price": 2550, "configuration": {"num_gpus": 8, "gpu_type": "H200"},
			 "availability": [{"region": "r1", "available": false}, {"region": "r2", "available": true}]},
			{"cloud": "pods", "shade_instance_type": "H200x8", "hourly_price": 100, "deployment_type": "container", "configuration": {"num_gpus": 8, "gpu_type": "H200"}, "availability": [{"region": "x", "available": true}]},
			{"cloud": "old", "shade_instance_type": "A100_80Gx8", "hourly_price": 900, "configuration": {"num_gpus": 8, "gpu_type": "A100_80G"}, "availability": [{"region": "x", "available": true}]}]}`)
	case what == "GET /v1/instances":
		living := []map[string]any{}
		for _, i := range a.instances {
			if i["status"] != "deleted" {
				living = append(living, i)
			}
		}
		say(200, map[string]any{"instances": living})
	case what == "GET /v1/sshkeys":
		say(200, map[string]any{"ssh_keys": a.keys})
	case what == "POST /v1/sshkeys/add":
		add := func() bool { // no name or key twice
			for _, key := range a.keys {
				if key["name"] == body["name"] || key["public_key"] == body["public_key"] {
					return false
				}
			}
			a.keys = append(a.keys, map[string]string{"id": fmt.Sprint("key-", len(a.keys)), "name": fmt.Sprint(body["name"]), "public_key": fmt.Sprint(body["public_key"])})
			return true
		}
		if a.fault == "two at once" {
			add()
		}
		if !add() {
			say(409, map[string]string{"error": "there is such a key"})
			return
		}
		say(200, a.keys[len(a.keys)-1])
	case what == "POST /v1/instances/create":
		a.creates = append(a.creates, body)
		if a.fault == "quota" {
			say(400, map[string]string{"error": "your quota is used up"})
			return
		}
		i := map[string]any{
			"id": fmt.Sprint("d290f1ee-", len(a.instances)), "name": body["name"], "tags": body["tags"], "auto_delete": body["auto_delete"], "status": "pending",
			"hourly_price": 2550, "created_at": time.Now().UTC().Format(time.RFC3339Nano), "ip": "", "ssh_user": "shadeform", "ssh_port": 2222,
		}
		if a.fault == "no end" {
			delete(i, "auto_delete")
		}
		a.instances = append(a.instances, i)
		switch a.fault {
		case "lost":
			panic(http.ErrAbortHandler)
		case "garbage":
			fmt.Fprint(w, "<html>502 Bad Gateway</html>")
		case "megabytes":
			fmt.Fprint(w, strings.Repeat(" ", 5<<20))
		default:
			say(200, map[string]any{"id": i["id"], "cloud_assigned_id": "x"})
		}
	case mine == nil || mine["status"] == "deleted":
		say(404, map[string]string{"error": "no such instance"})
	case verb == "info":
		say(200, mine)
		switch mine["status"] { // each question brings it on
		case "pending":
			mine["status"], mine["ip"] = "active", "192.0.2.1"
		case "deleting":
			if a.fault != "stays" {
				mine["status"] = "deleted"
			}
		}
	case verb == "delete":
		mine["status"] = "deleting"
		w.WriteHeader(200)
	case verb == "update":
		mine["auto_delete"], mine["tags"] = body["auto_delete"], body["tags"]
		w.WriteHeader(200)
	default:
		a.Errorf("no such call: %s", what)
	}
}

func (a *account) living() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range a.instances {
		if i["status"] != "deleted" {
			n++
		}
	}
	return n
}

// newRenter rents from a fake, through the program, as hcl does.
func newRenter(t *testing.T, fault, key string) (*account, *rent.Renter, rent.Ask) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &account{T: t, fault: fault}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	patience := flow.Patience{First: time.Millisecond, Most: 50 * time.Millisecond, Total: 5 * time.Minute}
	sure := patience
	if fault == "quota" { // nobody will find a box: this is all the time that is looked for one
		sure.Total = time.Second
	}
	r := &rent.Renter{
		Plugin: &rent.Plugin{Name: "shadeform", Path: self, Dir: dir, Env: []provision.EnvVar{
			{Name: "SHADEFORM_URL", Value: provision.Plain(server.URL + "/v1")}, {Name: "SHADEFORM_API_KEY", Value: provision.Secret(key)},
		}},
		Journal: rent.NewJournal(filepath.Join(dir, "rent")), Poll: patience, Sure: sure, Tell: t.Logf,
	}
	return a, r, rent.Ask{Host: "h200", Lab: "lab", Run: "run-1", GPUs: "8xH200", PublicKey: "ssh-ed25519 AAAA me@here", Want: &provision.Rent{
		Plugin: "shadeform", TTL: time.Hour, MaxPrice: 30, Boot: 5 * time.Minute, Spec: map[string]string{"os": "ubuntu22"},
	}}
}

// TestRent: the cheapest box that fits comes with its hard end, bears its request, has its end moved, and is gone at last; so
// where the reply to its create was lost, or cannot be read.
func TestRent(t *testing.T) {
	for _, fault := range []string{"", "lost", "garbage", "megabytes"} {
		t.Run(fault, func(t *testing.T) {
			a, r, ask := newRenter(t, fault, secret)
			rental, err := r.Rent(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.creates) != 1 || len(a.keys) != 1 {
				t.Fatalf("%d creates, %d keys", len(a.creates), len(a.keys))
			}
			c := a.creates[0]
			end := c["auto_delete"].(map[string]any)
			at, err := time.Parse(time.RFC3339, end["date_threshold"].(string))
			if err != nil || !at.Equal(rental.Deadline) || end["spend_threshold"] != fmt.Sprintf("%.2f", ask.Want.MostMoney()) {
				t.Errorf("ends by %v, and was to at %s for %.2f: %v", end, rental.Deadline, ask.Want.MostMoney(), err)
			}
			if c["cloud"] != "vultr" || c["region"] != "r2" || c["os"] != "ubuntu22" || c["name"] != rental.Request || c["ssh_key_id"] != "key-0" {
				t.Errorf("asked for %v", c)
			}
			b := rental.Box
			if b.State != protocol.Running || b.Address != "192.0.2.1:2222" || b.User != "shadeform" || b.PricePerHour != 25.5 || rental.Price != 25.5 || b.BilledFrom.IsZero() {
				t.Errorf("%+v", b)
			}
			if b.Labels[protocol.LabelRequest] != rental.Request || b.Labels[protocol.LabelLab] != "lab" || b.Labels[protocol.LabelExpires] == "" {
				t.Errorf("labels %v", b.Labels)
			}
			if err := r.Keep(t.Context(), rental, 10*time.Minute); err != nil {
				t.Fatal(err)
			}
			if b := rental.Box; !b.Deadline.Equal(rental.Deadline) || !b.Deadline.Before(at) || a.instances[0]["auto_delete"].(map[string]any)["spend_threshold"] != end["spend_threshold"] {
				t.Errorf("kept until %s, by Shadeform %s: %v", rental.Deadline, b.Deadline, a.instances[0])
			}
			if err := r.Release(t.Context(), rental); err != nil || a.living() != 0 {
				t.Errorf("%d are left: %v", a.living(), err)
			}
			if until := rental.Box.BilledUntil; until.IsZero() || rental.Ended.After(time.Now()) {
				t.Errorf("billed until %s, and ended at %s", until, rental.Ended)
			}
		})
	}
}

// TestBilledOnce: a box is billed until it was to be deleted first, whenever it is to be deleted again; but not if it has run since.
func TestBilledOnce(t *testing.T) {
	for _, runs := range []bool{false, true} {
		a, r, ask := newRenter(t, "", secret)
		if _, err := r.Rent(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		var until []time.Time
		for i, ahead := range []time.Duration{0, 2 * time.Hour, 3 * time.Hour} {
			last := i == 2
			a.mu.Lock()
			if a.ahead, a.fault = ahead, "stays"; last {
				a.fault = ""
			}
			if runs && i == 1 {
				a.instances[0]["status"] = "active"
			}
			a.mu.Unlock()
			if r.Poll.Total = 100 * time.Millisecond; last {
				r.Poll.Total = 5 * time.Minute
			}
			all, err := r.Journal.Rentals()
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				_, err = r.Sweep(t.Context(), false)
			} else {
				err = r.Release(t.Context(), all[0])
			}
			if (err == nil) != last {
				t.Fatalf("after %s: %v", ahead, err)
			}
			if all, err = r.Journal.Rentals(); err != nil {
				t.Fatal(err)
			}
			until = append(until, all[0].Box.BilledUntil)
		}
		if until[0].IsZero() || !until[1].Equal(until[2]) || until[0].Equal(until[1]) == runs {
			t.Errorf("it runs between the first two: %t; billed until %s", runs, until)
		}
	}
}

// TestKeys: a key is added once, also by two at the same time, and beside those of other labs.
func TestKeys(t *testing.T) {
	a, r, ask := newRenter(t, "two at once", secret)
	for i, public := range []string{"ssh-ed25519 AAAA me@here", "ssh-ed25519 BBBB me@here", "ssh-ed25519 AAAA me@there"} {
		ask.Host, ask.PublicKey = fmt.Sprint("host-", i), public
		if _, err := r.Rent(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		if got, want := a.creates[i]["ssh_key_id"], []string{"key-0", "key-1", "key-0"}[i]; got != want {
			t.Errorf("%s is %v, want %s: %v", public, got, want, a.keys)
		}
	}
	if len(a.keys) != 2 {
		t.Errorf("%v", a.keys)
	}
}

// TestNothingIsLeft: a create that fails makes nobody sure of anything, a box without an end is given back, and a key that is
// not valid is refused and not told.
func TestNothingIsLeft(t *testing.T) {
	a, r, ask := newRenter(t, "quota", secret)
	if _, err := r.Rent(t.Context(), ask); !errors.Is(err, rent.ErrUnsure) || !strings.Contains(err.Error(), "your quota is used up") || len(a.creates) != 1 {
		t.Errorf("%d creates: %v", len(a.creates), err)
	}
	a, r, ask = newRenter(t, "no end", secret)
	if _, err := r.Rent(t.Context(), ask); err == nil || !strings.Contains(err.Error(), "tells no end") || len(a.instances) != 1 || a.living() != 0 {
		t.Errorf("%d of %d are left: %v", a.living(), len(a.instances), err)
	}
	a, r, ask = newRenter(t, "", "not-the-key")
	_, err := r.Rent(t.Context(), ask)
	if told, is := errors.AsType[*protocol.Error](err); !is || told.Code != protocol.Refused || strings.Contains(err.Error(), "not-the-key") || len(a.creates) != 0 {
		t.Errorf("%d creates: %v", len(a.creates), err)
	}
	_, r, ask = newRenter(t, "", secret)
	ask.Want.Spec = map[string]string{"gpus": "8"}
	if _, err := r.Rent(t.Context(), ask); err == nil || !strings.Contains(err.Error(), `not "gpus"`) {
		t.Error(err)
	}
}
