package docker

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/testhost"
)

// everything is a container that asks for all that can be asked for at once.
func everything() provision.Container {
	return provision.Container{
		Name:       "hcl-lab-vllm-h200-0a1b2c",
		Image:      image,
		Entrypoint: plainTexts([]string{"vllm", "serve"}),
		Command:    plainTexts([]string{"org/model", "--port", "8000", "--served-model-name", "it's $HOME"}),
		Env: []provision.EnvVar{
			{Name: "EMPTY", Value: provision.Plain("")},
			{Name: "QUOTED", Value: provision.Plain(`a "b" $c`)},
		},
		Labels: map[string]string{"hcl.run": "r1", "hcl.lab": "lab"},
		Mounts: []provision.Mount{{Source: "~/made/by docker", Target: "/data"},
			{Source: "/etc", Target: "/host/etc", ReadOnly: true}},
		GPUs:        -1,
		Devices:     []string{"/dev/null"},
		HostGroups:  []string{"daemon", "video"},
		CapAdd:      []string{"CAP_SYS_PTRACE"},
		SecurityOpt: []string{"seccomp=unconfined"},
		IPC:         "host",
		Network:     "bridge",
		ShmSize:     32 << 30,
		Ulimits:     []provision.Ulimit{{Name: "core", Soft: -1, Hard: -1}, {Name: "nofile", Soft: 1024, Hard: 2048}},
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
	secret.Env = append(secret.Env, provision.EnvVar{Name: "HF_TOKEN", Value: provision.Secret("s3cret")})
	secret.Command = append(secret.Command, provision.Concat(provision.Plain("--api-key="), provision.Secret("k3y")))
	got := Run(secret) + "\n" +
		Run(provision.Container{Name: "small", Image: "sglang:1"}) + "\n" +
		Run(provision.Container{Name: "none", Image: "sglang:1", Entrypoint: []provision.Text{},
			GPUIDs: []string{"0", "GPU-5f0c"}, Network: "host", Port: 30000, Privileged: true}) + "\n" +
		Run(provision.Container{Name: "some", Image: "sglang:1", GPUs: 4}) + "\n"
	want, err := os.ReadFile("testdata/dockerrun.golden")
	testhost.OK(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("DockerRun (-want +got):\n%s", diff)
	}
}

// TestDockerRunAndStart holds what is shown against what is asked of Docker: each setting of a
// container changes both. That they say the same is shown by Docker itself, in TestContainer.
func TestDockerRunAndStart(t *testing.T) {
	all := everything()
	all.GPUIDs, all.Privileged, all.PID = []string{"1"}, true, "container:abc"
	all.Files = []provision.File{{Name: "config.yaml", Text: provision.Plain("key: 1")}}
	asked := func(ct provision.Container) string {
		s := newSpec(ct, ct.HostGroups, "/home/me")
		text, err := json.Marshal([]any{s.config, s.host})
		if s.err != nil || err != nil {
			t.Fatal(s.err, err)
		}
		return string(text)
	}
	elsewhere := map[string]string{"Name": "an argument of its own", "Files": "copied into the container that was made"}
	claims := map[string]bool{"Listens": true} // who ends it looks whether they are closed
	bare := provision.Container{Image: "a:1"}
	for i := range reflect.TypeFor[provision.Container]().NumField() {
		field := reflect.TypeFor[provision.Container]().Field(i)
		value := reflect.ValueOf(all).Field(i)
		if claims[field.Name] {
			continue
		}
		if value.IsZero() {
			t.Errorf("%s is not among everything that can be asked for", field.Name)
		}
		ct := bare
		reflect.ValueOf(&ct).Elem().Field(i).Set(value)
		if Run(ct) == Run(bare) {
			t.Errorf("docker run does not show %s", field.Name)
		}
		if _, other := elsewhere[field.Name]; other != (asked(ct) == asked(bare)) {
			t.Errorf("Docker is not asked for %s, or is although it comes to it otherwise", field.Name)
		}
	}
}
