package look

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/provision/docker"
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
		vendor     provision.Vendor
		want       provision.Prepare
		changes    []string
	}{
		{"8xH200", "ada", provision.NVIDIA,
			provision.Prepare{PersistenceMode: &on, PowerCap: 600, LockClocks: 1500, NUMABalancing: &off, ECC: &on}, []string{
				"persistence mode of GPU 0, 5: off → on", "power limit of GPU 0-2, 4-7: 700 W → 600 W", "power limit of GPU 3: 500 W → 600 W", "clocks of GPU 0-7: free → 1500 MHz", "numa balancing: on → off"}},
		{"8xMI300X", "", provision.AMD, provision.Prepare{PowerCap: 600, LockClocks: 1900, NUMABalancing: &off}, []string{
			"power limit of GPU 0-7: 750 W → 600 W", "clocks of GPU 0-7: free → 1900 MHz", "numa balancing: on → off"}},
	} {
		h := testhost.New(t, testhost.Options{GPU: box.gpu, Login: box.login, Sudo: box.login != ""})
		testhost.OK(t, h.Install("sysctl", sysctl))
		if box.vendor == provision.NVIDIA {
			testhost.OK(t, h.SayGPUs(testhost.GPUField{GPU: 0, Field: "persistence_mode", Value: "Disabled"},
				testhost.GPUField{GPU: 5, Field: "persistence_mode", Value: "Disabled"},
				testhost.GPUField{GPU: 3, Field: "power.limit", Value: "500.00"}))
		}
		c := process(t, h, box.gpu)
		state := func() map[string]string {
			t.Helper()
			now, err := Condition(t.Context(), c, docker.New(c, nil), nil)
			testhost.OK(t, err)
			return now.Settings()
		}
		before := state()

		var noted []provision.Change
		changes, err := Prepare(t.Context(), c, box.want, func(all []provision.Change) error {
			if diff := cmp.Diff(before, state()); diff != "" {
				t.Errorf("changed before it was noted:\n%s", diff)
			}
			noted = all
			return nil
		})
		testhost.OK(t, err)
		var got []string
		for _, x := range changes {
			got = append(got, x.String())
		}
		if diff := cmp.Diff(box.changes, got); diff != "" {
			t.Errorf("%s: changes (-want +got):\n%s", box.gpu, diff)
		}
		if now := state(); now["power limit"] != "600 W" || now["clocks"] == "free" || now["numa balancing"] != "off" || box.vendor == provision.NVIDIA && now["persistence mode"] != "on" {
			t.Errorf("%s: after it is set: %v", box.gpu, now)
		}
		if again, err := Prepare(t.Context(), c, provision.Prepare{PowerCap: 600}, nil); err != nil || again != nil {
			t.Errorf("what is set already: %v, %v", again, err)
		}
		if err := Restore(t.Context(), c, noted); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("%s: put back (-before +after):\n%s", box.gpu, diff)
		}
		if box.vendor == provision.AMD {
			if _, err := Prepare(t.Context(), c, provision.Prepare{ECC: &off}, nil); err == nil || !strings.Contains(err.Error(), "on AMD it is the firmware's") {
				t.Errorf("ecc on AMD: %v", err)
			}
			continue
		}

		// What the tool refuses, what takes a reset, and a login that may not.
		_, err = Prepare(t.Context(), c, provision.Prepare{PersistenceMode: &on, PowerCap: 900},
			func([]provision.Change) error { return nil })
		testhost.WantError(t, err, nil, "between 200.00 W and 700.00 W")
		if err := Restore(t.Context(), c, noted); err != nil {
			t.Error(err)
		}
		_, err = Prepare(t.Context(), c, provision.Prepare{ECC: &off, PowerCap: 600}, nil)
		testhost.WantError(t, err, nil, "ecc of GPU 7 is on, where off is wanted", "persistence mode of GPU 5 is off", "host h200 (lab.hcl:12)")
		refuses := errors.New("no room")
		if _, err = Prepare(t.Context(), c, provision.Prepare{NUMABalancing: &off}, func([]provision.Change) error { return refuses }); !errors.Is(err, refuses) {
			t.Errorf("a note that fails: %v", err)
		}
		testhost.OK(t, h.Install("sudo", "#!/bin/sh\necho sudo: a password is required >&2\nexit 1\n"))
		_, err = Prepare(t.Context(), c, box.want, func([]provision.Change) error { return nil })
		testhost.WantError(t, err, nil, "Insufficient Permissions", "a password is required", "-pm 1")
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("in the end (-before +after):\n%s", diff)
		}
	}
}

// amdSMITool is amd-smi of ROCm 7 with two GPUs, which ends well also where it refuses.
const amdSMITool = `#!/bin/sh
state=${0%/bin/*}/amd
is() { cat "$state" 2>/dev/null | awk -v gpu="$1" -v name="$2" -v v="$3" '$1 == gpu && $2 == name { v = $3 } END { print v }'; }
say() { printf '{"gpu_data": [{"gpu": 0, %s}, {"gpu": 1, %s}]}\n' "$1" "$2"; }
limit() { printf '"limit": {"ppt0": {"max_power_limit": {"value": 750, "unit": "W"}, "socket_power_limit": {"value": %d, "unit": "W"}}, "ppt1": {"socket_power_limit": "N/A"}}' "$(is "$1" power 750)"; }
level() { printf '"perf_level": "AMDSMI_DEV_PERF_LEVEL_%s"' "$(is "$1" level AUTO)"; }
case $* in
"static --limit --json") say "$(limit 0)" "$(limit 1)" && exit ;;
"metric --perf-level --json") say "$(level 0)" "$(level 1)" && exit ;;
"set --gpu "* | "reset --gpu "*) verb=$1 && shift 2 ;;
*) exit 2 ;;
esac
if [ "$(id -u)" != 0 ]; then
	echo "amdsmi_cli_exceptions.AmdSmiPermissionDeniedException: Command '$verb' requires elevation. Error code: -10"
	exit 10
fi
gpus=
while [ "${1#-}" = "$1" ]; do gpus="$gpus $1" && shift; done
for gpu in $gpus; do
	case "$verb $1" in
	"set --power-cap") [ "$2" -le 750 ] && echo "$gpu power $2" >>"$state" || echo "    POWERCAP: Power cap must be between 1 and 750" ;;
	"set --perf-determinism") [ "$2" != 13 ] && echo "$gpu level DETERMINISM" >>"$state" || echo "    PERFDETERMINISM: [AMDSMI_STATUS_NOT_SUPPORTED] Unable to enable performance determinism" ;;
	"reset --perf-determinism") echo "$gpu level AUTO" >>"$state" ;;
	*) exit 2 ;;
	esac
done
`

// TestPrepareByAMDSMI is a host where rocm-smi is no more: what is set is read back, as
// the tool ends well where it refuses, and put back.
func TestPrepareByAMDSMI(t *testing.T) {
	h := testhost.New(t, testhost.Options{GPU: "8xMI300X", Login: "ada", Sudo: true})
	testhost.OK(t, os.Remove(filepath.Join(h.Dir, "bin", "rocm-smi")))
	testhost.OK(t, h.Install("amd-smi", amdSMITool))
	c := process(t, h, "2xMI300X")
	state := func() []provision.GPUCondition {
		t.Helper()
		now, err := Condition(t.Context(), c, docker.New(c, nil), nil)
		if err != nil || now.Problems != nil {
			t.Fatalf("%v, %q", err, now.Problems)
		}
		return now.GPUs
	}
	before := []provision.GPUCondition{{PowerLimit: 750, Level: "auto"}, {PowerLimit: 750, Level: "auto"}}
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	var noted []provision.Change
	note := func(all []provision.Change) error { noted = all; return nil }
	changes, err := Prepare(t.Context(), c, provision.Prepare{PowerCap: 600, LockClocks: 1900}, note)
	testhost.OK(t, err)
	var got []string
	for _, x := range changes {
		got = append(got, strings.Join(x.Set, " ")+"; "+strings.Join(x.Undo, " "))
	}
	if diff := cmp.Diff([]string{"amd-smi set --gpu 0 1 --power-cap 600; amd-smi set --gpu 0 1 --power-cap 750",
		"amd-smi set --gpu 0 1 --perf-determinism 1900; amd-smi reset --gpu 0 1 --perf-determinism"}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]provision.GPUCondition{{PowerLimit: 600, Level: "determinism"}, {PowerLimit: 600, Level: "determinism"}}, state()); diff != "" {
		t.Errorf("prepared (-want +got):\n%s", diff)
	}
	if err := Restore(t.Context(), c, noted); err != nil {
		t.Error(err)
	}
	for _, refused := range []struct {
		want provision.Prepare
		says string
	}{
		{provision.Prepare{PowerCap: 900},
			"power limit is 750 W, although it was set to 900 W by `amd-smi set --gpu 0 1 --power-cap 900`, which said: POWERCAP: Power cap must be between 1 and 750"},
		{provision.Prepare{LockClocks: 13},
			"clocks is free, although it was set to 13 MHz by `amd-smi set --gpu 0 1 --perf-determinism 13`, which said: PERFDETERMINISM: [AMDSMI_STATUS_NOT_SUPPORTED]"},
	} {
		_, err := Prepare(t.Context(), c, refused.want, note)
		testhost.WantError(t, err, nil, refused.says)
		if err := Restore(t.Context(), c, noted); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("in the end (-before +after):\n%s", diff)
	}
	two := provision.Condition{GPUs: []provision.GPUCondition{{PowerLimit: 1000, SecondLimit: 1200}}, AMDTool: provision.AMDSMI}
	_, err = (&provision.Prepare{PowerCap: 900}).Changes(provision.AMD, two)
	testhost.WantError(t, err, nil, "a second one (1200 W)")
}
