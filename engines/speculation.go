package engines

import (
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
	for _, name := range slices.Sorted(maps.Keys(told(e))) {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "config."), "--")
		option, _, _ := strings.Cut(name, ".")
		begins := strings.HasPrefix(option, "speculative_") || strings.HasPrefix(option, "speculative-") // of any file, any command
		if begins || d.means(option).Is(setting.Drafts) {
			return option
		}
	}
	return ""
}

// ForcesAcceptance is the setting that has an engine accept drafted tokens whatever they are; empty: nothing.
func ForcesAcceptance(e *Engine) string {
	_, by := telemetry.ForcedAcceptance(told(e))
	return by
}

// told is what the part of an engine that generates is told, as in [Fingerprint].
func told(e *Engine) fingerprint {
	f := fingerprint{}
	f.command(e.generates())
	return f
}
