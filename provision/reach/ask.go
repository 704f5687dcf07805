package reach

import (
	"context"
	"strings"

	"hclbench/plain"
)

// Ask runs a script that prints one fact a line as NAME=VALUE. args are its arguments.
func (c *Conn) Ask(ctx context.Context, script string, args ...string) (Answers, error) {
	out, err := c.Run(ctx, "set -- "+Words(args)+"\n"+script, nil)
	return ReadAnswers(out), err
}

// Answers are the values of each name in the order in which they were printed.
type Answers map[string][]string

// ReadAnswers reads what a script has printed.
func ReadAnswers(out string) Answers {
	a := Answers{}
	for line := range strings.Lines(plain.Text(out)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		a[name] = append(a[name], value)
	}
	return a
}

// One is the last value of a name, "" where there is none.
func (a Answers) One(name string) string {
	if all := a[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// Words are texts as words for a shell.
func Words(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = plain.Quote(t)
	}
	return strings.Join(quoted, " ")
}
