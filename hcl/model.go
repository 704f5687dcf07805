package hcl

import (
	"regexp"
	"strings"

	"hclbench/engines"
	"hclbench/hcl/lang"
)

// repoHint says what the repository of a model is.
const repoHint = "Its Hugging Face repository, `\"deepseek-ai/DeepSeek-R1\"`, or a directory of the host, " +
	"which is mounted into engines at the same path and looked through before they start."

func modelBlock() *lang.BlockType {
	return &lang.BlockType{
		Name: "model", Labels: []lang.Label{{What: "name", Form: lang.Identifier}}, Root: "model",
		Args: []lang.Argument{
			lang.Arg("repo", lang.Text, func(m *engines.Model, s string) { m.Repo = s }).Required(repoHint),
			lang.Arg("revision", lang.Text, func(m *engines.Model, s string) { m.Revision = s }),
			lang.Arg("cache", lang.Text, func(m *engines.Model, s string) { m.Cache = s }),
			lang.Arg("download", lang.Bool, func(m *engines.Model, on bool) { m.Download = on }),
			lang.Arg("size", lang.Size, func(m *engines.Model, n int64) { m.Size = n }),
			lang.Comment(),
		},
		Make:  lang.Makes(func(d *lang.Declared) *engines.Model { return &engines.Model{Name: d.Name, Pos: d.Header.String()} }),
		Check: lang.Checks(checkModel),
	}
}

// checkModel holds what a model block says against what hub and hosts have.
func checkModel(b *lang.Block, m *engines.Model) {
	const write = `Write a Hugging Face repository, such as "deepseek-ai/DeepSeek-R1", or a directory of the host.`
	if !b.FailIfEmpty("repo", write) {
		b.FailIfEmpty("cache", "Write the directory on the host that keeps models."+orNull)
		checkRepo(b, m.Repo)
	}
	cache := b.Arg("cache")
	if m.Download && m.Repo != "" {
		switch at := b.At("download"); {
		case strings.HasPrefix(m.Repo, "/"):
			b.Fail(at, "Nothing to download",
				"%q is a directory on the host, and is taken as it is. Remove download.", m.Repo)
		case !cache.IsValid():
			b.Fail(at, "No place for the download",
				"Say where the model is kept on the host, for example:\n\n    cache = \"/data/huggingface\"")
		}
	}
	if cache.IsValid() && !onHost(m.Cache) {
		b.Fail(cache.At, "Wrong value",
			`%q is not an absolute path. Write the directory on the host, such as "/data/huggingface".`, m.Cache)
	}
}

// repoForm is a repository of the hub: ORG/NAME, and NAME of those older than organizations.
var repoForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

// checkRepo holds a model's repository against the names that the hub has.
func checkRepo(b *lang.Block, repo string) {
	if repo == "" || strings.HasPrefix(repo, "/") || repoForm.MatchString(repo) {
		return
	}
	hint := `Write ORG/NAME, such as "deepseek-ai/DeepSeek-R1", or the absolute path of a directory of the host`
	if _, path, isURL := strings.Cut(repo, "://"); isURL {
		if _, bare, ok := strings.Cut(path, "/"); ok && repoForm.MatchString(strings.Trim(bare, "/")) {
			hint = "It is written without the address of the hub: " + strings.TrimSuffix(strings.Trim(bare, "/"), ".")
		}
	}
	b.Fail(b.ValueOf("repo"), "Wrong value", "%q is not the name of a model. %s.", repo, hint)
}
