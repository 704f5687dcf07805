package formats

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shape is an object of the schema in testdata/benchmark-report-0.2.1.txt.
type shape struct {
	open    bool
	members map[string]string // type, by name
	must    []string
}

func reportShapes(t *testing.T) map[string]*shape {
	t.Helper()
	text, err := os.ReadFile("testdata/benchmark-report-0.2.1.txt")
	check(t, err)
	all := map[string]*shape{}
	var last *shape
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "" || name == "#":
		case line[0] != '\t':
			last = &shape{open: rest == "open", members: map[string]string{}}
			all[name] = last
		default:
			bare := strings.TrimSuffix(name, "!")
			if last.members[bare] = rest; bare != name {
				last.must = append(last.must, bare)
			}
		}
	}
	return all
}

// violations are what in a value is not of a type, each with its path.
func violations(shapes map[string]*shape, path, is string, v any) (wrong []string) {
	no := func() []string { return []string{fmt.Sprintf("%s is %v, want %s", path, v, is)} }
	number, isNumber := v.(float64)
	text, isText := v.(string)
	list, isList := v.([]any)
	object, isObject := v.(map[string]any)
	name, rest, _ := strings.Cut(is, " ")
	word, bound, bounded := strings.Cut(strings.Replace(name, "=", "", 1), ">")
	least, _ := strconv.ParseFloat(bound, 64)
	switch {
	case is == "any" || is == "text" && isText:
	case is == "{any}" && isObject:
	case is == "moment" && isText:
		if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
			return no()
		}
	case word == "whole" && number == float64(int64(number)) || word == "number":
		strict := !strings.Contains(name, "=")
		if !isNumber || bounded && (number < least || strict && number == least) {
			return no()
		}
	case is[0] == '[' && isList:
		for i, x := range list {
			wrong = append(wrong, violations(shapes, fmt.Sprintf("%s[%d]", path, i), strings.Trim(is, "[]"), x)...)
		}
	case name == "kind:" && isObject:
		for choice := range strings.FieldsSeq(rest) {
			if kind, one, _ := strings.Cut(choice, "="); kind == object["kind"] {
				return violations(shapes, path, one, v)
			}
		}
		return no()
	case shapes[strings.TrimSuffix(name, ":")] != nil && isObject:
		s := shapes[strings.TrimSuffix(name, ":")]
		if rest != "" && !slices.Contains(strings.Split(rest, ", "), fmt.Sprint(object["units"])) {
			return no()
		}
		for _, member := range s.must {
			if object[member] == nil {
				wrong = append(wrong, path+" has no "+member)
			}
		}
		for member, x := range object {
			if of, known := s.members[member]; known {
				wrong = append(wrong, violations(shapes, path+"."+member, of, x)...)
			} else if !s.open {
				wrong = append(wrong, path+" has "+member)
			}
		}
	case isText && shapes[name] == nil && slices.Contains(strings.Split(is, "|"), text):
	default:
		return no()
	}
	return wrong
}

// TestSchemaBites: the schema of the tests refuses what the published one refuses.
func TestSchemaBites(t *testing.T) {
	shapes := reportShapes(t)
	for text, want := range map[string]string{
		`{"version": "0.2.1", "run": {"uid": "u"}, "results": {}}`:                                                                                                  "",
		`{"version": "0.2.1", "results": {}}`:                                                                                                                       "report has no run",
		`{"run": {"uid": 1}, "results": {}}`:                                                                                                                        "report.run.uid is 1, want text",
		`{"run": {"uid": "u", "goodput": 1}, "results": {}}`:                                                                                                        "report.run has goodput",
		`{"run": {"uid": "u", "time": {"start": "noon"}}, "results": {}}`:                                                                                           "report.run.time.start is noon, want moment",
		`{"run": {"uid": "u"}, "results": {"observability": {"mine": 1}}}`:                                                                                          "",
		`{"run": {"uid": "u"}, "results": {"request_performance": {"aggregate": {"requests": {"total": 1.5}}}}}`:                                                    "total is 1.5, want whole>=0",
		`{"run": {"uid": "u"}, "results": {"request_performance": {"aggregate": {"latency": {"request_latency": {"units": "h", "mean": 1}}}}}}`:                     "want Statistics: ms, s",
		`{"run": {"uid": "u"}, "results": {"request_performance": {"aggregate": {"latency": {"request_latency": {"units": "s"}}}}}}`:                                "has no mean",
		`{"run": {"uid": "u"}, "results": {}, "scenario": {"stack": [{"metadata": {"label": "a", "cfg_id": "b"}, "native": {}, "standardized": {"kind": "pod"}}]}}`: "want kind: generic=Generic",
	} {
		got := violations(shapes, "report", "Report", any(members(t, []byte(text))))
		if len(got) == 0 && want != "" || want == "" && len(got) > 0 || len(got) > 0 && !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
