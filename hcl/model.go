package hcl

import (
	"regexp"
	"strings"

	"hclbench/engines"
)

// repoHint says what the repository of a model is.
const repoHint = "Its Hugging Face repository, `\"deepseek-ai/DeepSeek-R1\"`, or a directory of the host, " +
	"which is mounted into engines at the same path and looked through before they start."

func modelBlock() *blockType {
	return &blockType{
		name: "model", labels: []label{{what: "name", form: identifier}}, root: "model",
		args: []argument{
			arg("repo", text, func(m *engines.Model, s string) { m.Repo = s }).must(repoHint),
			arg("revision", text, func(m *engines.Model, s string) { m.Revision = s }),
			arg("cache", text, func(m *engines.Model, s string) { m.Cache = s }),
			arg("download", truth, func(m *engines.Model, on bool) { m.Download = on }),
			arg("size", size, func(m *engines.Model, n int64) { m.Size = n }),
			forPeople(),
		},
		make:  becomes(func(d *declared) *engines.Model { return &engines.Model{Name: d.name, Pos: pos(d.header)} }),
		check: checks(checkModel),
	}
}

// checkModel holds what a model block says against what hub and hosts have.
func checkModel(b *block, m *engines.Model) {
	const write = `Write a Hugging Face repository, such as "deepseek-ai/DeepSeek-R1", or a directory of the host.`
	if !b.empty("repo", write) {
		b.empty("cache", "Write the directory on the host that keeps models."+orNull)
		checkRepo(b, m.Repo)
	}
	cache := b.arg("cache")
	if m.Download && m.Repo != "" {
		switch at := b.arg("download").at; {
		case strings.HasPrefix(m.Repo, "/"):
			b.fail(at, "Nothing to download",
				"%q is a directory on the host, and is taken as it is. Remove download.", m.Repo)
		case !cache.fits():
			b.fail(at, "No place for the download",
				"Say where the model is kept on the host, for example:\n\n    cache = \"/data/huggingface\"")
		}
	}
	if cache.fits() && !onHost(m.Cache) {
		b.fail(cache.at, "Wrong value",
			`%q is not an absolute path. Write the directory on the host, such as "/data/huggingface".`, m.Cache)
	}
}

// repoForm is a repository of the hub: ORG/NAME, and NAME of those older than organizations.
var repoForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

// checkRepo holds a model's repository against the names that the hub has.
func checkRepo(b *block, repo string) {
	if repo == "" || strings.HasPrefix(repo, "/") || repoForm.MatchString(repo) {
		return
	}
	hint := `Write ORG/NAME, such as "deepseek-ai/DeepSeek-R1", or the absolute path of a directory of the host`
	if _, path, isURL := strings.Cut(repo, "://"); isURL {
		if _, bare, ok := strings.Cut(path, "/"); ok && repoForm.MatchString(strings.Trim(bare, "/")) {
			hint = "It is written without the address of the hub: " + strings.TrimSuffix(strings.Trim(bare, "/"), ".")
		}
	}
	b.failIn("repo", "%q is not the name of a model. %s.", repo, hint)
}
