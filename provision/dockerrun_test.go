package provision

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// everything is a container that asks for all that can be asked for at once.
func everything() Container {
	return Container{
		Name:       "hcl-lab-vllm-h200-0a1b2c",
		Image:      image,
		Entrypoint: []Text{Plain("vllm"), Plain("serve")},
		Command:    []Text{Plain("org/model"), Plain("--port"), Plain("8000"), Plain("--served-model-name"), Plain("it's $HOME")},
		Env: []EnvVar{
			{"EMPTY", Plain("")},
			{"QUOTED", Plain(`a "b" $c`)},
		},
		Labels:      map[string]string{"hcl.run": "r1", "hcl.lab": "lab"},
		Mounts:      []Mount{{Source: "~/made/by docker", Target: "/data"}, {Source: "/etc", Target: "/host/etc", ReadOnly: true}},
		GPUs:        -1,
		Devices:     []string{"/dev/null"},
		HostGroups:  []string{"daemon", "video"},
		CapAdd:      []string{"CAP_SYS_PTRACE"},
		SecurityOpt: []string{"seccomp=unconfined"},
		IPC:         "host",
		Network:     "bridge",
		ShmSize:     32 << 30,
		Ulimits:     []Ulimit{{"core", -1, -1}, {"nofile", 1024, 2048}},
		User:        "0:0",
		WorkDir:     "/tmp",
		Port:        8000,
		Init:        true,
		StopSignal:  "SIGINT",
		StopGrace:   90 * time.Second,
	}
}

func TestDockerRun(t *testing.T) {
	secret := everything()
	secret.Env = append(secret.Env, EnvVar{"HF_TOKEN", Secret("s3cret")})
	secret.Command = append(secret.Command, Concat(Plain("--api-key="), Secret("k3y")))
	got := DockerRun(secret) + "\n" +
		DockerRun(Container{Name: "small", Image: "sglang:1"}) + "\n" +
		DockerRun(Container{Name: "none", Image: "sglang:1", Entrypoint: []Text{}, GPUIDs: []string{"0", "GPU-5f0c"}, Network: "host", Port: 30000, Privileged: true}) + "\n" +
		DockerRun(Container{Name: "some", Image: "sglang:1", GPUs: 4}) + "\n"
	want, err := os.ReadFile("testdata/dockerrun.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("DockerRun (-want +got):\n%s", diff)
	}
}

// TestDockerRunAndStart holds what is shown against what is asked of Docker: each
// setting of a container changes both. That they say the same is shown by Docker
// itself, in TestContainer.
func TestDockerRunAndStart(t *testing.T) {
	all := everything()
	all.GPUIDs, all.Privileged, all.PID = []string{"1"}, true, "container:abc"
	all.Files = []File{{"config.yaml", Plain("key: 1")}}
	asked := func(ct Container) string {
		config, host, err := inDocker(ct, ct.HostGroups, "/home/me")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{config, host})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	elsewhere := map[string]string{"Name": "an argument of its own", "Files": "copied into the container that was made"}
	bare := Container{Image: "a:1"}
	for i := range reflect.TypeFor[Container]().NumField() {
		field := reflect.TypeFor[Container]().Field(i)
		value := reflect.ValueOf(all).Field(i)
		if value.IsZero() {
			t.Errorf("%s is not among everything that can be asked for", field.Name)
		}
		ct := bare
		reflect.ValueOf(&ct).Elem().Field(i).Set(value)
		if DockerRun(ct) == DockerRun(bare) {
			t.Errorf("docker run does not show %s", field.Name)
		}
		if _, other := elsewhere[field.Name]; other != (asked(ct) == asked(bare)) {
			t.Errorf("Docker is not asked for %s, or is although it comes to it otherwise", field.Name)
		}
	}
}
