package reach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"hclbench/testhost"
)

// TestForceCommand is a host whose sshd runs something else instead of what it is
// asked to: it takes neither our memory nor our time.
func TestForceCommand(t *testing.T) {
	for name, says := range map[string]string{
		"cat /dev/zero": "prints without end",
		"yes":           "prints without end",
		"sleep 1000":    "did not begin it within",
		"exit 3":        "it exited with 3",
		"true":          "does not run commands",
		"echo This account is not available; exit 1": "and said: This account is not available",
	} {
		t.Run(name, func(t *testing.T) {
			h := testhost.New(t, testhost.Options{SSHD: []string{"ForceCommand " + name}})
			link, err := dialSSH(t.Context(), block(h), strict(h), slog.New(slog.DiscardHandler))
			testhost.OK(t, err)
			defer link.Close()
			link.starting = 2 * time.Second
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out := &bounded{most: maxOutput, full: func() { t.Error("all of it is taken for what the command prints") }}
			err = link.Run(t.Context(), "true", nil, out, &tail{most: maxStderr})
			testhost.WantError(t, err, nil, "host h200", "run `true`", says)
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 32<<20 {
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
		})
	}
}

// TestRunBounds is a command that prints or lasts longer than any should.
func TestRunBounds(t *testing.T) {
	places(t, func(t *testing.T, c *Conn, _ string) {
		out, err := c.Run(t.Context(), "cat /dev/zero", nil)
		testhost.WantError(t, err, nil, "run `cat /dev/zero`", "more than 64 MiB")
		if len(out) != maxOutput {
			t.Errorf("%d bytes came, want %d", len(out), maxOutput)
		}
		_, err = c.Run(t.Context(), "yes error | head -c 10000000 >&2; exit 1", nil)
		var failed *CommandError
		if !errors.As(err, &failed) || len(failed.Stderr) > maxStderr || !strings.HasPrefix(failed.Stderr, "error\n") {
			t.Errorf("Run = %.300v, want the last 64 KiB of what it said", err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the reason"))
		defer cancel()
		if _, err := c.Run(ctx, "sleep 1000", nil); err == nil || !strings.HasSuffix(err.Error(), "run `sleep 1000`: the reason") {
			t.Errorf("Run = %v", err)
		}
	})
}

// TestLoginShells is a login whose shell is no sh: it must not read the command, but hand it on.
func TestLoginShells(t *testing.T) {
	script := "echo 'it'\"'\"'s'\necho \"a!b \\$HOME $((1+1)) \\\\ %d\" >&1\n\techo \\ü~*?[x] # end\nprintf 'last'"
	want := "it's\na!b $HOME 2 \\ %d\nü~*?[x]\nlast"
	for _, shell := range []string{"tcsh -c", "dash -c", "bash -c"} {
		t.Run(shell, func(t *testing.T) {
			h := testhost.New(t, testhost.Options{SSHD: []string{fmt.Sprintf(`ForceCommand exec %s "$SSH_ORIGINAL_COMMAND"`, shell)}})
			c := connect(t, h)
			if got := mustRun(t, c, script); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
			defer cancel()
			_, err := c.Run(ctx, "sleep 1000", nil)
			testhost.WantError(t, err, nil, "enough")
		})
	}
}

func TestTail(t *testing.T) {
	for _, tt := range []struct {
		write []string
		want  string
	}{
		{nil, ""}, {[]string{"a\nb"}, "a\nb"}, {[]string{"1234\n", "56789\n", "x"},
			"56789\nx"}, {[]string{strings.Repeat("z", 100)}, strings.Repeat("z", 10)},
		{[]string{strings.Repeat("z", 100) + "\nend\n", "."}, "end\n."},
	} {
		b := &tail{most: 10}
		for _, s := range tt.write {
			fmt.Fprint(b, s)
		}
		if got := b.String(); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.write, got, tt.want)
		}
	}
}
