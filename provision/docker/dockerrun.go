package docker

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"hclbench/plain"
	"hclbench/provision"
)

// Run is the `docker run` line that does what [Daemon.Start] does with a
// container, for people to read, keep and try by hand. Words are quoted for a
// shell on the host; secrets show as [provision.Redacted].
func Run(ct provision.Container) string {
	line := []string{"docker", "run", "--detach"}
	flag := func(name, value string) {
		if value != "" {
			line = append(line, name, plain.Quote(value))
		}
	}
	flag("--name", ct.Name)
	for _, k := range slices.Sorted(maps.Keys(ct.Labels)) {
		flag("--label", k+"="+ct.Labels[k])
	}
	for _, e := range ct.Env {
		flag("--env", e.Name+"="+e.Value.String())
	}
	for _, m := range ct.Mounts {
		volume := m.Source + ":" + m.Target
		if m.ReadOnly {
			volume += ":ro"
		}
		if rest, ok := strings.CutPrefix(volume, "~/"); ok {
			line = append(line, "--volume", "~/"+plain.Quote(rest)) // a quoted ~ would not be expanded
		} else {
			flag("--volume", volume)
		}
	}
	for _, f := range ct.Files {
		line = append(line, "--volume", `"$PWD"/`+plain.Quote(f.Name+":"+path.Join(provision.FilesDir, f.Name))) // saved by whoever tries it
	}
	switch {
	case len(ct.GPUIDs) > 0:
		// Docker reads this value as CSV, so the list of ids needs quotes in it.
		flag("--gpus", `"device=`+strings.Join(ct.GPUIDs, ",")+`"`)
	case ct.GPUs < 0:
		flag("--gpus", "all")
	case ct.GPUs > 0:
		flag("--gpus", strconv.Itoa(ct.GPUs))
	}
	for _, d := range ct.Devices {
		flag("--device", d)
	}
	for _, g := range ct.HostGroups {
		line = append(line, "--group-add", fmt.Sprintf(`"$(getent group %s | cut -d: -f3)"`, plain.Quote(g)))
	}
	for _, c := range ct.CapAdd {
		flag("--cap-add", c)
	}
	for _, s := range ct.SecurityOpt {
		flag("--security-opt", s)
	}
	if ct.Privileged {
		line = append(line, "--privileged")
	}
	flag("--ipc", ct.IPC)
	flag("--pid", ct.PID)
	flag("--network", ct.Network)
	if ct.Published() {
		flag("--publish", fmt.Sprintf("127.0.0.1:%d:%d", ct.Port, ct.Port))
	}
	if ct.ShmSize > 0 {
		flag("--shm-size", fmt.Sprintf("%db", ct.ShmSize))
	}
	for _, u := range ct.Ulimits {
		flag("--ulimit", fmt.Sprintf("%s=%d:%d", u.Name, u.Soft, u.Hard))
	}
	flag("--user", ct.User)
	flag("--workdir", ct.WorkDir)
	if ct.Init {
		line = append(line, "--init")
	}
	flag("--stop-signal", ct.StopSignal)
	if ct.StopGrace > 0 {
		flag("--stop-timeout", strconv.Itoa(int(math.Ceil(ct.StopGrace.Seconds()))))
	}
	flag("--log-driver", logDriver)
	for _, k := range slices.Sorted(maps.Keys(logOptions)) {
		flag("--log-opt", k+"="+logOptions[k])
	}
	command := ct.Command
	if ct.Entrypoint != nil {
		// The flag takes one word; the others go before the command.
		first := ""
		if len(ct.Entrypoint) > 0 {
			first = ct.Entrypoint[0].String()
			command = append(slices.Clone(ct.Entrypoint[1:]), command...)
		}
		line = append(line, "--entrypoint", plain.Quote(first))
	}
	line = append(line, plain.Quote(ct.Image))
	for _, word := range command {
		line = append(line, plain.Quote(word.String()))
	}
	return strings.Join(line, " ")
}
