package testhost

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Cluster is a running Kubernetes cluster: a host with the control plane, and two nodes with
// 8 GPUs each. Pods have addresses that all of them reach, services have addresses and
// names ("engine.default.svc.cluster.local"); none of them reaches the world. Images come
// from the registries of Control, see [Cluster.PushEngine].
type Cluster struct {
	Control    *Host
	Nodes      []*Host // a node's name is its host's
	Kubeconfig string  // file of an administrator, for clients on this machine

	program string   // what all parts of it are, see testhost/kube
	cabled  []string // addresses of Control and Nodes on the cables between them
}

// Networks within a cluster.
const (
	serviceNet = "10.96.0.0/16"
	apiService = "10.96.0.1"     // the first address there is always the API server's
	podNet     = "10.244.0.0/16" // every node has a part of it
	apiPort    = "6443"
)

// cniPlugins is where Debian keeps the programs that connect pods.
const cniPlugins = "/usr/lib/cni"

// corefile has DNS know the cluster's names, and nobody else's.
const corefile = `.:53 {
	errors
	kubernetes cluster.local {
		kubeconfig %s
	}
	template ANY ANY {
		rcode NXDOMAIN
	}
}
`

// clusterWait is how long a cluster may take to be ready; ten seconds are usual.
const clusterWait = 3 * time.Minute

// nodeScript makes a host a node.
//
//go:embed node.sh
var nodeScript string

// NewCluster starts a cluster that ends with the test. The first time on a machine it
// builds Kubernetes, which takes minutes.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	err := lacking(map[string]string{"etcd": "etcd-server", "containerd": "containerd", "runc": "runc", "iptables": "iptables", "busybox": "busybox-static"})
	if _, missing := os.Stat(cniPlugins); missing != nil {
		err = errors.Join(err, fmt.Errorf("this machine lacks %s (package containernetworking-plugins): run scripts/prepare", cniPlugins))
	}
	if err != nil {
		t.Fatal(err)
	}
	c := new(Cluster)
	if c.program, err = kube(); err != nil {
		t.Fatalf("build Kubernetes: %v", err)
	}
	c.Control = New(t, Options{Name: "control", Namespace: true, Registry: true})
	c.Control.PushEngine(t, "hcl.test/pause:1", nil)
	for _, name := range []string{"node-1", "node-2"} {
		c.Nodes = append(c.Nodes, New(t, Options{Name: name, Namespace: true, GPU: "8xH200"}))
	}
	for _, step := range []func() error{c.connect, c.startControl, c.startNodes, c.ready} {
		if err := step(); err != nil {
			t.Fatalf("start cluster: %v", err)
		}
	}
	return c
}

// connect gives all hosts of the cluster a way to each other, to each other's pods, and to the registries.
func (c *Cluster) connect() (err error) {
	all := append([]*Host{c.Control}, c.Nodes...)
	if c.cabled, err = Cable(all...); err != nil {
		return err
	}
	for i, h := range all {
		var routes []string
		for n := range c.Nodes {
			if n+1 != i {
				routes = append(routes, fmt.Sprintf("route add %s via %s dev fabric%d", podsOf(n), c.cabled[n+1], n+2))
			}
		}
		if i > 0 {
			routes = append(routes, fmt.Sprintf("route add %s via %s dev eth0", c.Control.machine.outer, h.machine.outer))
		}
		if err := ip(h.machine.command, routes...); err != nil {
			return err
		}
	}
	return nil
}

// podsOf is the part of the pods' network that the n-th node has.
func podsOf(n int) string { return fmt.Sprintf("10.244.%d.0/24", n+1) }

// part starts a part of the cluster on a host.
func (c *Cluster) part(h *Host, name string, args ...string) (*daemon, error) {
	return h.machine.start(name, nil, c.program, append([]string{name}, args...)...)
}

// startControl starts what a cluster has once. Nothing of it is elected: there is one of each.
func (c *Cluster) startControl() error {
	in := func(name string) string { return filepath.Join(c.Control.Dir, name) }
	if err := c.writeIdentities(); err != nil {
		return err
	}
	names := fmt.Sprintf(corefile, in("parts.conf"))
	if err := os.WriteFile(in("Corefile"), []byte(names), 0o600); err != nil {
		return fmt.Errorf("write configuration of DNS: %w", err)
	}
	// In memory, and gone with the host.
	if _, err := c.Control.machine.start("etcd", nil, tool("etcd"), "--data-dir", "/run/etcd"); err != nil {
		return err
	}
	api, err := c.part(c.Control, "apiserver", "--etcd-servers", "http://127.0.0.1:2379",
		"--secure-port", apiPort, "--advertise-address", c.cabled[0], "--allow-privileged",
		"--tls-cert-file", in("apiserver.pem"), "--tls-private-key-file", in("key.pem"), "--client-ca-file", in("ca.pem"),
		"--authorization-mode", "Node,RBAC", "--service-cluster-ip-range", serviceNet,
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file", in("key.pem"), "--service-account-signing-key-file", in("key.pem"),
		// Names of nodes are known to nobody, and addresses of services not on this host.
		"--kubelet-preferred-address-types", "InternalIP", "--enable-aggregator-routing")
	if err != nil {
		return err
	}
	if err := api.answered(c.answers); err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"controller-manager": {"--kubeconfig", in("parts.conf"), "--leader-elect=false",
			"--service-account-private-key-file", in("key.pem"), "--root-ca-file", in("ca.pem"),
			"--flex-volume-plugin-dir", in("plugins"), "--use-service-account-credentials"},
		"scheduler": {"--kubeconfig", in("parts.conf"), "--leader-elect=false"},
		"dns":       {"-conf", in("Corefile")},
	} {
		if _, err := c.part(c.Control, name, args...); err != nil {
			return err
		}
	}
	return nil
}

// answers reports whether the API server works.
func (c *Cluster) answers() bool { return c.Kubectl("get", "--raw", "/readyz").Run() == nil }

// startNodes makes hosts nodes: containers, the kubelet, services' addresses and GPUs.
func (c *Cluster) startNodes() error {
	for n, h := range c.Nodes {
		if err := run(h.Command("sh", "-c", nodeScript, "node", h.Dir, podsOf(n), c.cabled[0])); err != nil {
			return fmt.Errorf("make %s a node: %w", h.Name, err)
		}
		in := func(name string) string { return filepath.Join(h.Dir, name) }
		containers, err := h.machine.start("containerd", c.Control.images.environment(), tool("containerd"), "--config", in("containerd.toml"))
		if err != nil {
			return err
		}
		err = containers.answered(func() bool {
			conn, err := net.Dial("unix", in("containerd.sock"))
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
		if err != nil {
			return err
		}
		as := filepath.Join(c.Control.Dir, "parts.conf")
		for name, args := range map[string][]string{
			"kubelet": {"--kubeconfig", as, "--config", in("kubelet.yaml"), "--node-ip", c.cabled[n+1]},
			// What the kernel allows in all is not for a host to say.
			"proxy": {"--kubeconfig", as, "--cluster-cidr", podNet, "--conntrack-max-per-core", "0",
				"--conntrack-tcp-timeout-established", "0s", "--conntrack-tcp-timeout-close-wait", "0s"},
			"gpus": {"--resource", "nvidia.com/gpu", "--devices", "/dev/nvidiactl /dev/nvidia#", "--variable", "NVIDIA_VISIBLE_DEVICES",
				"--tools", in("bin/nvidia-smi") + "=/usr/bin/nvidia-smi " + in(gpus) + "=/usr/" + gpus},
		} {
			if _, err := c.part(h, name, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready waits until pods can be made that ask for GPUs, or a part of the cluster has ended.
func (c *Cluster) ready() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	timeout := time.AfterFunc(clusterWait, func() { cancel(fmt.Errorf("not ready within %v", clusterWait)) })
	defer timeout.Stop()
	nodes := []string{"node/" + c.Nodes[0].Name, "node/" + c.Nodes[1].Name}
	for _, h := range append([]*Host{c.Control}, c.Nodes...) {
		for _, d := range h.machine.daemons {
			go func() {
				select {
				case <-d.exited:
					cancel(fmt.Errorf("%s on %s ended (%s)", d.name, h.Name, d.cmd.ProcessState))
				case <-ctx.Done():
				}
			}()
		}
	}
	for _, what := range [][]string{
		{nodes[0], "--for=create"}, // which can be waited for one by one
		{nodes[1], "--for=create"},
		append(nodes, "--for=condition=Ready"),
		append(nodes, `--for=jsonpath={.status.allocatable.nvidia\.com/gpu}=8`),
		{"serviceaccount/default", "--for=create"}, // pods are made under its name
	} {
		wait := c.kubectl(ctx, append([]string{"wait", "--timeout", clusterWait.String()}, what...)...)
		if err := run(wait); err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
	return nil
}

// Kubectl is the client that everybody has, with an administrator's rights.
func (c *Cluster) Kubectl(args ...string) *exec.Cmd { return c.kubectl(context.Background(), args...) }

func (c *Cluster) kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.program, append([]string{"kubectl"}, args...)...)
	cmd.Env = []string{"PATH=" + systemPath, "HOME=" + c.Control.Dir, "KUBECONFIG=" + c.Kubeconfig}
	return cmd
}

// Away kills a part of the cluster on a host, such as "apiserver" on Control or "kubelet" on
// a node, and returns what starts it again, and waits until the API server works.
func (c *Cluster) Away(t testing.TB, h *Host, part string) (back func()) {
	t.Helper()
	i := slices.IndexFunc(h.machine.daemons, func(d *daemon) bool { return d.name == part })
	if i < 0 {
		t.Fatalf("%s has no %s", h.Name, part)
	}
	d := h.machine.daemons[i]
	if err := d.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(d.again(), d.answered(c.answers)); err != nil {
			t.Fatal(err)
		}
	}
}

// writeIdentities writes who the API server is, and who its clients are: here, and on the
// cluster's hosts. The registries' authority signs for all, with one key: its own.
func (c *Cluster) writeIdentities() error {
	ca := c.Control.images.ca
	der, err := x509.MarshalECPrivateKey(ca.key)
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	api, err := ca.certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "apiserver"}, DNSNames: []string{"kubernetes", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.ParseIP(c.Control.IP), net.ParseIP(c.cabled[0]), net.ParseIP(apiService), net.ParseIP("127.0.0.1")},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	client, err := ca.certificate(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	c.Kubeconfig = filepath.Join(c.Control.Dir, "admin.conf")
	for path, text := range map[string][]byte{
		filepath.Join(c.Control.Dir, "key.pem"):       key,
		filepath.Join(c.Control.Dir, "apiserver.pem"): api,
		filepath.Join(c.Control.Dir, "parts.conf"):    ca.kubeconfig(c.cabled[0], client, key),
		c.Kubeconfig: ca.kubeconfig(c.Control.IP, client, key),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// certificate signs a certificate and returns it as a file has it.
func (a *authority) certificate(c *x509.Certificate) ([]byte, error) {
	c.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := a.sign(c)
	if err != nil {
		return nil, fmt.Errorf("make certificate of %s: %w", c.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// kubeconfig is the file of a client of the API server at that address.
func (a *authority) kubeconfig(address string, client, key []byte) []byte {
	const file = `{"apiVersion": "v1", "kind": "Config", "current-context": "test",
 "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
 "clusters": [{"name": "test", "cluster": {"server": "https://%s", "certificate-authority-data": %q}}],
 "users": [{"name": "admin", "user": {"client-certificate-data": %q, "client-key-data": %q}}]}
`
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	text := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, file, net.JoinHostPort(address, apiPort), text(ca), text(client), text(key))
}
