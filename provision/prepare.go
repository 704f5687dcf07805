package provision

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Prepare is what a host block has set for as long as engines run there. Zero values
// leave things as they are.
type Prepare struct {
	PersistenceMode *bool   `json:"persistence_mode,omitempty"` // of NVIDIA's driver
	PowerCap        float64 `json:"power_cap,omitempty"`        // watts, for each GPU
	LockClocks      int64   `json:"lock_clocks,omitempty"`      // MHz, of each GPU's cores; on AMD the highest
	NUMABalancing   *bool   `json:"numa_balancing,omitempty"`   // the kernel's automatic one
	ECC             *bool   `json:"ecc,omitempty"`              // never set, as that takes a reset: only held against
}

// Change is a setting of a host that was changed, and how it is put back.
type Change struct {
	Setting string   `json:"setting"`        // "power limit"
	GPUs    []int    `json:"gpus,omitempty"` // the indices of those that were changed; empty: it is the machine's
	Was     string   `json:"was"`            // "700 W"
	Now     string   `json:"now"`
	Set     []string `json:"set"`  // the command
	Undo    []string `json:"undo"` // the command that puts it back
}

// String is the change for people: "power limit of GPU 0-7: 700 W → 600 W".
func (c Change) String() string {
	of := ""
	if len(c.GPUs) > 0 {
		of = " of GPU " + indices(c.GPUs)
	}
	return fmt.Sprintf("%s%s: %s → %s", c.Setting, of, c.Was, c.Now)
}

// indices are ascending numbers as people write them: "0-3, 6".
func indices(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// Names of settings that a change can be of.
const (
	persistence = "persistence mode"
	powerLimit  = "power limit"
	lockedClock = "clocks"
	numa        = "numa balancing"
)

// preparation is one setting: what is wanted, and how each vendor's tool sets it.
type preparation struct {
	name string
	want string
	how  func(gpus []int, value string) []string
	undo func(gpus []int, was string) []string // nil: as how, with what it was
}

// preparations are the settings that p changes with that vendor's tool, in the order in
// which they have to be set; they are put back the other way round. tool is that of
// AMD's two which is there.
func (p *Prepare) preparations(v Vendor, tool string) []preparation {
	var all []preparation
	digit := func(word string) string { return map[string]string{"on": "1", "off": "0"}[word] }
	number := func(value string) string { n, _, _ := strings.Cut(value, " "); return n }
	ids := func(gpus []int) []string { return strings.Fields(strings.Trim(fmt.Sprint(gpus), "[]")) }
	nvidia := func(gpus []int, option ...string) []string {
		return append([]string{"nvidia-smi", "-i", strings.Join(ids(gpus), ",")}, option...)
	}
	rocm := func(gpus []int, option ...string) []string {
		return slices.Concat([]string{RocmSMI, "-d"}, ids(gpus), option)
	}
	amd := func(verb string, gpus []int, option ...string) []string {
		return slices.Concat([]string{AMDSMI, verb, "--gpu"}, ids(gpus), option)
	}
	if p.PersistenceMode != nil {
		// First and last: without it the driver forgets the others when it is idle.
		all = append(all, preparation{name: persistence, want: switched(*p.PersistenceMode),
			how: func(gpus []int, value string) []string { return nvidia(gpus, "-pm", digit(value)) }})
	}
	if p.PowerCap > 0 {
		set := preparation{name: powerLimit, want: watts(p.PowerCap),
			how: func(gpus []int, value string) []string { return nvidia(gpus, "-pl", number(value)) }}
		switch {
		case v == AMD && tool == AMDSMI:
			set.how = func(gpus []int, value string) []string { return amd("set", gpus, "--power-cap", number(value)) }
		case v == AMD:
			set.how = func(gpus []int, value string) []string {
				return rocm(gpus, "--setpoweroverdrive", number(value), "--autorespond", "y")
			}
		}
		all = append(all, set)
	}
	if p.LockClocks > 0 {
		set := preparation{name: lockedClock, want: fmt.Sprintf("%d MHz", p.LockClocks),
			how:  func(gpus []int, value string) []string { return nvidia(gpus, "-lgc", number(value)+","+number(value)) },
			undo: func(gpus []int, _ string) []string { return nvidia(gpus, "-rgc") }}
		switch {
		case v == AMD && tool == AMDSMI:
			set.how = func(gpus []int, value string) []string { return amd("set", gpus, "--perf-determinism", number(value)) }
			set.undo = func(gpus []int, _ string) []string { return amd("reset", gpus, "--perf-determinism") }
		case v == AMD:
			set.how = func(gpus []int, value string) []string { return rocm(gpus, "--setperfdeterminism", number(value)) }
			set.undo = func(gpus []int, _ string) []string { return rocm(gpus, "--resetperfdeterminism") }
		}
		all = append(all, set)
	}
	if p.NUMABalancing != nil {
		all = append(all, preparation{name: numa, want: switched(*p.NUMABalancing),
			how: func(_ []int, value string) []string {
				return []string{"sysctl", "-q", "-w", "kernel.numa_balancing=" + digit(value)}
			}})
	}
	return all
}

func switched(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Steps say for a plan what p does on a host with those GPUs, and how it is put back. A
// plan does not know which of AMD's tools is there: it names the commands of both.
func (p *Prepare) Steps(g GPUs) []string {
	if p == nil {
		return nil
	}
	var steps []string
	newer := p.preparations(g.Vendor, AMDSMI)
	for i, s := range p.preparations(g.Vendor, RocmSMI) {
		var gpus []int
		if s.name != numa {
			for i := range g.Count {
				gpus = append(gpus, i)
			}
		}
		back := "then back to what it was"
		if s.undo != nil {
			back = "then `" + strings.Join(s.undo(gpus, ""), " ") + "`"
		}
		how := "`" + strings.Join(s.how(gpus, s.want), " ") + "`"
		if other := newer[i].how(gpus, s.want); other[0] == AMDSMI {
			how += " (where that is not there `" + strings.Join(other, " ") + "`)"
		}
		steps = append(steps, fmt.Sprintf("%s %s: %s, %s", s.name, s.want, how, back))
	}
	if p.ECC != nil {
		steps = append(steps, "ecc "+switched(*p.ECC)+": checked, as setting it takes a reset")
	}
	return steps
}

// Without is the condition as it will be when changes are put back.
func (c Condition) Without(changes []Change) Condition {
	c.GPUs = slices.Clone(c.GPUs)
	for _, change := range changes {
		if change.Setting == numa {
			c.NUMABalancing = map[string]string{"on": "1", "off": "0"}[change.Was]
		}
		for _, i := range change.GPUs {
			if i >= len(c.GPUs) {
				continue
			}
			switch g := &c.GPUs[i]; change.Setting {
			case lockedClock:
				g.Clock = g.FreeClock
				if g.Reasons&heldBySetting != 0 {
					g.Reasons = max(g.Reasons&^heldBySetting, idle)
				}
				if g.Level != "" {
					g.Level = "auto"
				}
			case powerLimit:
				if watts, err := strconv.ParseFloat(strings.TrimSuffix(change.Was, " W"), 64); err == nil {
					g.PowerLimit = watts
				}
			case persistence:
				g.Persistence = map[string]string{"on": "Enabled", "off": "Disabled"}[change.Was]
			}
		}
	}
	return c
}

// values are what a setting is on each GPU, or one of the machine. "" is not known.
func values(setting string, now Condition) []string {
	if setting == numa {
		return []string{now.Settings()[numa]}
	}
	var all []string
	for _, g := range now.GPUs {
		all = append(all, map[string]string{persistence: onOff(g.Persistence), powerLimit: watts(g.PowerLimit), lockedClock: g.clocks()}[setting])
	}
	return all
}

// changes are what has to be changed on a host in this state, and why it cannot be.
func (p *Prepare) Changes(v Vendor, now Condition) ([]Change, error) {
	var all []Change
	var errs []error
	for _, s := range p.preparations(v, now.AMDTool) {
		var seen []string
		groups := map[string][]int{}
		for i, was := range values(s.name, now) {
			switch {
			case was == s.want:
				continue
			case was == "":
				errs = append(errs, fmt.Errorf("%s: it cannot be read there, so it could not be put back", s.name))
			case s.name == lockedClock && was != free:
				errs = append(errs, fmt.Errorf("clocks of GPU %d are held already (%s), which could not be put back: free them first, with `sudo nvidia-smi -rgc` and `sudo nvidia-smi -rac`, `sudo rocm-smi --setperflevel auto`, or `sudo amd-smi set --gpu all --perf-level AUTO`", i, was))
			}
			if !slices.Contains(seen, was) {
				seen = append(seen, was)
			}
			groups[was] = append(groups[was], i)
		}
		for _, was := range seen {
			c := Change{Setting: s.name, GPUs: groups[was], Was: was, Now: s.want}
			undo := s.undo
			if undo == nil {
				undo = s.how
			}
			c.Set, c.Undo = s.how(c.GPUs, s.want), undo(c.GPUs, was)
			if s.name == numa {
				c.GPUs = nil
			}
			all = append(all, c)
		}
	}
	for i, g := range now.GPUs {
		if p.PowerCap > 0 && g.SecondLimit > 0 && now.AMDTool == AMDSMI {
			errs = append(errs, fmt.Errorf("power limit: GPU %d has a second one (%s), which amd-smi may set with the first, so it could not be put back: set them by hand", i, watts(g.SecondLimit)))
		}
		if p.ECC != nil && onOff(g.ECC) != switched(*p.ECC) {
			how := "on AMD it is the firmware's: ask the host's maker"
			if v != AMD {
				how = fmt.Sprintf("sudo nvidia-smi -i %d -e %s, and reboot", i, map[bool]string{true: "1", false: "0"}[*p.ECC])
			}
			errs = append(errs, fmt.Errorf("ecc of GPU %d is %s, where %s is wanted: it takes a reset, which hcl does not do (%s)", i, orNone(onOff(g.ECC)), switched(*p.ECC), how))
		}
		off := g.Persistence == "Disabled" && (p.PersistenceMode == nil || !*p.PersistenceMode)
		if v == NVIDIA && off && (p.PowerCap > 0 || p.LockClocks > 0) {
			errs = append(errs, fmt.Errorf("persistence mode of GPU %d is off, so the driver would forget power_cap and lock_clocks before an engine runs: add persistence_mode = true", i))
		}
	}
	return all, errors.Join(errs...)
}

// Back is the change that puts this one back.
func (c Change) Back() Change {
	return Change{Setting: c.Setting, GPUs: c.GPUs, Was: c.Now, Now: c.Was, Set: c.Undo, Undo: c.Set}
}

// of are the values of the change's setting, where it was changed.
func (c Change) of(now Condition) []string {
	all := values(c.Setting, now)
	if len(c.GPUs) == 0 {
		return all
	}
	var mine []string
	for _, i := range c.GPUs {
		if i < len(all) {
			mine = append(mine, all[i])
		}
	}
	return mine
}

// Foreign reports whether the setting is neither as it was nor as it was set.
func (c Change) Foreign(now Condition) bool {
	foreign := func(is string) bool { return is != c.Was && is != c.Now }
	return c.Setting != lockedClock && slices.ContainsFunc(c.of(now), foreign)
}

// Check is an error when the setting is not as it was set. A lock of NVIDIA's clocks is
// not read back: the driver does not tell of it until there is load. said is what the
// tool has said.
func (c Change) Check(now Condition, said string) error {
	if c.Setting == lockedClock && c.Set[0] == "nvidia-smi" {
		return nil
	}
	for _, is := range c.of(now) {
		// Of AMD's clocks it can be read that they are held, and not at what.
		held := c.Setting == lockedClock && is != "" && is != free && c.Now != free
		if is != c.Now && !held {
			return fmt.Errorf("%s is %s, although it was set to %s by `%s`%s",
				c.Setting, cmp.Or(is, "not known"), c.Now, strings.Join(c.Set, " "), said)
		}
	}
	return nil
}
