package report

import (
	"encoding/xml"
	"fmt"
	"io"
)

// JUnit writes the checks as test cases that CI systems show: one for each limit of
// each cell. What cannot be said is a failure too.
func (d *Difference) JUnit(w io.Writer) error {
	type note struct {
		Message string `xml:"message,attr"`
	}
	type testCase struct {
		Class   string `xml:"classname,attr"`
		Name    string `xml:"name,attr"`
		Failure *note  `xml:"failure,omitempty"`
		Skipped *note  `xml:"skipped,omitempty"`
	}
	type suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	s := suite{Name: "hcl compare"}
	for _, c := range d.Checks {
		t := testCase{Class: c.Benchmark, Name: c.Cell + ": " + c.Limit}
		switch c.Result {
		case Fail:
			t.Failure = &note{c.String()}
			s.Failures++
		case Unknown:
			t.Failure = &note{"unknown: " + c.String()}
			s.Failures++
		case Skipped:
			t.Skipped = &note{c.Why}
			s.Skipped++
		}
		s.Tests++
		s.Cases = append(s.Cases, t)
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}
