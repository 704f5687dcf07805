package place

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"hclbench/agent"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/rent"
	"hclbench/provision/rent/protocol"
)

// TestPassOn: a log that is shown has no secret and nothing for the terminal in it, and
// where it breaks off that is said.
func TestPassOn(t *testing.T) {
	var said strings.Builder
	write := func(b []byte) error { said.Write(b); return nil }
	secrets := plain.NewSecrets("hush-hush")
	err := passOn(strings.NewReader("one\x1b]0;title\x07 hush-hush\nlast"), write, secrets)
	if want := "one (sensitive)\nlast"; err != nil || said.String() != want {
		t.Errorf("passOn = %v, wrote %q, want %q", err, said.String(), want)
	}
	for _, before := range []int{0, 1, 5, 10} { // wherever a line that is too long is taken apart
		said.Reset()
		long := strings.Repeat("x", longestLine-before) + "hush-hush" + strings.Repeat("y", longestLine)
		if err := passOn(strings.NewReader(long), write, secrets); err != nil || strings.Contains(said.String(), "hush") || said.Len() != len(long)+2 {
			t.Errorf("%d bytes before the end of a piece: %v, %d bytes, want %d", before, err, said.Len(), len(long)+2)
		}
	}
	lost := io.MultiReader(strings.NewReader("one\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err := passOn(lost, write, secrets); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "breaks off") {
		t.Errorf("of a connection that is lost: %v", err)
	}
}

func TestCommand(t *testing.T) {
	if got, want := command([]string{"/home/a b/hcl", "calibrate", "--streams", "$(id)"}), `'/home/a b/hcl' calibrate --streams '$(id)'`; got != want {
		t.Errorf("command = %s, want %s", got, want)
	}
}

// TestStatusOfAKilledAgent: what stands in the note of an agent that is no more is shown, unless the machine was booted since.
func TestStatusOfAKilledAgent(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	c, err := dial(t.Context(), &provision.Host{Name: "here", Address: provision.LocalAddress, Runtime: provision.Process}, Options{}.Filled())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Conn.Close()
	dir := agent.Dir(c.Conn, "lab")
	boot, err := c.Conn.Run(t.Context(), "mkdir -p "+dir+"; cat /proc/sys/kernel/random/boot_id", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, booted := range []string{strings.TrimSpace(boot), "before"} {
		note := fmt.Sprintf(`{"boot": %q, "members": [
			{"name": "p", "runtime": "process", "labels": {"hcl.run": "r", "hcl.engine": "vllm.e"}}, {"name": "c", "runtime": "docker"}]}`, booted)
		if err := os.WriteFile(filepath.Join(dir, "claim.json"), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Scope{Lab: "lab"}.status(t.Context(), c)
		if err != nil || booted == "before" != (len(p.Processes) == 0) {
			t.Errorf("status = %+v, %v", p.Processes, err)
		}
		for _, f := range p.Processes {
			if f.Name != "p" || f.Labels["hcl.engine"] != "vllm.e" || f.State != "left by an agent that was killed" {
				t.Errorf("status = %+v", f)
			}
		}
	}
}

// TestStatusOfAnotherLab: a box that another lab of the same directory has rented for a host of the same name is not this lab's.
func TestStatusOfAnotherLab(t *testing.T) {
	journal := rent.NewJournal(t.TempDir())
	for _, lab := range []string{"ours", "another", "bench"} {
		err := journal.Note(&rent.Rental{Request: "hcl-" + lab, Plugin: "fake", Host: "box", Lab: lab, Run: "run-1", Stage: rent.Made, Box: protocol.Box{ID: lab, State: protocol.Pending}})
		if err != nil {
			t.Fatal(err)
		}
	}
	hosts := []*provision.Host{{Name: "box", Rent: &provision.Rent{Plugin: "fake"}}}
	for lab, want := range map[string]string{"ours": "ours", "another": "another", "bench": "bench", "third": ""} {
		all, err := Status(t.Context(), Scope{Lab: lab, Hosts: hosts}, Options{Rent: journal})
		if err != nil || len(all) != 1 {
			t.Fatalf("%v: %+v", err, all)
		}
		got := ""
		if all[0].Rental != nil {
			got = all[0].Rental.Box.ID
		}
		if got != want {
			t.Errorf("lab %s has box %q, want %q", lab, got, want)
		}
	}
}
