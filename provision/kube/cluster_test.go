package kube

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/testhost"
)

func TestMain(m *testing.M) { os.Exit(testhost.Main(m)) }

const image = "vllm/vllm-openai:v0.7.3"

// bench is a namespace of the tests' cluster, and our way to it.
type bench struct {
	*testhost.Cluster
	t       *testing.T
	name    string
	digest  string
	cluster *provision.Cluster
}

// TestSlowCluster has one cluster for all of its parts, each in a namespace of its own. Only one of them
// asks for GPUs.
func TestSlowCluster(t *testing.T) {
	var c *testhost.Cluster
	t.Cleanup(func() { // when it has ended
		if c == nil {
			return
		}
		for _, h := range append(c.Nodes, c.Control) {
			if left, err := testhost.Traces(h.Dir); err != nil || len(left) > 0 {
				t.Errorf("left of the cluster: %v, %q", err, left)
			}
		}
	})
	c = testhost.NewCluster(t)
	digest := c.PushEngine(t, image, nil)
	begin := func(t *testing.T, test func(*bench)) {
		name := strings.ReplaceAll(t.Name()[strings.LastIndex(t.Name(), "/")+1:], "_", "-")
		b := &bench{Cluster: c, t: t, name: name, digest: digest}
		b.cluster = &provision.Cluster{Name: "moai", Kubeconfig: c.Kubeconfig, Namespace: name, Image: image, Pos: "lab.hcl:3"}
		b.kubectl("create", "namespace", name)
		b.kubectl("-n", name, "wait", "--for=create", "--timeout=1m", "serviceaccount/default")
		test(b)
	}
	t.Run("at once", func(t *testing.T) {
		for name, test := range map[string]func(*bench){
			"run":         (*bench).run,
			"commands":    (*bench).commands,
			"refusals":    (*bench).refusals,
			"losses":      (*bench).losses,
			"ends alone":  (*bench).endsAlone,
			"never begun": (*bench).neverBegun,
			"other store": (*bench).otherStore,
			"left behind": (*bench).leftBehind,
			"kubeconfig":  (*bench).kubeconfig,
			"rights":      (*bench).rights,
			"tried":       (*bench).tried,
			"namespace":   (*bench).namespaces,
			"in the way":  (*bench).inTheWay,
			"fabric":      (*bench).fabric,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				begin(t, test)
			})
		}
	})
	t.Run("api server away", func(t *testing.T) { begin(t, (*bench).serverAway) })
	t.Run("node away", func(t *testing.T) { begin(t, (*bench).nodeAway) })
}

func (b *bench) kubectl(args ...string) string {
	b.t.Helper()
	out, err := b.Kubectl(args...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// apply makes an object of a text.
func (b *bench) apply(yaml string) {
	b.t.Helper()
	cmd := b.Kubectl("-n", b.name, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(yaml)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("kubectl apply: %v: %s", err, out)
	}
}

func (b *bench) open() *Client {
	b.t.Helper()
	c, err := Open(b.t.Context(), b.cluster, b.say)
	testhost.OK(b.t, err)
	b.t.Cleanup(func() { c.Close() })
	return c
}

func (b *bench) of(name string) RunOf {
	return RunOf{Lab: "lab of " + b.name, Run: name, Holder: "ada@laptop, pid 4711", Store: "ada", Lease: 10 * time.Minute, Deadline: time.Hour}
}

func (b *bench) begin(c *Client, run string) *Root {
	b.t.Helper()
	r, err := c.Begin(b.t.Context(), b.of(run), b.say)
	testhost.OK(b.t, err)
	b.t.Cleanup(func() { _ = r.End(context.Background()) })
	return r
}

func (b *bench) say(what string) { b.t.Log(what) }

// host is a pod's host with so many GPUs.
func (b *bench) host(name string, gpus int) *provision.Host {
	return &provision.Host{
		Name: name, Cluster: b.cluster, Runtime: provision.Process, Pos: "lab.hcl:12",
		GPUs: provision.GPUs{Count: gpus, Model: "H200", Vendor: provision.NVIDIA},
	}
}

func (b *bench) pod(r *Root, name string, gpus int) *Pod {
	b.t.Helper()
	p, err := r.Pod(b.t.Context(), PodSpec{Host: b.host(name, gpus), Image: image}, b.say)
	testhost.OK(b.t, err)
	return p
}

func (b *bench) connect(p *Pod) *reach.Conn {
	b.t.Helper()
	c, err := reach.Through(b.t.Context(), p.Host(), p.Transport(), nil)
	testhost.OK(b.t, err)
	b.t.Cleanup(func() { c.Close() })
	return c
}

// empty fails when something of ours, or anything but what every namespace has, is there.
func (b *bench) empty() {
	b.t.Helper()
	if left := b.kubectl("-n", b.name, "get", "pods,jobs", "-o", "name"); left != "" {
		b.t.Errorf("left in namespace %s: %s", b.name, left)
	}
}

// run is what a run is when all is well: on two nodes, with all their GPUs.
func (b *bench) run() {
	t, c := b.t, b.open()
	specs := []PodSpec{{Host: b.host("a", 8), Image: image}, {Host: b.host("b", 8), Image: image}}
	findings, err := c.Check(t.Context(), specs)
	testhost.OK(t, err)
	if provision.Worst(findings) != provision.OK {
		t.Errorf("findings = %+v", findings)
	}
	r := b.begin(c, "r1")
	first, second := b.pod(r, "a", 8), b.pod(r, "b", 8)
	if first.Node() == second.Node() || first.Image() != b.digest || first.IP() == "" {
		t.Errorf("pods on %s and %s, image %s, want two nodes and %s", first.Node(), second.Node(), first.Image(), b.digest)
	}
	if s, err := first.State(t.Context()); err != nil || !s.Running || s.Started.IsZero() {
		t.Errorf("state = %+v, %v", s, err)
	}
	if pods, err := r.Pods(t.Context()); err != nil || len(pods) != 2 {
		t.Errorf("pods = %v, %v", pods, err)
	}
	findings, err = c.Check(t.Context(), specs)
	testhost.OK(t, err)
	b.found(findings, provision.Warning, "gpus", "nvidia.com/gpu free on 2 nodes: 0, 0; no node has all that host a (lab.hcl:12) asks for")
	found, err := c.Find(t.Context(), r.Lab)
	if err != nil || len(found) != 1 || found[0].Run != "r1" || found[0].Holder != r.Holder || found[0].Self().Name() != r.Self().Name() {
		t.Errorf("found = %+v, %v", found, err)
	}
	testhost.OK(t, second.Delete(t.Context()))
	begin := time.Now()
	testhost.OK(t, found[0].End(t.Context()))
	t.Logf("ended within %s", time.Since(begin).Round(time.Millisecond))
	b.empty()
	testhost.OK(t, r.End(t.Context())) // what is gone is ended
}

// commands are those of a connection: how they end, what they read, and that they are not left behind.
func (b *bench) commands() {
	t, client := b.t, b.open()
	c := b.connect(b.begin(client, "r1").Self())
	for command, want := range map[string]string{
		"echo here; echo there >&2": "here\n",
		"cat":                       "said",
		strings.Repeat("# long\n", 1000) + "cat; echo and done": "saidand done\n",
	} {
		if got, err := c.Run(t.Context(), command, strings.NewReader("said")); err != nil || got != want {
			t.Errorf("%.20s = %q, %v, want %q", command, got, err, want)
		}
	}
	for _, code := range []int{1, 42, 255} {
		_, err := c.Run(t.Context(), fmt.Sprintf("echo no >&2; exit %d", code), nil)
		failed, ok := errors.AsType[*reach.CommandError](err)
		if !ok || failed.ExitCode != code || failed.Stderr != "no\n" {
			t.Errorf("exit %d = %v", code, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	given := errors.New("given up")
	in, out := io.Pipe()
	go func() {
		_, _ = in.Read(make([]byte, 1))
		cancel(given)
	}()
	go func() {
		_, _ = c.Run(t.Context(), "while ! [ -e /tmp/begun ]; do sleep 0.1; done", nil)
		_, _ = out.Write([]byte("x"))
	}()
	_, err := c.Run(ctx, "touch /tmp/begun; sleep 1000 & sleep 1001", nil)
	testhost.WantError(t, err, given, "cluster moai (lab.hcl:3): run `touch /tmp/begun")
	if left, err := c.Run(t.Context(), "ps | grep '[s]leep 100'", nil); err == nil {
		t.Errorf("left after the caller gave up: %s", left)
	}
	b.upload(c)
	b.dial(c)
}

func (b *bench) upload(c *reach.Conn) {
	t := b.t
	local := filepath.Join(t.TempDir(), "binary")
	text := make([]byte, 40<<20)
	_, _ = rand.Read(text)
	testhost.OK(t, os.WriteFile(local, text, 0o644))
	begin := time.Now()
	testhost.OK(t, c.Upload(t.Context(), local, "~/new/binary", 0o755))
	took := time.Since(begin)
	t.Logf("40 MiB within %s", took.Round(time.Millisecond))
	got, err := c.Run(t.Context(), "sha256sum <~/new/binary && test -x ~/new/binary", nil)
	if want := fmt.Sprintf("%x  -\n", sha256.Sum256(text)); err != nil || got != want {
		t.Errorf("the file's sum is %q, want %q, %v", got, want, err)
	}
}

// dial is a connection that a program in the pod makes.
func (b *bench) dial(c *reach.Conn) {
	t := b.t
	if _, err := c.Dial(t.Context(), "tcp", "127.0.0.1:7"); !reach.Refused(err) {
		t.Errorf("dial without hcl there = %v", err)
	}
	_, err := c.Run(t.Context(), "mkdir -p /tmp/www; echo hello >/tmp/www/index.html; httpd -p 127.0.0.1:8000 -h /tmp/www", nil)
	testhost.OK(t, err)
	c.UseHCL(`sh -c 'if [ "$3" = 127.0.0.1:8000 ]; then echo connected; exec nc 127.0.0.1 8000; fi; echo connection refused' hcl`)
	conn, err := c.Dial(t.Context(), "tcp", "127.0.0.1:8000")
	testhost.OK(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	testhost.OK(t, err)
	if got, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(got), "hello\n") {
		t.Errorf("answer = %q, %v", got, err)
	}
	conn.Close()
	_, err = c.Dial(t.Context(), "tcp", "127.0.0.1:8001")
	testhost.WantError(t, err, nil, "cluster moai (lab.hcl:3): dial 127.0.0.1:8001 there: connection refused")
}
