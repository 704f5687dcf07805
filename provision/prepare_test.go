package provision

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/testhost"
)

// sysctl is a kernel's parameter that no other test shares.
const sysctl = `#!/bin/sh
state=${0%/bin/*}/numa
case $* in
"-n kernel.numa_balancing") cat "$state" 2>/dev/null || echo 1 ;;
"-q -w kernel.numa_balancing="?)
	[ "$(id -u)" = 0 ] || { echo "sysctl: permission denied on key \"kernel.numa_balancing\"" >&2; exit 255; }
	echo "${3#*=}" >"$state" ;;
*) exit 1 ;;
esac
`

// TestPrepare sets everything that can be set, and puts it back.
func TestPrepare(t *testing.T) {
	on, off := true, false
	for _, box := range []struct {
		gpu, login string
		vendor     Vendor
		want       Prepare
		changes    []string
	}{
		{"8xH200", "ada", NVIDIA, Prepare{PersistenceMode: &on, PowerCap: 600, LockClocks: 1500, NUMABalancing: &off, ECC: &on}, []string{
			"persistence mode of GPU 0, 5: off → on", "power limit of GPU 0-2, 4-7: 700 W → 600 W", "power limit of GPU 3: 500 W → 600 W", "clocks of GPU 0-7: free → 1500 MHz", "numa balancing: on → off"}},
		{"8xMI300X", "", AMD, Prepare{PowerCap: 600, LockClocks: 1900, NUMABalancing: &off}, []string{
			"power limit of GPU 0-7: 750 W → 600 W", "clocks of GPU 0-7: free → 1900 MHz", "numa balancing: on → off"}},
	} {
		h := testhost.New(t, testhost.Options{GPU: box.gpu, Login: box.login, Sudo: box.login != ""})
		if err := h.Install("sysctl", sysctl); err != nil {
			t.Fatal(err)
		}
		if box.vendor == NVIDIA {
			if err := h.SayGPUs(testhost.GPUField{GPU: 0, Field: "persistence_mode", Value: "Disabled"}, testhost.GPUField{GPU: 5, Field: "persistence_mode", Value: "Disabled"},
				testhost.GPUField{GPU: 3, Field: "power.limit", Value: "500.00"}); err != nil {
				t.Fatal(err)
			}
		}
		b := block(h)
		b.Runtime, b.GPUs = Process, GPUs{8, strings.TrimPrefix(box.gpu, "8x"), box.vendor}
		c := mustDial(t, b, strict(h))
		state := func() map[string]string {
			t.Helper()
			now, err := c.Condition(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return settings(now)
		}
		before := state()

		var noted []Change
		changes, err := c.Prepare(t.Context(), box.want, func(all []Change) error {
			if diff := cmp.Diff(before, state()); diff != "" {
				t.Errorf("changed before it was noted:\n%s", diff)
			}
			noted = all
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range changes {
			got = append(got, x.String())
		}
		if diff := cmp.Diff(box.changes, got); diff != "" {
			t.Errorf("%s: changes (-want +got):\n%s", box.gpu, diff)
		}
		if now := state(); now["power limit"] != "600 W" || now["clocks"] == "free" || now["numa balancing"] != "off" || box.vendor == NVIDIA && now["persistence mode"] != "on" {
			t.Errorf("%s: after it is set: %v", box.gpu, now)
		}
		if again, err := c.Prepare(t.Context(), Prepare{PowerCap: 600}, nil); err != nil || again != nil {
			t.Errorf("what is set already: %v, %v", again, err)
		}
		if err := c.Restore(t.Context(), noted); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("%s: put back (-before +after):\n%s", box.gpu, diff)
		}
		if box.vendor == AMD {
			if _, err := c.Prepare(t.Context(), Prepare{ECC: &off}, nil); err == nil || !strings.Contains(err.Error(), "on AMD it is the firmware's") {
				t.Errorf("ecc on AMD: %v", err)
			}
			continue
		}

		// What the tool refuses, what takes a reset, and a login that may not.
		_, err = c.Prepare(t.Context(), Prepare{PersistenceMode: &on, PowerCap: 900}, func([]Change) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "between 200.00 W and 700.00 W") {
			t.Errorf("too high a cap: %v", err)
		}
		if err := c.Restore(t.Context(), noted); err != nil {
			t.Error(err)
		}
		_, err = c.Prepare(t.Context(), Prepare{ECC: &off, PowerCap: 600}, nil)
		if err == nil || !strings.Contains(err.Error(), "ecc of GPU 7 is on, where off is wanted") || !strings.Contains(err.Error(), "persistence mode of GPU 5 is off") || !strings.Contains(err.Error(), "host h200 (lab.hcl:12)") {
			t.Errorf("what cannot be set: %v", err)
		}
		refuses := errors.New("no room")
		if _, err = c.Prepare(t.Context(), Prepare{NUMABalancing: &off}, func([]Change) error { return refuses }); !errors.Is(err, refuses) {
			t.Errorf("a note that fails: %v", err)
		}
		if err := h.Install("sudo", "#!/bin/sh\necho sudo: a password is required >&2\nexit 1\n"); err != nil {
			t.Fatal(err)
		}
		_, err = c.Prepare(t.Context(), box.want, func([]Change) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "Insufficient Permissions") || !strings.Contains(err.Error(), "a password is required") || !strings.Contains(err.Error(), "-pm 1") {
			t.Errorf("without permission: %v", err)
		}
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("in the end (-before +after):\n%s", diff)
		}
	}
}

func TestSteps(t *testing.T) {
	on := true
	p := &Prepare{PersistenceMode: &on, PowerCap: 600, LockClocks: 1500, ECC: &on}
	want := []string{
		"persistence mode on: `nvidia-smi -i 0,1 -pm 1`, then back to what it was",
		"power limit 600 W: `nvidia-smi -i 0,1 -pl 600`, then back to what it was",
		"clocks 1500 MHz: `nvidia-smi -i 0,1 -lgc 1500,1500`, then `nvidia-smi -i 0,1 -rgc`",
		"ecc on: checked, as setting it takes a reset",
	}
	if diff := cmp.Diff(want, p.Steps(GPUs{2, "H200", NVIDIA})); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}
