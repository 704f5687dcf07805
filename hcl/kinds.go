package hcl

import (
	"math/big"
	"regexp"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

// Kinds of single values.
var (
	leaseTime  = lasting[time.Duration](2*time.Second, 24*time.Hour)
	longEnough = lasting[load.Duration](100*time.Millisecond, 0)
	span       = lasting[load.Duration](time.Millisecond, 0) // of a load
	rate       = parsed("rate", `a number above 0, or "inf"`, parseRate)
	gpus       = parsed("GPUs", `a count and a model, such as "8xH200" or "8xMI300X"`, provision.ParseGPUs)
	versions   = parsed("version", `a version with a bound, such as ">= 550, < 580"`, provision.ParseVersions)
	hexDigest  = parsed("text", "a SHA-256 in 64 hex digits, as sha256sum prints it", formed(sha256Form))
	htmlFile   = parsed("file", `the name of a page, such as "report.html"`, formed(htmlForm))

	engineVersion = inQuotes(parsed("version", `a version, such as "0.7.3"`, func(s string) (string, error) {
		return s, engines.CheckVersion(s)
	}), noFit)
)

// Kinds of words.
var (
	engineRuntime = word(provision.Docker, provision.Process)
	imageFrom     = word(provision.FromRegistry, provision.FromCaller)
	endpoint      = word(load.Endpoints()...)
	convention    = word(load.ConventionSGLang, load.ConventionVLLM)
	mode          = word(online, offline)
	automatic     = wordList(AutomaticBenchmarks, AutomaticPrefixCache, AutomaticDistributions, AutomaticTimeLines)
)

// Kinds of lists.
var (
	mounts = listOf("list of mounts", `a list of mounts, such as ["/on/host:/in/container:ro"]`, asMount)
	stages = filled(listOf("list of stages",
		`a list of stages, such as [{ duration = "1m", rate = 2 }, { duration = "1m", rate = 4 }]`, asStage))
	rows = filled(listOf("list of objects", `a list of objects, such as csvdecode(file("published.csv"))`, asRow))

	percentiles = filled(listOf("list of numbers",
		"a list of percentiles between 1 and 100, such as [50, 99, 99.9]", asPercentile))
	gpuIDs = kindOf("list of lists of texts",
		`a list of GPUs for each instance, such as [["0", "1"], ["2", "3"]]`, asGPUIDs).checked(someForEach)
)

// Kinds of objects.
var (
	flags       = sameKeys(merging(kindOf("map of flags", `an object, such as { tp = 8, trust-remote-code = true }`, asFlags)), engines.FlagKey)
	environment = merging(kindOf("map of texts", `an object with texts, such as { NAME = "value" }`, asEnvironment))
	headers     = secretly(kindOf("map of texts", `an object with texts, such as { X-Tenant = "bench" }`, asHeaders))
	adapters    = kindOf("map of numbers", `an object with shares, such as { sql = 0.5, chat = 0.25 }`, asAdapters)
	imageSizes  = kindOf("map of numbers", `an object with shares, such as { "1280x720" = 0.5, "256x256" = 0.5 }`, asImageSizes)
	ulimits     = kindOf("map of limits",
		`an object with whole numbers, -1 for none, such as { memlock = -1, nofile = 1048576 }`, asUlimits)
)

// Kinds of references.
var (
	hostOfLab    = reference[provision.Host]("host", "host.name")
	clusterOfLab = reference[provision.Cluster]("cluster", "cluster.name")
	modelOfLab   = reference[engines.Model]("model", "model.name")
	hostsOfLab   = referenceList[provision.Host]("host", "[host.a, host.b]")
	clientsOfLab = orOne(hostsOfLab, "host", "host.client or [host.c0, host.c1]")
	engineOfLab  = reference[engines.Engine]("engine", "engine.vllm.h200")
	groupOfLab   = reference[engines.Engine]("group", "group.name")
	measured     = reference[engines.Engine]("engine", "engine.vllm.h200", "group")
	datasetOfLab = reference[load.Dataset]("dataset", "dataset.random.short")
	jumpHost     = orElse(hostOfLab, `a host, such as host.bastion or "user@bastion:22"`, asJump)
)

var (
	sha256Form = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	htmlForm   = regexp.MustCompile(`\.html$`)
)

func parseRate(s string) (load.Rate, error) {
	r, err := load.ParseRate(s)
	if err == nil && r == 0 {
		err = noFit
	}
	return r, err
}

func asPercentile(v cty.Value) (float64, error) {
	f, ok := asFloat(v)
	switch {
	case !ok || f <= 0 || f >= 100:
		return 0, noFit
	case f < 1:
		return 0, wrong("Percentiles are percents: write %s for %s.",
			formatNumber(big.NewFloat(f*100)), formatNumber(big.NewFloat(f)))
	}
	return f, nil
}

// asJump is a host that the text says whole.
func asJump(v cty.Value) (*provision.Host, error) {
	s, ok := asString(v)
	if !ok || v.Type() != cty.String {
		return nil, noFit
	}
	return HostAt(s)
}

// HostAt is the host that a text names whole: "user@host:port", user and port where they are
// not the usual ones.
func HostAt(s string) (*provision.Host, error) {
	h := &provision.Host{Name: s, Address: s, Runtime: provision.Docker}
	if user, address, ok := strings.Cut(s, "@"); ok {
		h.User, h.Address = user, address
	}
	return h, wrongAddress(h.Address)
}
