package provision

import (
	"fmt"
	"log/slog"
	"strings"
)

// Redacted is what a secret looks like wherever it is shown, stored or hashed.
const Redacted = "(sensitive)"

// Text is a string that may be a secret. Every ordinary way of turning it into bytes (fmt verbs,
// JSON, slog) yields [Redacted] for a secret; only [Text.Reveal] gives the clear value, so the
// places that need it can be found by name. The zero value is the empty, public string.
type Text struct {
	clear  string
	shown  string // of a secret: what stands in its place
	hidden string // of a secret: what must not be shown, each part ended by a zero byte
}

// Plain is a public text.
func Plain(s string) Text { return Text{clear: s} }

// Secret is a text that must never be shown.
func Secret(s string) Text { return Text{clear: s, shown: Redacted, hidden: s + "\x00"} }

// Partly is a text with secrets in it: shown is the same text with something else
// in their place. Without secrets it is plain.
func Partly(clear, shown string, secrets []string) Text {
	if len(secrets) == 0 {
		return Plain(clear)
	}
	return Text{clear: clear, shown: shown, hidden: strings.Join(secrets, "\x00") + "\x00"}
}

// Reveal returns the clear value. Call it only where the value leaves for the
// program that needs it: a container's environment, a command's arguments.
func (t Text) Reveal() string { return t.clear }

// Secrets are the secrets in the text, in clear: what is to be removed from the
// words of somebody who was given it.
func (t Text) Secrets() []string {
	if !t.IsSecret() {
		return nil
	}
	return strings.Split(strings.TrimSuffix(t.hidden, "\x00"), "\x00")
}

// IsSecret reports whether the text must not be shown.
func (t Text) IsSecret() bool { return t.hidden != "" }

// String returns the value; of a secret, what stands in its place.
func (t Text) String() string {
	if t.IsSecret() {
		return t.shown
	}
	return t.clear
}

// Format keeps every fmt verb, %#v among them, from printing a secret.
func (t Text) Format(f fmt.State, verb rune) { fmt.Fprintf(f, fmt.FormatString(f, verb), t.String()) }

// MarshalText is what JSON sees: the value, or [Redacted] for a secret.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what was shown: of a secret that is not its value.
func (t *Text) UnmarshalText(b []byte) error {
	*t = Plain(string(b))
	return nil
}

// LogValue is what slog sees.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Concat joins texts. The result is a secret when one of the parts is, and shows
// the parts that are none.
func Concat(parts ...Text) Text {
	var t Text
	for _, p := range parts {
		t.clear += p.clear
		t.shown += p.String()
		t.hidden += p.hidden
	}
	if !t.IsSecret() {
		t.shown = ""
	}
	return t
}
