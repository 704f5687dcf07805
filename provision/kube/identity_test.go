package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"hclbench/provision"
)

// TestIdentity: a cluster is known by its server and by who vouches for it, and not by what the kubeconfig
// calls it, or where that lies.
func TestIdentity(t *testing.T) {
	const form = `apiVersion: v1
kind: Config
current-context: %[1]s
contexts: [{name: %[1]s, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "%[2]s", certificate-authority: %[3]s}}]
users: [{name: u, user: {token: t}}]
`
	dir := t.TempDir()
	of := func(context, server, authority string) string {
		ca, config := filepath.Join(dir, "ca"), filepath.Join(dir, "config-"+context)
		for path, text := range map[string]string{ca: authority, config: fmt.Sprintf(form, context, server, ca)} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		is, err := Identity(&provision.Cluster{Name: "moai", Kubeconfig: config})
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	one, other := authority(t), authority(t)
	is := of("default", "https://127.0.0.1:6443", one)
	for what, got := range map[string]bool{
		"another server": of("default", "https://127.0.0.1:6444", one) != is,
		"another CA":     of("default", "https://127.0.0.1:6443", other) != is,
		"other names":    of("mine", "https://127.0.0.1:6443", one) == is,
	} {
		if !got {
			t.Errorf("%s: it is not told from %q, or is", what, is)
		}
	}
	if is, err := Identity(&provision.Cluster{Name: "moai", Kubeconfig: filepath.Join(dir, "none")}); err == nil {
		t.Errorf("without a kubeconfig it is %q", is)
	}
}

// authority is the certificate of somebody who vouches.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	as := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, as, as, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
