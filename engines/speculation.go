package engines

import (
	"maps"
	"slices"
	"strings"

	"hclbench/telemetry"
)

// Speculates is the setting by which an engine drafts tokens and has the model accept them, as its
// flags or its configuration name it; empty: it does not, as far as these say.
func Speculates(e *Engine) (setting string) {
	for _, name := range slices.Sorted(maps.Keys(told(e))) {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "config."), "--")
		if strings.HasPrefix(dashed(name), "speculative-") {
			setting, _, _ = strings.Cut(name, ".")
			return setting
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
