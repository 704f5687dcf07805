package hcl

import (
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"hclbench/engines"
	"hclbench/plain"
	"hclbench/provision"
)

// empty reports an argument whose text has nothing in it, which is not the same as
// an argument that is left out: a variable that is not set often stands behind it.
func (l *lab) empty(i *instance, name, write string) bool {
	x, said := i.settings[name]
	s, isText := x.value.(string)
	if !said || !isText || strings.TrimSpace(s) != "" {
		return false
	}
	l.errIn(l.expression(x, name), nil, "Wrong value", "\""+name+"\" is empty. "+write)
	i.incomplete = true
	return true
}

// expression is what a setting was written as.
func (l *lab) expression(x setting, name string) hclsyntax.Expression {
	if a, ok := x.body.Attributes[name]; ok {
		return a.Expr
	}
	return &hclsyntax.LiteralValueExpr{Val: x.raw, SrcRange: x.at}
}

// orNull is how an argument is left out by an expression.
const orNull = " To leave it out, write null, or remove the argument."

// checkHost holds what a host block says against what hosts, keys and GPUs are.
func (l *lab) checkHost(i *instance, h *provision.Host) {
	s := i.settings
	if !l.empty(i, "address", `Write the host's name or IP address, or "local" for the machine that hcl runs on.`) && h.Address != "" {
		l.checkAddress(i, h.Address)
	}

	l.empty(i, "identity_file", "Write the file of a private key."+orNull)
	if !l.empty(i, "host_key", "Write the host's public key."+orNull) && h.HostKey != "" {
		if err := provision.CheckHostKey(h.HostKey); err != nil {
			l.errOnce(s["host_key"].at, "Wrong value", "%q is not a public key: %v. Write one such as \"ssh-ed25519 AAAA…\", as it stands in the host's /etc/ssh/ssh_host_ed25519_key.pub.", plain.Cut(h.HostKey, 60), err)
			i.incomplete = true
		}
	}
	x, said := s["gpus"]
	if raw, ok := asString(x.raw); said && ok && strings.TrimSpace(raw) == "" {
		l.errIn(l.expression(x, "gpus"), nil, "Wrong value", `"gpus" is empty, so nothing would be checked. Write which GPUs must be there, such as "8xH200".`+orNull)
		i.incomplete = true
	}
	if model := h.GPUs.Model; said && model != "" && !knownGPU(model) {
		l.warn(x.at, "Unknown GPU", "hcl knows no GPU %q, and takes it for one of %s.%s The host is refused unless its driver tells of such GPUs.", model, makerOf(h.GPUs), didYouMean(model, gpuModels(), nil))
	}
}

func (l *lab) checkAddress(i *instance, address string) {
	if why := wrongAddress(address); why != "" {
		l.errOnce(i.settings["address"].at, "Wrong value", "%q is not the address of a host. %s", address, why)
		i.incomplete = true
	}
}

// knownGPU takes "A100-SXM4-80GB" for an A100.
func knownGPU(model string) bool {
	first, _, _ := strings.Cut(model, "-")
	return slices.ContainsFunc(gpuModels(), func(known string) bool { return strings.EqualFold(known, model) || strings.EqualFold(known, first) })
}

func makerOf(g provision.GPUs) string {
	if g.Vendor == provision.AMD {
		return "AMD"
	}
	return "NVIDIA"
}

// gpuModels are the GPUs of data centres and workstations that inference runs on. Of
// two that are as near to a slip, the first is suggested.
func gpuModels() []string {
	return []string{
		"H200", "H100", "H800", "H20", "GH200", "B200", "B100", "B300", "GB200", "GB300",
		"A100", "A800", "A40", "A30", "A10G", "A10", "A16", "A2", "L40S", "L40", "L20", "L4", "L2", "T4", "V100", "V100S", "P100", "P40",
		"A6000", "A5000", "A4000", "RTX6000", "RTX5000", "RTX4000", "RTX5090", "RTX5080", "RTX4090", "RTX4080", "RTX3090", "RTX3080", "RTXPRO6000", "RTX-PRO-6000", "DGX-Spark", "GB10",
		"MI300X", "MI300A", "MI308X", "MI325X", "MI350X", "MI355X", "MI250X", "MI250", "MI210", "MI100", "MI50", "MI60",
		"W7900", "W7800", "R9700",
	}
}

// likeIPv4 is what is meant as an address of numbers.
var likeIPv4 = regexp.MustCompile(`^\d+(\.\d+){3}$`)

// wrongNumbers reports whether an address of numbers is none.
func wrongNumbers(host string) bool { return likeIPv4.MatchString(host) && net.ParseIP(host) == nil }

// repoForm is a repository of the model hub: ORG/NAME, and NAME of those that are
// older than organizations.
var repoForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

// checkRepo holds a model's repository against the names that the hub has.
func (l *lab) checkRepo(i *instance, m *engines.Model) {
	if l.empty(i, "repo", `Write the model's Hugging Face repository, such as "deepseek-ai/DeepSeek-R1", or a directory of the host.`) {
		return
	}
	l.empty(i, "cache", "Write the directory on the host that keeps models."+orNull)
	x := i.settings["repo"]
	if m.Repo == "" || strings.HasPrefix(m.Repo, "/") || repoForm.MatchString(m.Repo) {
		return
	}
	hint := `Write ORG/NAME, such as "deepseek-ai/DeepSeek-R1", or the absolute path of a directory on the host.`
	if _, path, isURL := strings.Cut(m.Repo, "://"); isURL {
		if _, repo, ok := strings.Cut(path, "/"); ok && repoForm.MatchString(strings.Trim(repo, "/")) {
			hint = "It is written without the address of the hub: " + strings.Trim(repo, "/")
		}
	}
	l.errOnce(x.at, "Wrong value", "%q is not the name of a model. %s", m.Repo, strings.TrimSuffix(hint, ".")+".")
	i.incomplete = true
}
