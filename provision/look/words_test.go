package look

import (
	"fmt"
	"strings"
	"testing"

	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

// TestForeignWords is a host whose tools and logins write to the terminal of whoever
// reads what they say.
func TestForeignWords(t *testing.T) {
	h := testhost.New(t, testhost.Options{GPU: "8xH200", SSHD: []string{"Banner /etc/hostname"}})
	const evil = `\033]0;title\007\033[2Jevil`
	testhost.OK(t, h.Install("nvidia-smi", "#!/bin/sh\nprintf '"+evil+"\\n'\n"))
	c := reachtest.Connect(t, h)
	var said []string
	_, err := c.Run(t.Context(), "printf '"+evil+"\\n' >&2; exit 1", nil)
	testhost.WantError(t, err, nil, "evil")
	said = append(said, err.Error())
	facts, err := Facts(t.Context(), c, docker.New(c, nil))
	testhost.OK(t, err)
	condition, err := Condition(t.Context(), c, docker.New(c, nil), nil)
	testhost.OK(t, err)
	use, err := GPUUse(t.Context(), c)
	testhost.OK(t, err)
	said = append(said, fmt.Sprintf("%+v %+v %+v", facts, condition, use))
	said = append(said, provision.Wrap(c.Host(), "try", fmt.Errorf("\x1b[2Jdaemon")).Error(),
		provision.Fail(c.Host(), provision.ErrNoDocker, "\x1b[2Jdaemon: %s", strings.Repeat("long", 1<<20)).Error())
	for _, s := range said {
		if strings.ContainsAny(s, "\x1b\x07") || len(s) > 64<<10 {
			t.Errorf("reaches the terminal, %d bytes: %.200q", len(s), s)
		}
	}
	if !strings.Contains(said[1], "evil") {
		t.Errorf("what the tool says is lost: %s", said[1])
	}
}
