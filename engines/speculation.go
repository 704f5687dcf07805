package engines

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"hclbench/engines/setting"
	"hclbench/telemetry"
)

// Speculates is the setting by which an engine drafts tokens and has the model accept them, as its
// flags or its configuration name it; empty: it does not, as far as these say.
func Speculates(e *Engine) string {
	d := e.generates().dialect()
	for _, name := range slices.Sorted(maps.Keys(generationSettings(e))) {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "config."), "--")
		option, _, _ := strings.Cut(name, ".")
		begins := strings.HasPrefix(option, "speculative_") || strings.HasPrefix(option, "speculative-") // of any file, any command
		if begins || d.means(option).Is(setting.Drafts) {
			return option
		}
	}
	return ""
}

// Draft is the model of an engine's drafts, which lies beside its own; nil: hcl does not fetch its model, or it has no such one.
func Draft(e *Engine) *Model {
	if e.Model == nil || !e.Model.Download || e.Command != nil {
		return nil
	}
	repo, _ := e.says(setting.Draft)
	revision, _ := e.says(setting.DraftRevision)
	const config = "speculative-config" // vLLM's, whole or member by member
	whole, _ := e.Flag(config)
	var members struct{ Model, Revision string }
	if json.Unmarshal([]byte(whole), &members) == nil {
		repo, revision = cmp.Or(repo, members.Model), cmp.Or(revision, members.Revision)
	}
	if e.Kind == VLLM {
		model, _ := e.Flag(config + ".model")
		its, _ := e.Flag(config + ".revision")
		repo, revision = cmp.Or(repo, model), cmp.Or(revision, its)
	}
	if !strings.Contains(repo, "/") || strings.HasPrefix(repo, "/") || repo == e.Model.Repo { // a method's name, or a directory
		return nil
	}
	draft := *e.Model
	draft.Repo, draft.Revision, draft.Size = repo, revision, 0
	return &draft
}

// ForcesAcceptance is the setting that has an engine accept drafted tokens whatever they are; empty: nothing.
func ForcesAcceptance(e *Engine) string {
	_, by := telemetry.ForcedAcceptance(generationSettings(e))
	return by
}

// generationSettings is what the part of an engine that generates is told, as in [Fingerprint].
func generationSettings(e *Engine) fingerprint {
	f := fingerprint{}
	f.command(e.generates())
	return f
}
