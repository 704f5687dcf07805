// Kube is what a Kubernetes cluster is made of, in one program: the parts of its control
// plane and of its nodes, the DNS server and the client that everybody has. Package
// testhost builds it and makes clusters of it. It stands in a module of its own, so that
// the hundreds of modules that it needs are not those of hcl.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/coredns/coredns/coremain"
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	// What the DNS server does, in the order that it says of itself.
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/template"
)

// parts are what the program can be, by its first argument.
var parts = map[string]func(){
	"apiserver":          command(apiserver.NewAPIServerCommand),
	"controller-manager": command(manager.NewControllerManagerCommand),
	"dns":                dns,
	"gpus":               gpus,
	"kubectl":            command(kubectl.NewDefaultKubectlCommand),
	"kubelet":            command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"proxy":              command(proxy.NewProxyCommand),
	"scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
}

func command(make func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(make())) }
}

// dns takes "-conf FILE", a Corefile.
func dns() {
	dnsserver.Directives = []string{"errors", "kubernetes", "template"}
	coremain.Run()
}

func main() {
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		part := parts[os.Args[1]]
		os.Args = append(os.Args[:1], os.Args[2:]...)
		part()
		return
	}
	fmt.Fprintln(os.Stderr, "usage: kube PART [flags]; parts are", strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
	os.Exit(2)
}
