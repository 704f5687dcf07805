package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Kubernetes' bounds: of a label's value, and of the name of a pod, which is its host's name too.
const (
	maxLabel = 63
	maxName  = 63
)

// labelValue is a text as a label can have it: itself, or what is like it and no other text has.
func labelValue(s string) string { return fit(s, "-_.", maxLabel) }

// dnsName is a text as names of pods have it.
func dnsName(s string, most int) string {
	return strings.ToLower(fit(strings.ToLower(s), "-", most))
}

// fit keeps letters, digits and what else may be, between letters or digits. What was not like that gets
// a number which tells it from others.
func fit(s, also string, most int) string {
	kept := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(also, r) {
			return r
		}
		return '-'
	}, s)
	kept = strings.Trim(kept, "-_.")
	if kept == s && len(s) <= most {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	mark := hex.EncodeToString(sum[:4])
	kept = strings.TrimRight(kept[:min(len(kept), most-len(mark)-1)], "-_.")
	if kept == "" {
		return mark
	}
	return fmt.Sprintf("%s-%s", kept, mark)
}
