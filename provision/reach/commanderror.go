package reach

import (
	"fmt"
	"strings"

	"hclbench/plain"
)

// CommandError is a command that ran on a host and did not exit with 0.
type CommandError struct {
	Host     string // as [provision.Host.String] says it
	Command  string
	ExitCode int // -1 when a signal ended it
	Signal   string
	Stderr   string // its last 64 KiB
}

// stderrTail is how many of the last lines of stderr a message holds, each of at most
// maxLine bytes.
const (
	stderrTail = 5
	maxLine    = 8 << 10 / stderrTail
)

// Error names the command and the last lines of its stderr.
func (e *CommandError) Error() string {
	how := fmt.Sprintf("exited with %d", e.ExitCode)
	if e.Signal != "" {
		how = "ended by signal " + e.Signal
	}
	text := fmt.Sprintf("%s: %s %s", e.Host, shortCommand(e.Command), how)
	if tail := LastLines(e.Stderr, stderrTail); tail != "" {
		text += ": " + tail
	}
	return text
}

// shortCommand is a command as a message shows it: its first line, not too long.
func shortCommand(command string) string {
	const most = 100
	line, rest, _ := strings.Cut(strings.TrimSpace(command), "\n")
	if r := []rune(line); len(r) > most {
		return fmt.Sprintf("`%s…`", string(r[:most]))
	}
	if rest != "" {
		return fmt.Sprintf("`%s …`", line)
	}
	return fmt.Sprintf("`%s`", line)
}

// LastLines returns the last n lines of what a host has said that are not empty,
// joined by " / ".
func LastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(plain.Text(s)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, plain.Cut(line, maxLine))
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], " / ")
}
