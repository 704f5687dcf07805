package engines

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
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

// Unforced is the engine as it answers as its model does: without what has it accept drafted tokens whatever they are, and [Engine.Without]
// says so. It is the engine itself where nothing does. What stands neither in flags nor in variables nor in the configuration cannot be taken away.
func Unforced(e *Engine) (*Engine, error) {
	by := ForcesAcceptance(e)
	if by == "" {
		return e, nil
	}
	out := *e.With(func(_ string, recipe *Engine) *Engine {
		r := *recipe
		r.Config = withoutForcing(r.Config)
		r.Env = slices.DeleteFunc(slices.Clone(r.Env), func(v provision.EnvVar) bool { return telemetry.Forces(v.Name, v.Value.Reveal()) })
		r.Flags = slices.DeleteFunc(slices.Clone(r.Flags), func(f Flag) bool {
			return telemetry.Forces(f.Name[strings.LastIndex(f.Name, ".")+1:], f.text().Reveal())
		})
		for i, f := range r.Flags {
			if f.Value != nil {
				r.Flags[i].Value = new(withoutForcing(*f.Value))
			}
		}
		return &r
	})
	if left := ForcesAcceptance(&out); left != "" {
		return nil, fmt.Errorf("%s has %s where it cannot be taken away for a start: write it in flags, env or config", e.Address(), left)
	}
	out.Without = by
	return &out, nil
}

// withoutForcing is a text without the members that force acceptance, where it is a JSON object; else the text.
func withoutForcing(t provision.Text) provision.Text {
	shown := string(unforcedJSON([]byte(t.String())))
	if shown == t.String() {
		return t
	}
	return provision.Partly(string(unforcedJSON([]byte(t.Reveal()))), shown, t.Secrets())
}

func unforcedJSON(text []byte) []byte {
	marshal := func(v any) []byte {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // secrets stay as they are, so that they are found and hidden
		_ = enc.Encode(v)        // it came from JSON
		return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return text
	}
	changed := false
	for name, was := range members {
		var word string
		is := was
		if json.Unmarshal(was, &word) != nil {
			is = unforcedJSON(was)
		} else if inside := string(unforcedJSON([]byte(word))); inside != word { // JSON as a text
			is = marshal(inside)
		}
		if telemetry.Forces(name, word) {
			delete(members, name)
			changed = true
		} else if !bytes.Equal(was, is) {
			members[name], changed = is, true
		}
	}
	if changed { // else not a blank of it is another
		text = marshal(members)
	}
	return text
}

// generationSettings is what the part of an engine that generates is told, as in [Fingerprint].
func generationSettings(e *Engine) fingerprint {
	f := fingerprint{}
	f.command(e.generates())
	return f
}
