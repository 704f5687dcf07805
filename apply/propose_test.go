package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPropose: what a proposer says is taken once it has ended well; of one that hangs, fails, or says too much nothing is, and
// no process of it is left. It knows no variable that may be a secret.
func TestPropose(t *testing.T) {
	t.Setenv("HF_TOKEN", "hf_secret")
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		script, said, why string
		within            time.Duration
		left              bool
	}{
		"reads":   {script: `read -r line; echo "got $line in $(pwd)"`, said: "got known in " + dir},
		"blind":   {script: `echo "token=$HF_TOKEN"`, said: "token="},
		"deaf":    {script: `echo {}`, said: "{}"},
		"fails":   {script: `echo '{"flags":{}}'; echo "no model" >&2; exit 3`, why: "exit status 3: no model"},
		"hangs":   {script: `sleep 600`, why: "has not ended within", within: time.Second},
		"shouts":  {script: `yes candidate`, why: "it prints more than 1"},
		"whines":  {script: `yes no | head -c 9000000 >&2; echo {}`, said: "{}"},
		"forks":   {script: `sleep 600 >/dev/null 2>&1 & echo $! >child; echo {}`, said: "{}", left: true},
		"missing": {script: "", why: "no such file"},
	} {
		command := []string{"sh", "-c", tt.script}
		if tt.script == "" {
			command = []string{"./missing"}
		}
		within := tt.within
		if within == 0 {
			within = 10 * time.Minute
		}
		said, left, err := propose(t.Context(), dir, command, []byte("known\n"), within)
		if strings.TrimSpace(said) != tt.said || left != tt.left || (err == nil) != (tt.why == "") || err != nil && !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: said %.80q, left %v, %v", name, said, left, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Minute); ; {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") || syscall.Kill(pid, 0) != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a process that the proposer has left behind still runs")
		}
	}
	stopped := errors.New("interrupted")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	if _, _, err := propose(ctx, dir, []string{"sleep", "600"}, nil, 10*time.Minute); !errors.Is(err, stopped) {
		t.Errorf("interrupted, it ends with %v", err)
	}
}
