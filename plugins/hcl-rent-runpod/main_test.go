package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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
	if os.Getenv("RUNPOD_URL") != "" {
		main()
	}
	os.Exit(m.Run())
}

const secret = "key-of-the-account"

// account is a fake of both APIs, as their references have them.
type account struct {
	*testing.T
	mu      sync.Mutex
	fault   string // of a create: "lost", "no stock", "garbage", "megabytes"
	pods    []map[string]any
	creates []map[string]any
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	say := func(status int, what any) {
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(what)
	}
	if key := r.Header.Get("Authorization"); key != "Bearer "+secret {
		say(401, map[string]string{"error": key + " is not valid"})
		return
	}
	at := slices.IndexFunc(a.pods, func(p map[string]any) bool { return "/v1/pods/"+p["id"].(string) == r.URL.Path })
	switch {
	case r.URL.Path == "/graphql":
		var asked struct {
			Query     string
			Variables struct{ Input map[string]any }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			a.Error(err)
		}
		if strings.Contains(asked.Query, "myself") {
			fmt.Fprint(w, `{"data": {"myself": {"id": "user_2x"}}}`)
			return
		}
		if strings.HasPrefix(asked.Query, "query") {
			fmt.Fprint(w, `{"data": {"gpuTypes": [{"id": "NVIDIA L4", "securePrice": 0.4, "lowestPrice": {"uninterruptablePrice": 0.4}},
				{"id": "NVIDIA H200", "securePrice": 3.5, "lowestPrice": {"uninterruptablePrice": 3.2}}, {"id": "AMD Instinct MI300X OAM", "securePrice": 2, "lowestPrice": {"uninterruptablePrice": null}}]}}`)
			return
		}
		in := asked.Variables.Input
		a.creates = append(a.creates, in)
		if a.fault == "no stock" {
			say(200, map[string]any{"errors": []any{map[string]string{"message": "there are no instances"}}, "data": nil})
			return
		}
		env := map[string]any{}
		for _, v := range in["env"].([]any) {
			env[v.(map[string]any)["key"].(string)] = v.(map[string]any)["value"]
		}
		p := map[string]any{"id": fmt.Sprint("xedez", len(a.pods)), "name": in["name"], "env": env, "desiredStatus": "RUNNING", "costPerHr": "7.00",
			"lastStartedAt": time.Now().UTC().Format(time.RFC3339Nano), "publicIp": nil, "portMappings": nil}
		a.pods = append(a.pods, p)
		switch a.fault {
		case "lost":
			panic(http.ErrAbortHandler)
		case "garbage":
			fmt.Fprint(w, "<html>502 Bad Gateway</html>")
		case "megabytes":
			fmt.Fprint(w, strings.Repeat(" ", 5<<20))
		default:
			say(200, map[string]any{"data": map[string]any{"podFindAndDeployOnDemand": map[string]any{"id": p["id"]}}})
		}
	case r.URL.Path == "/v1/pods":
		say(200, append([]map[string]any{}, a.pods...))
	case at < 0:
		say(404, map[string]string{"error": "no such pod"})
	case r.Method == "GET":
		say(200, a.pods[at])
		a.pods[at]["publicIp"], a.pods[at]["portMappings"] = "192.0.2.7", map[string]int{"22": 10341}
	case r.Method == "DELETE":
		a.pods = slices.Delete(a.pods, at, at+1)
		w.WriteHeader(204)
	default:
		a.Errorf("no such call: %s %s", r.Method, r.URL)
	}
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
	if fault == "no stock" { // nobody will find a pod: this is all the time that is looked for one
		sure.Total = time.Second
	}
	r := &rent.Renter{
		Plugin: &rent.Plugin{Name: "runpod", Path: self, Dir: dir, Env: []provision.EnvVar{
			{Name: "RUNPOD_URL", Value: provision.Plain(server.URL)}, {Name: "RUNPOD_API_KEY", Value: provision.Secret(key)},
		}},
		Journal: rent.NewJournal(filepath.Join(dir, "rent")), Poll: patience, Sure: sure, Tell: t.Logf,
	}
	return a, r, rent.Ask{Host: "h200", Lab: "lab", Run: "run-1", GPUs: "2xH200", PublicKey: "ssh-ed25519 AAAA me@here", Want: &provision.Rent{
		Plugin: "runpod", TTL: time.Hour, MaxPrice: 8, Boot: 5 * time.Minute, Spec: map[string]string{"gpu": "NVIDIA H200", "gpus": "2", "image": "runpod/pytorch"},
	}}
}

// TestRent: a pod comes at the price of all its GPUs, with an end that RunPod was asked for, bears its request, and is gone at
// last; so where the reply to its create was lost, or cannot be read.
func TestRent(t *testing.T) {
	for _, fault := range []string{"", "lost", "garbage", "megabytes"} {
		t.Run(fault, func(t *testing.T) {
			a, r, ask := newRenter(t, fault, secret)
			rental, err := r.Rent(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.creates) != 1 {
				t.Fatalf("%d creates", len(a.creates))
			}
			c := a.creates[0]
			if at, err := time.Parse(time.RFC3339, c["terminateAfter"].(string)); err != nil || !at.Equal(rental.Deadline) {
				t.Errorf("ends at %v, not %s: %v", c["terminateAfter"], rental.Deadline, err)
			}
			if c["name"] != rental.Request || c["gpuTypeId"] != "NVIDIA H200" || c["gpuCount"] != 2. || c["cloudType"] != "SECURE" || c["ports"] != "22/tcp" {
				t.Errorf("asked for %v", c)
			}
			b := rental.Box
			if b.State != protocol.Running || b.Address != "192.0.2.7:10341" || b.User != "root" || b.PricePerHour != 7 || rental.Price != 7 || rental.Payer != "user_2x" || b.BilledFrom.IsZero() {
				t.Errorf("%+v", b)
			}
			if b.Labels[protocol.LabelRequest] != rental.Request || b.Labels[protocol.LabelLab] != "lab" || b.Labels[protocol.LabelExpires] == "" {
				t.Errorf("labels %v", b.Labels)
			}
			if err := r.Release(t.Context(), rental); err != nil || len(a.pods) != 0 {
				t.Errorf("%d are left: %v", len(a.pods), err)
			}
		})
	}
}

// TestNothingIsLeft: a create that fails makes nobody sure of anything, and what cannot be had is not asked for.
func TestNothingIsLeft(t *testing.T) {
	a, r, ask := newRenter(t, "no stock", secret)
	if _, err := r.Rent(t.Context(), ask); !errors.Is(err, rent.ErrUnsure) || !strings.Contains(err.Error(), "there are no instances") || len(a.creates) != 1 {
		t.Errorf("%d creates: %v", len(a.creates), err)
	}
	a, r, ask = newRenter(t, "", "not-the-key")
	_, err := r.Rent(t.Context(), ask)
	if told, is := errors.AsType[*protocol.Error](err); !is || told.Code != protocol.Refused || strings.Contains(err.Error(), "not-the-key") || len(a.creates) != 0 {
		t.Errorf("%d creates: %v", len(a.creates), err)
	}
	for spec, want := range map[[2]string]string{
		{"gpu", "AMD Instinct MI300X OAM"}: "has nothing for this spec", {"gpus", "many"}: "which are numbers", {"region", "here"}: `there is no "region"`,
	} {
		a, r, ask = newRenter(t, "", secret)
		ask.Want.Spec[spec[0]] = spec[1]
		if _, err := r.Rent(t.Context(), ask); err == nil || !strings.Contains(err.Error(), want) || len(a.creates) != 0 {
			t.Errorf("%v, %d creates: %v", spec, len(a.creates), err)
		}
	}
}
