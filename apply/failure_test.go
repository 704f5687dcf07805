package apply

import (
	"errors"
	"strings"
	"testing"

	"hclbench/provision"
)

// TestFailures: each part of what was joined has its scope, and a sentence of several
// errors is one part.
func TestFailures(t *testing.T) {
	h := &provision.Host{Name: "box"}
	err := errors.Join(errors.New("no token"), errors.Join(failed(ofHost, h, errors.Join(errors.New("unclean"), errors.New("still"))), failed(ofRun, nil, nil)), failed(ofTrial, h, errors.New("lost")))
	var got []string
	for _, f := range failures(err, ofCell) {
		got = append(got, []string{"cell", "start", "deployment", "sender", "host", "run"}[f.scope]+": "+strings.ReplaceAll(f.Error(), "\n", "; "))
	}
	want := "cell: no token | host: unclean; still | sender: lost"
	if s := strings.Join(got, " | "); s != want {
		t.Errorf("failures = %s, want %s", s, want)
	}
	if failures(nil, ofRun) != nil || full(h, nil) != nil || full(h, errors.New("no model")) != nil {
		t.Error("nothing has failed")
	}
	if err := full(h, errors.New("write /root/.cache/hcl/x: no space left on device")); err == nil {
		t.Errorf("full = %v", err)
	}
}
