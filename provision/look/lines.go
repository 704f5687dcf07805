package look

import (
	"strconv"
	"strings"

	"hclbench/plain"
	"hclbench/smi"
)

// lines are what a script has printed, a fact a line as NAME=VALUE: the values of each
// name in their order.
type lines map[string][]string

func readLines(out string) lines {
	l := lines{}
	for line := range strings.Lines(plain.Text(out)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		l[name] = append(l[name], value)
	}
	return l
}

// one is the last value of a name, "" where there is none.
func (l lines) one(name string) string {
	if all := l[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

func (l lines) number(name string) int64 { return number(l.one(name)) }

// text is what stands in all lines of a name.
func (l lines) text(name string) string { return strings.Join(append(l[name], ""), "\n") }

// tool is one of AMD's, and what it tells of GPUs in the lines of a name.
type tool struct {
	name, lines string
	read        func(gpus []smi.GPU, system smi.Object)
}

// ask reads what the tools have printed; a tool that fails is a problem.
func (l lines) ask(tools []tool) (problems []string) {
	for _, t := range tools {
		text := l.text(t.lines)
		if strings.TrimSpace(text) == "" {
			continue
		}
		gpus, system, err := smi.Parse(text)
		if err != nil {
			problems = append(problems, t.name+": "+err.Error())
		}
		t.read(gpus, system)
	}
	return problems
}

// number reads a whole number; what is not one, such as nvidia-smi's "[N/A]",
// is 0.
func number(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n
}

// words are texts as words for a shell.
func words(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = plain.Quote(t)
	}
	return strings.Join(quoted, " ")
}
