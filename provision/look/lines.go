package look

import (
	"strconv"
	"strings"

	"hclbench/provision/reach"
	"hclbench/smi"
)

// lines are the answers of a script.
type lines struct{ reach.Answers }

func (l lines) number(name string) int64 { return number(l.One(name)) }

// text is what stands in all lines of a name.
func (l lines) text(name string) string { return strings.Join(append(l.Answers[name], ""), "\n") }

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
