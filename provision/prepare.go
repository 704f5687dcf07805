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

const (
	persistence = "persistence mode"
	powerLimit  = "power limit"
	lockedClock = "clocks"
	numa        = "numa balancing"
)

const nvidiaSMI = "nvidia-smi"

// commands set a setting with a tool, and put it back: "" is set it to what it was. LIST and IDS
// stand for the numbers of GPUs, as one word or one each; NUMBER and SWITCH for the value.
var commands = map[string]map[string]struct{ set, undo string }{
	persistence: {
		nvidiaSMI: {"nvidia-smi -i LIST -pm SWITCH", ""},
	},
	powerLimit: {
		nvidiaSMI: {"nvidia-smi -i LIST -pl NUMBER", ""},
		RocmSMI:   {"rocm-smi -d IDS --setpoweroverdrive NUMBER --autorespond y", ""},
		AMDSMI:    {"amd-smi set --gpu IDS --power-cap NUMBER", ""},
	},
	lockedClock: {
		nvidiaSMI: {"nvidia-smi -i LIST -lgc NUMBER,NUMBER", "nvidia-smi -i LIST -rgc"},
		RocmSMI:   {"rocm-smi -d IDS --setperfdeterminism NUMBER", "rocm-smi -d IDS --resetperfdeterminism"},
		AMDSMI:    {"amd-smi set --gpu IDS --perf-determinism NUMBER", "amd-smi reset --gpu IDS --perf-determinism"},
	},
	numa: {
		nvidiaSMI: {"sysctl -q -w kernel.numa_balancing=SWITCH", ""},
	},
}

type setting struct{ name, want, set, undo string }

// settings are those that p changes, in the order in which they have to be set; they are put back
// the other way round. Persistence is the first: without it the driver forgets the others when it
// is idle. tool is that of AMD's two which is there.
func (p *Prepare) settings(v Vendor, tool string) []setting {
	switch {
	case v != AMD:
		tool = nvidiaSMI
	case tool != AMDSMI:
		tool = RocmSMI
	}
	var all []setting
	add := func(name, want string) {
		command, ok := commands[name][tool]
		if !ok { // there is one way only
			command = commands[name][nvidiaSMI]
		}
		all = append(all, setting{name, want, command.set, cmp.Or(command.undo, command.set)})
	}
	if p.PersistenceMode != nil {
		add(persistence, switched(*p.PersistenceMode))
	}
	if p.PowerCap > 0 {
		add(powerLimit, watts(p.PowerCap))
	}
	if p.LockClocks > 0 {
		add(lockedClock, fmt.Sprintf("%d MHz", p.LockClocks))
	}
	if p.NUMABalancing != nil {
		add(numa, switched(*p.NUMABalancing))
	}
	return all
}

func commandOf(template string, gpus []int, value string) []string {
	ids := strings.Fields(strings.Trim(fmt.Sprint(gpus), "[]"))
	number, _, _ := strings.Cut(value, " ")
	put := strings.NewReplacer("LIST", strings.Join(ids, ","), "NUMBER", number, "SWITCH", digit(value == "on"))
	var words []string
	for word := range strings.FieldsSeq(template) {
		if word == "IDS" {
			words = append(words, ids...)
		} else {
			words = append(words, put.Replace(word))
		}
	}
	return words
}

// Steps say for a plan what p does on a host with those GPUs, and how it is put back. A
// plan does not know which of AMD's tools is there: it names the commands of both.
func (p *Prepare) Steps(g GPUs) []string {
	if p == nil {
		return nil
	}
	var gpus []int
	for i := range g.Count {
		gpus = append(gpus, i)
	}
	line := func(template, value string) string { return strings.Join(commandOf(template, gpus, value), " ") }
	var steps []string
	newer := p.settings(g.Vendor, AMDSMI)
	for i, s := range p.settings(g.Vendor, RocmSMI) {
		back := "then back to what it was"
		if s.undo != s.set {
			back = "then `" + line(s.undo, "") + "`"
		}
		how := "`" + line(s.set, s.want) + "`"
		if other := newer[i].set; other != s.set {
			how += " (where that is not there `" + line(other, s.want) + "`)"
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
			c.NUMABalancing = digit(change.Was == "on")
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
		return []string{onOff(now.NUMABalancing)}
	}
	return now.each(setting)
}

const (
	unreadable = "%s: it cannot be read there, so it could not be put back"
	heldClocks = "clocks of GPU %d are held already (%s), which could not be put back: free them first, with " +
		"`sudo nvidia-smi -rgc` and `sudo nvidia-smi -rac`, `sudo rocm-smi --setperflevel auto`, " +
		"or `sudo amd-smi set --gpu all --perf-level AUTO`"
	twoLimits = "power limit: GPU %d has a second one (%s), which amd-smi may set with the first, " +
		"so it could not be put back: set them by hand"
	otherECC    = "ecc of GPU %d is %s, where %s is wanted: it takes a reset, which hcl does not do (%s)"
	firmwareECC = "on AMD it is the firmware's: ask the host's maker"
	forgets     = "persistence mode of GPU %d is off, so the driver would forget power_cap and lock_clocks " +
		"before an engine runs: add persistence_mode = true"
)

// Changes are what has to be changed on a host in this state, and why it cannot be.
func (p *Prepare) Changes(v Vendor, now Condition) ([]Change, error) {
	var all []Change
	var errs []error
	for _, s := range p.settings(v, now.AMDTool) {
		changes, err := s.changes(now)
		all, errs = append(all, changes...), append(errs, err)
	}
	for i, g := range now.GPUs {
		if p.PowerCap > 0 && g.SecondLimit > 0 && now.AMDTool == AMDSMI {
			errs = append(errs, fmt.Errorf(twoLimits, i, watts(g.SecondLimit)))
		}
		if p.ECC != nil && onOff(g.ECC) != switched(*p.ECC) {
			how := firmwareECC
			if v != AMD {
				how = fmt.Sprintf("sudo nvidia-smi -i %d -e %s, and reboot", i, digit(*p.ECC))
			}
			errs = append(errs, fmt.Errorf(otherECC, i, orNone(onOff(g.ECC)), switched(*p.ECC), how))
		}
		off := g.Persistence == "Disabled" && (p.PersistenceMode == nil || !*p.PersistenceMode)
		if v == NVIDIA && off && (p.PowerCap > 0 || p.LockClocks > 0) {
			errs = append(errs, fmt.Errorf(forgets, i))
		}
	}
	return all, errors.Join(errs...)
}

// changes are those of one setting: GPUs on which it was the same are changed together.
func (s setting) changes(now Condition) (all []Change, err error) {
	var errs []error
	for i, was := range values(s.name, now) {
		switch {
		case was == s.want:
			continue
		case was == "":
			errs = append(errs, fmt.Errorf(unreadable, s.name))
		case s.name == lockedClock && was != free:
			errs = append(errs, fmt.Errorf(heldClocks, i, was))
		}
		at := slices.IndexFunc(all, func(c Change) bool { return c.Was == was })
		if at < 0 {
			at, all = len(all), append(all, Change{Setting: s.name, Was: was, Now: s.want})
		}
		all[at].GPUs = append(all[at].GPUs, i)
	}
	for i := range all {
		c := &all[i]
		c.Set, c.Undo = commandOf(s.set, c.GPUs, s.want), commandOf(s.undo, c.GPUs, c.Was)
		if s.name == numa {
			c.GPUs = nil
		}
	}
	return all, errors.Join(errs...)
}

// Back is the change that puts this one back.
func (c Change) Back() Change {
	return Change{Setting: c.Setting, GPUs: c.GPUs, Was: c.Now, Now: c.Was, Set: c.Undo, Undo: c.Set}
}

func (c Change) valuesNow(now Condition) []string {
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
	return c.Setting != lockedClock && slices.ContainsFunc(c.valuesNow(now), foreign)
}

// Check is an error when the setting is not as it was set. NVIDIA's clocks are not read back: the
// driver does not tell of a lock until there is load. said is what the tool has said.
func (c Change) Check(now Condition, said string) error {
	if c.Setting == lockedClock && c.Set[0] == "nvidia-smi" {
		return nil
	}
	for _, is := range c.valuesNow(now) {
		// Of AMD's clocks it can be read that they are held, and not at what.
		held := c.Setting == lockedClock && is != "" && is != free && c.Now != free
		if is != c.Now && !held {
			return fmt.Errorf("%s is %s, although it was set to %s by `%s`%s",
				c.Setting, cmp.Or(is, "not known"), c.Now, strings.Join(c.Set, " "), said)
		}
	}
	return nil
}
